/* Blocks are written in one piece and renamed into place, so that a reader sees the old one or the
 * new one. They are read with pread: an index of any size takes no memory of ours, and one that is
 * cut while it is used is an error and not a signal. */
#include "data/index_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/sha256.h"

static const char MAGIC[8] = {'U', 'L', 'L', 'I', 'N', 'D', 'E', 'X'};

enum { READ_BYTES = 256 * 1024, LANES = 4, TEXT_READ = 512 };

static const int64_t SECOND_NS = 1000000000;

ull__stamp ull__stamp_of(const struct stat *about) {
  return (ull__stamp){
      .device = (uint64_t)about->st_dev,
      .inode = (uint64_t)about->st_ino,
      .bytes = S_ISDIR(about->st_mode) ? 0 : (uint64_t)about->st_size,
      .modified_ns = (int64_t)about->st_mtim.tv_sec * SECOND_NS + about->st_mtim.tv_nsec,
      .changed_ns = (int64_t)about->st_ctim.tv_sec * SECOND_NS + about->st_ctim.tv_nsec,
  };
}

bool ull__stamp_equal(const ull__stamp *a, const ull__stamp *b) {
  return a->device == b->device && a->inode == b->inode && a->bytes == b->bytes &&
         a->modified_ns == b->modified_ns && a->changed_ns == b->changed_ns;
}

bool ull__stamp_is_fresh(const ull__stamp *stamp, int64_t now_ns) {
  int64_t tick = stamp->changed_ns % SECOND_NS == 0 ? 2 * SECOND_NS : SECOND_NS / 50;
  return stamp->changed_ns > now_ns - tick || stamp->modified_ns > now_ns - tick;
}

int64_t ull__stamp_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec * SECOND_NS + now.tv_nsec;
}

/* ---- checksum ---- */

/* Four lanes of multiplication and rotation: each step is a bijection of its lane, so that a change
 * in one word always shows. */
typedef struct checksum {
  uint64_t lane[LANES];
} checksum;

static uint64_t fold(uint64_t lane, uint64_t word) {
  lane = (lane ^ word) * 0x9E3779B97F4A7C15u;
  return (lane << 29) | (lane >> 35);
}

static void begin_checksum(checksum *sum) {
  for (int i = 0; i < LANES; i++) sum->lane[i] = 0x5851F42D4C957F2Du * (uint64_t)(i + 1);
}

/* All calls but the last add a multiple of 32 bytes. */
static void add_checksum(checksum *sum, const uint8_t *bytes, size_t count) {
  uint64_t words[LANES];
  checksum local = *sum;
  while (count >= sizeof words) {
    memcpy(words, bytes, sizeof words);
    for (int i = 0; i < LANES; i++) local.lane[i] = fold(local.lane[i], words[i]);
    bytes += sizeof words;
    count -= sizeof words;
  }
  memset(words, 0, sizeof words);
  memcpy(words, bytes, count);
  if (count > 0) {
    for (int i = 0; i < LANES; i++) local.lane[i] = fold(local.lane[i], words[i]);
  }
  *sum = local;
}

static uint64_t end_checksum(const checksum *sum, uint64_t total) {
  uint64_t result = total;
  for (int i = 0; i < LANES; i++) result = fold(result, sum->lane[i]);
  return result ^ (result >> 31);
}

/* ---- where ---- */

static char *cache_folder(void) {
  const char *given = getenv("XDG_CACHE_HOME");
  if (given != NULL && given[0] == '/') return ull__format("%s/ullage", given);
  const char *home = getenv("HOME");
  return home != NULL && home[0] == '/' ? ull__format("%s/.cache/ullage", home) : NULL;
}

ull_status ull__index_place(const char *kind, const void *key, size_t key_bytes, char **place) {
  ull__sha256 digest;
  char hash[ULL__SHA256_HEX];
  ull__sha256_begin(&digest);
  ull__sha256_add(&digest, key, key_bytes);
  ull__sha256_end_hex(&digest, hash);
  *place = NULL;
  char *folder = cache_folder();
  if (folder == NULL) return ULL_OK;
  *place = ull__format("%s/%s-%.32s.index", folder, kind, hash);
  ull__free(folder);
  return *place != NULL ? ULL_OK : ull_error_last()->status;
}

/* ---- reading ---- */

static bool header_is_sound(const ull__index_header *header, uint32_t version, uint64_t bytes) {
  if (memcmp(header->magic, MAGIC, sizeof MAGIC) != 0 || header->version != version ||
      header->header_bytes != sizeof *header || header->bytes != bytes) {
    return false;
  }
  for (int i = 0; i < ULL__INDEX_SECTIONS; i++) {
    uint64_t offset = header->sections[i].offset;
    if (offset < sizeof *header || offset > bytes || header->sections[i].bytes > bytes - offset)
      return false;
  }
  return true;
}

static uint64_t sum_header(checksum *sum, const ull__index_header *header) {
  ull__index_header copy = *header;
  copy.checksum = 0;
  add_checksum(sum, (const uint8_t *)&copy, sizeof copy);
  return header->bytes;
}

static bool content_is_sound(const ull__index *index) {
  uint8_t *buffer = ull__alloc(READ_BYTES, 1);
  if (buffer == NULL) return false;
  checksum sum;
  begin_checksum(&sum);
  uint64_t at = sizeof index->header;
  bool read = true;
  while (read && at < index->content.bytes) {
    uint64_t left = index->content.bytes - at;
    size_t count = left < READ_BYTES ? (size_t)left : READ_BYTES;
    read = ull__content_read(&index->content, at, buffer, count) == ULL_OK;
    add_checksum(&sum, buffer, count);
    at += count;
  }
  ull__free(buffer);
  uint64_t total = sum_header(&sum, &index->header);
  return read && end_checksum(&sum, total) == index->header.checksum;
}

static bool open_file(const char *place, uint32_t version, ull__index *out) {
  if (access(place, R_OK) != 0 || ull__data_file_open(place, &out->file) != ULL_OK) return false;
  out->content = (ull__content){.file = &out->file, .bytes = out->file.bytes};
  return out->file.bytes >= sizeof out->header &&
         ull__content_read(&out->content, 0, &out->header, sizeof out->header) == ULL_OK &&
         header_is_sound(&out->header, version, out->file.bytes) && content_is_sound(out);
}

ull_status ull__index_add_text(ull__index_texts *texts, const char *path, const char *text,
                               size_t bytes, uint32_t *at) {
  if (bytes >= UINT32_MAX - texts->count) {
    ULL__FAIL(ULL_ERROR_UNSUPPORTED, "%s: has more than 4 GiB of names", path);
    return ull__error_holder("%s", path);
  }
  ULL__TRY(ull__vector_reserve(texts, bytes + 1));
  *at = (uint32_t)texts->count;
  memcpy(texts->items + *at, text, bytes);
  texts->items[*at + bytes] = '\0';
  texts->count += bytes + 1;
  return ULL_OK;
}

bool ull__index_find(const char *place, uint32_t version, ull__index *out) {
  *out = (ull__index){.file.descriptor = -1};
  if (place == NULL) return false;
  if (open_file(place, version, out)) return true;
  ull__index_close(out);
  ull_error_clear();
  return false;
}

static ull_status outside(const ull__index *index) {
  ULL__FAIL(ULL_ERROR_DATA, "%s: is damaged: it points outside itself",
            index->file.path != NULL ? index->file.path : "an index");
  return ull__error_change("remove the file: it is made anew");
}

ull_status ull__index_read(const ull__index *index, int section, uint64_t at, void *to,
                           size_t bytes) {
  uint64_t size = index->header.sections[section].bytes;
  if (at > size || bytes > size - at) return outside(index);
  return ull__content_read(&index->content, index->header.sections[section].offset + at, to, bytes);
}

ull_status ull__index_text(const ull__index *index, int section, uint64_t at, char *to,
                           size_t room) {
  uint64_t size = index->header.sections[section].bytes;
  size_t used = 0;
  if (at >= size) return outside(index);
  while (used + 1 < room && at < size) {
    uint64_t count = room - 1 - used;
    if (count > size - at) count = size - at;
    if (count > TEXT_READ) count = TEXT_READ;
    ULL__TRY(ull__index_read(index, section, at, to + used, (size_t)count));
    const char *end = memchr(to + used, '\0', (size_t)count);
    if (end != NULL) return ULL_OK;
    used += (size_t)count;
    at += count;
  }
  to[used] = '\0';
  return ULL_OK;
}

void ull__index_close(ull__index *index) {
  ull__content_free(&index->content);
  if (index->file.path != NULL) ull__data_file_close(&index->file);
  *index = (ull__index){.file.descriptor = -1};
}

/* ---- writing ---- */

static ull_status lay_out(const ull__index_parts *parts, uint32_t version,
                          ull__index_header *header) {
  *header = (ull__index_header){.version = version, .header_bytes = sizeof *header};
  memcpy(header->magic, MAGIC, sizeof MAGIC);
  memcpy(header->numbers, parts->numbers, sizeof header->numbers);
  uint64_t at = sizeof *header;
  for (int i = 0; i < ULL__INDEX_SECTIONS; i++) {
    header->sections[i].offset = at;
    header->sections[i].bytes = parts->sections[i].bytes;
    ULL__TRY(ull__size_add(at, parts->sections[i].bytes, "an index", &at));
    ULL__TRY(ull__size_align(at, 8, "an index", &at));
  }
  header->bytes = at;
  return ULL_OK;
}

static uint8_t *assemble(const ull__index_parts *parts, ull__index_header *header) {
  uint8_t *block = ull__alloc(header->bytes, 1);
  if (block == NULL) return NULL;
  for (int i = 0; i < ULL__INDEX_SECTIONS; i++) {
    if (parts->sections[i].bytes > 0) {
      memcpy(block + header->sections[i].offset, parts->sections[i].data, parts->sections[i].bytes);
    }
  }
  checksum sum;
  begin_checksum(&sum);
  add_checksum(&sum, block + sizeof *header, header->bytes - sizeof *header);
  uint64_t total = sum_header(&sum, header);
  header->checksum = end_checksum(&sum, total);
  memcpy(block, header, sizeof *header);
  return block;
}

/* Nothing waits for the disk: after a crash the checksum tells what became of the file. */
static ull_status replace(const char *place, const uint8_t *block, uint64_t bytes) {
  char *beside = ull__format("%s.%ld.partial", place, (long)gettid());
  if (beside == NULL) return ull_error_last()->status;
  int file = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  bool written = file >= 0 && ull__write_all(file, block, bytes);
  if (file >= 0) written &= close(file) == 0;
  written = written && rename(beside, place) == 0;
  ull_status status =
      written ? ULL_OK
              : ULL__FAIL(ULL_ERROR_IO, "%s: cannot be written: %s", place, strerror(errno));
  if (!written && file >= 0) unlink(beside);
  ull__free(beside);
  return status;
}

static ull_status keep(const char *place, const uint8_t *block, uint64_t bytes) {
  char *folder = ull__strndup(place, (size_t)(strrchr(place, '/') - place));
  if (folder == NULL) return ull_error_last()->status;
  ull_status status = ull__make_folders(folder);
  ull__free(folder);
  return status == ULL_OK ? replace(place, block, bytes) : status;
}

/* The kept file takes the place of the block, whatever becomes of other processes' writing. */
static bool exchange(const char *place, uint32_t version, const uint8_t *block, ull__index *out) {
  if (keep(place, block, out->header.bytes) != ULL_OK) {
    ULL__LOG_DEBUG("the index is kept in memory: %s", ull_error_last()->message);
    ull_error_clear();
    return false;
  }
  uint64_t checksum = out->header.checksum;
  ull__index found;
  if (!ull__index_find(place, version, &found)) return false;
  if (found.header.checksum != checksum) {
    ull__index_close(&found);
    return false;
  }
  *out = found;
  out->content.file = &out->file;
  return true;
}

ull_status ull__index_make(ull_source *source, const ull_source_options *options, const char *place,
                           uint32_t version, const ull__index_parts *parts, ull__index *out) {
  *out = (ull__index){.file.descriptor = -1};
  ULL__TRY(lay_out(parts, version, &out->header));
  uint8_t *block = assemble(parts, &out->header);
  if (block == NULL) return ull_error_last()->status;
  if (place != NULL && exchange(place, version, block, out)) {
    ull__free(block);
    return ULL_OK;
  }
  out->content = (ull__content){.memory = block, .bytes = out->header.bytes};
  return ull__source_hold(source, options, source->text, out->header.bytes);
}
