/* Bytes that can be read at any offset from any thread: a part of an open file, or memory.
 *
 * Files are read with pread, not mapped, so that a file cut while a run uses it is an error and not
 * a signal, and so that nothing but what was asked for becomes resident. */
#ifndef ULL_DATA_CONTENT_H
#define ULL_DATA_CONTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ullage/status.h"

typedef struct ull__data_file {
  char *path;
  int descriptor; /* -1 when closed */
  uint64_t bytes;
} ull__data_file;

/* A regular file; what is missing or something else is ULL_ERROR_DATA. */
ull_status ull__data_file_open(const char *path, ull__data_file *file);

/* A file that was never opened, but zeroed, is left alone. */
void ull__data_file_close(ull__data_file *file);

typedef struct ull__content {
  const ull__data_file *file; /* where the bytes are, or came from; borrowed */
  uint8_t *memory;            /* owned where set; then the file is not read */
  uint64_t offset;            /* in the file */
  uint64_t bytes;
} ull__content;

/* Copies bytes [at, at + count), which must lie inside; a file that ends early is ULL_ERROR_DATA.
 */
ull_status ull__content_read(const ull__content *content, uint64_t at, void *to, size_t count);

void ull__content_free(ull__content *content);

uint32_t ull__little32(const uint8_t *bytes);
uint64_t ull__little64(const uint8_t *bytes);
uint16_t ull__little16(const uint8_t *bytes);
uint32_t ull__big32(const uint8_t *bytes);

#endif
