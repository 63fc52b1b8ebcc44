/* Small data files for tests, written byte by byte so that they do not depend on what reads them.
 */
#ifndef TESTS_SUPPORT_DATA_FILES_H
#define TESTS_SUPPORT_DATA_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A fresh folder under $TMPDIR or /tmp; its path is kept in a static buffer. */
const char *make_folder(void);

/* Everything below, and the folder. Links are removed, not followed. */
void remove_tree(const char *folder);

/* folder/name in one of eight rotating static buffers. */
const char *path_in(const char *folder, const char *name);

/* A file of the repository, such as "tests/data/x.json", in one of the same buffers; ctest says
 * where the repository is, else it is the current folder. */
const char *source_path(const char *name);

void write_file(const char *path, const void *bytes, size_t count);
void write_gzip(const char *path, const void *bytes, size_t count);

/* Whole file; the caller frees. */
uint8_t *read_file(const char *path, size_t *count);

/* A growing run of bytes. */
typedef struct byte_buffer {
  uint8_t *bytes;
  size_t count, capacity;
} byte_buffer;

void append_bytes(byte_buffer *buffer, const void *bytes, size_t count);
void append_little(byte_buffer *buffer, uint64_t value, int count);
void append_big32(byte_buffer *buffer, uint32_t value);
void free_buffer(byte_buffer *buffer);

/* IDX of unsigned bytes. `rank` extents, then `count` elements. */
void append_idx(byte_buffer *buffer, int rank, const uint32_t *extents, const uint8_t *elements,
                size_t count);

/* NPY version 1: `descr` as "<f4", `shape` as "(3, 2)". */
void append_npy(byte_buffer *buffer, const char *descr, bool fortran, const char *shape,
                const void *elements, size_t count);

typedef struct npz_member {
  const char *name; /* with .npy */
  const void *bytes;
  size_t count;
} npz_member;

void append_zip(byte_buffer *buffer, const npz_member *members, size_t member_count,
                bool deflate_them);

/* `count` images of height x width whose pixels are a fixed function of place and sample, and
 * labels sample % classes: train-* or t10k-* files in the folder. */
void write_idx_pair(const char *folder, const char *prefix, uint32_t count, uint32_t height,
                    uint32_t width, uint32_t classes, bool gzip);
uint8_t idx_pixel(uint32_t sample, uint32_t y, uint32_t x);

#endif
