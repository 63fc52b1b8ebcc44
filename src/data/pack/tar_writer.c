/* A tar archive to a file descriptor through one buffer. */
#include "data/pack/tar_writer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/file.h"
#include "data/tar/format.h"

enum { NAME_BYTES = 100, PAX_BYTES = 4096 };

/* Eleven octal digits. */
#define LARGEST_OCTAL ((UINT64_C(1) << 33) - 1)

/* The fields of a ustar header that are not 0 here. */
typedef struct ustar {
  char name[NAME_BYTES];
  char mode[8], uid[8], gid[8];
  char size[12], time[12];
  char checksum[8];
  char type;
  char linked[100];
  char magic[6], version[2];
  char rest[247];
} ustar;

_Static_assert(sizeof(ustar) == ULL__TAR_BLOCK, "a header is one block");

static uint64_t padded(uint64_t bytes) {
  return ull__align_up(bytes, ULL__TAR_BLOCK);
}

/* ---- headers ---- */

static bool needs_pax(const char *name, uint64_t bytes) {
  return strlen(name) > NAME_BYTES || bytes > LARGEST_OCTAL;
}

/* "LENGTH KEY=VALUE\n", where LENGTH counts its own digits. */
static size_t add_record(char *to, size_t used, const char *key, const char *value) {
  size_t rest = strlen(key) + strlen(value) + 3; /* blank, =, newline */
  size_t length = rest + 1;
  while (length != rest + (size_t)snprintf(NULL, 0, "%zu", length)) length++;
  return used + (size_t)snprintf(to + used, PAX_BYTES - used, "%zu %s=%s\n", length, key, value);
}

static size_t describe_pax(const char *name, uint64_t bytes, char text[PAX_BYTES]) {
  size_t used = 0;
  char number[24];
  if (strlen(name) > NAME_BYTES) used = add_record(text, used, "path", name);
  snprintf(number, sizeof number, "%" PRIu64, bytes);
  if (bytes > LARGEST_OCTAL) used = add_record(text, used, "size", number);
  return used;
}

static void fill_header(ustar *header, const char *name, uint64_t bytes, char type) {
  *header = (ustar){.type = type};
  memcpy(header->name, name, strnlen(name, NAME_BYTES));
  snprintf(header->mode, sizeof header->mode, "%07o", 0644);
  snprintf(header->uid, sizeof header->uid, "%07o", 0);
  snprintf(header->gid, sizeof header->gid, "%07o", 0);
  snprintf(header->size, sizeof header->size, "%011" PRIo64, bytes > LARGEST_OCTAL ? 0 : bytes);
  snprintf(header->time, sizeof header->time, "%011o", 0);
  memcpy(header->magic, "ustar", sizeof header->magic);
  memcpy(header->version, "00", sizeof header->version);
  memset(header->checksum, ' ', sizeof header->checksum);
  unsigned sum = 0;
  for (size_t i = 0; i < sizeof *header; i++) sum += ((const uint8_t *)header)[i];
  snprintf(header->checksum, sizeof header->checksum, "%06o", sum); /* then 0 and a blank */
}

/* ---- output ---- */

ull_status ull__pack_io_error(const char *path, const char *action) {
  int reason = errno;
  ull__fail_io(path, action);
  if (reason == ENOSPC || reason == EDQUOT || reason == EFBIG)
    return ull__error_change("make room and run the same again: it goes on behind the last whole "
                             "shard");
  return ull__error_change("write to another folder with --out");
}

static ull_status flush(ull__tar_writer *tar) {
  if (!ull__write_all(tar->file, tar->buffer, tar->used))
    return ull__pack_io_error(tar->path, "write");
  tar->used = 0;
  return ULL_OK;
}

/* `data` NULL: zeros. */
static ull_status put(ull__tar_writer *tar, const void *data, size_t bytes) {
  const uint8_t *from = data;
  while (bytes > 0) {
    size_t room = ULL__TAR_WRITER_BUFFER - tar->used;
    size_t part = bytes < room ? bytes : room;
    if (from != NULL)
      memcpy(tar->buffer + tar->used, from, part);
    else
      memset(tar->buffer + tar->used, 0, part);
    tar->used += part;
    tar->bytes += part;
    bytes -= part;
    if (from != NULL) from += part;
    if (tar->used == ULL__TAR_WRITER_BUFFER) ULL__TRY(flush(tar));
  }
  return ULL_OK;
}

static ull_status pad(ull__tar_writer *tar) {
  return put(tar, NULL, (size_t)(padded(tar->bytes) - tar->bytes));
}

static ull_status put_header(ull__tar_writer *tar, const char *name, uint64_t bytes, char type) {
  ustar header;
  fill_header(&header, name, bytes, type);
  return put(tar, &header, sizeof header);
}

static ull_status put_pax(ull__tar_writer *tar, const char *name, uint64_t bytes) {
  char text[PAX_BYTES];
  size_t length = describe_pax(name, bytes, text);
  ULL__TRY(put_header(tar, "pax", length, 'x'));
  ULL__TRY(put(tar, text, length));
  return pad(tar);
}

/* ---- the writer ---- */

ull_status ull__tar_writer_begin(ull__tar_writer *tar, int file, const char *path) {
  *tar = (ull__tar_writer){.file = file, .path = path};
  tar->buffer = ull__alloc(ULL__TAR_WRITER_BUFFER, 1);
  return tar->buffer != NULL ? ULL_OK : ull_error_last()->status;
}

ull_status ull__tar_writer_member(ull__tar_writer *tar, const char *name, uint64_t bytes) {
  if (tar->open > 0)
    return ULL__FAIL(ULL_ERROR_INVALID, "%s: a member lacks %" PRIu64 " bytes", tar->path,
                     tar->open);
  if (needs_pax(name, bytes)) ULL__TRY(put_pax(tar, name, bytes));
  tar->open = bytes;
  return put_header(tar, name, bytes, '0');
}

ull_status ull__tar_writer_add(ull__tar_writer *tar, const void *data, size_t bytes) {
  if (bytes > tar->open)
    return ULL__FAIL(ULL_ERROR_INVALID, "%s: a member is longer than announced", tar->path);
  tar->open -= bytes;
  ULL__TRY(put(tar, data, bytes));
  return tar->open == 0 ? pad(tar) : ULL_OK;
}

ull_status ull__tar_writer_end(ull__tar_writer *tar) {
  ULL__TRY(put(tar, NULL, ULL__TAR_WRITER_END));
  return flush(tar);
}

void ull__tar_writer_free(ull__tar_writer *tar) {
  ull__free(tar->buffer);
  *tar = (ull__tar_writer){.file = -1};
}

uint64_t ull__tar_writer_member_bytes(const char *name, uint64_t bytes) {
  char text[PAX_BYTES];
  uint64_t pax =
      needs_pax(name, bytes) ? ULL__TAR_BLOCK + padded(describe_pax(name, bytes, text)) : 0;
  return pax + ULL__TAR_BLOCK + padded(bytes);
}
