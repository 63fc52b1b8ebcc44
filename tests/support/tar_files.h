/* Archives in the manner of WebDataset, written block by block, and the samples they hold: sample i
 * is a "picture" of known bytes and the label i % 7. */
#ifndef TESTS_SUPPORT_TAR_FILES_H
#define TESTS_SUPPORT_TAR_FILES_H

#include "support/data_files.h"
#include "ullage/data.h"

/* Puts the right sum into a header of 512 bytes. */
void seal(uint8_t *block);

/* A ustar header and the content, padded. */
void append_member(byte_buffer *tar, const char *name, const void *bytes, size_t count);
void append_text(byte_buffer *tar, const char *name, const char *text);
void append_end(byte_buffer *tar);

/* The content of picture i: its number, and then bytes of their own, of different lengths; 0 at the
 * end. `text` has room for 4096. */
size_t picture(int i, char *text);

/* Samples first .. first + count - 1 as NUMBER.jpg and NUMBER.cls. */
void append_samples(byte_buffer *tar, int first, int count, bool label_first);

void write_zstd(const char *path, const void *bytes, size_t count);

/* All samples of the source are those of these numbers, with their labels and names. */
void expect_pictures(const ull_source *source, const int *numbers, size_t count);

/* Opens and reads all there is; refusals are those that damage may have. `exact`: what is read must
 * be the picture of its number, as far as it goes. Returns how many were whole. */
size_t read_all(const char *text, bool exact);

#endif
