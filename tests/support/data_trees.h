/* Trees of small files for tests of sources, and what a source says about its samples. */
#ifndef TESTS_SUPPORT_DATA_TREES_H
#define TESTS_SUPPORT_DATA_TREES_H

#include "support/data_files.h"
#include "ullage/data.h"

/* The folder of a test, or of a group of tests: set up empty, with warnings collected, and taken
 * down with all that is in it. */
extern const char *root;
int make_root(void **state);
int remove_root(void **state);

/* "tar:" and "a.tar?window=64KiB" to tar:ROOT/a.tar?window=64KiB, in one of four static buffers. */
const char *at_root(const char *scheme, const char *name);

/* root/name with the folders above it; the file holds `text`. */
void put_file(const char *root, const char *name, const char *text);
void put_bytes(const char *root, const char *name, const void *bytes, size_t count);
void put_buffer(const char *root, const char *name, const byte_buffer *buffer);
void put_folder(const char *root, const char *name);

/* Opens or ends the test with the message. */
ull_source *open_or_fail(const char *text, ull_split split);

/* The status of an attempt that must fail; nothing may come out of it. */
ull_status open_status(const char *text, ull_split split);

/* The encoded bytes of a sample's array, 0-terminated, in one of four static buffers of 64 KiB;
 * NULL where they cannot be had: the record says why. */
const char *record_text(const ull_source *source, uint64_t sample, size_t array);

/* Its label as a number (array "label" of any integer dtype), or -1000. */
int64_t label_of(const ull_source *source, uint64_t sample);

/* Warnings since the last call, one a line; static. */
void collect_warnings(void);
const char *warnings(void);

int open_descriptors(void);

#endif
