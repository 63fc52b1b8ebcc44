/* The file grows under a name of its own, `PLACE.part`, which whoever holds its lock writes; it
 * takes its place by a rename. A writer that dies leaves a part that the next one empties. The
 * second section is gathered in a file without a name and copied behind the first. */
#include "data/kept_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/apart.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"

static const char MAGIC[8] = {'U', 'L', 'L', 'K', 'E', 'P', 'T', '1'};

enum { BUFFER_BYTES = 1 << 16 };

typedef struct stream {
  int descriptor;
  uint64_t bytes; /* with what is in the buffer */
  size_t used;
  uint8_t buffer[BUFFER_BYTES];
} stream;

struct ull__kept_writer {
  const char *part; /* for messages */
  stream streams[ULL__KEPT_SECTIONS];
};

/* ---- finding ---- */

static uint64_t sum_header(const ull__kept_header *header) {
  ull__kept_header copy = *header;
  copy.checksum = 0;
  return ull__hash_bytes(&copy, sizeof copy);
}

static bool is_sound(const ull__kept_header *header, const ull__kept_maker *maker, uint64_t bytes) {
  if (memcmp(header->magic, MAGIC, sizeof MAGIC) != 0 || header->version != maker->version)
    return false;
  if (header->header_bytes != sizeof *header || header->bytes != bytes) return false;
  if (header->checksum != sum_header(header)) return false;
  for (int i = 0; i < ULL__KEPT_SECTIONS; i++) {
    uint64_t offset = header->sections[i].offset;
    if (offset > bytes || header->sections[i].bytes > bytes - offset) return false;
  }
  return ull__stamp_equal(&header->stamp, &maker->stamp);
}

/* False, without a record, where there is no file that fits. */
static bool find(const char *place, const ull__kept_maker *maker, ull__kept *out) {
  if (access(place, R_OK) == 0 && ull__data_file_open(place, &out->file) == ULL_OK) {
    ull__content whole = {.file = &out->file, .bytes = out->file.bytes};
    if (whole.bytes >= sizeof out->header &&
        ull__content_read(&whole, 0, &out->header, sizeof out->header) == ULL_OK &&
        is_sound(&out->header, maker, whole.bytes))
      return true;
  }
  ull__kept_close(out);
  ull_error_clear();
  return false;
}

/* ---- writing ---- */

static ull_status cannot_write(const char *path, const char *what) {
  int error = errno;
  ULL__FAIL(ULL_ERROR_IO, "%s: cannot be %s: %s", path, what, strerror(error));
  ull__error_holder("%s", path);
  return ull__error_change("make room there, or set XDG_CACHE_HOME to another folder");
}

static ull_status write_all(const ull__kept_writer *writer, int descriptor, const uint8_t *data,
                            size_t bytes) {
  return ull__write_all(descriptor, data, bytes) ? ULL_OK : cannot_write(writer->part, "written");
}

static ull_status flush(ull__kept_writer *writer, stream *s) {
  ull_status status = write_all(writer, s->descriptor, s->buffer, s->used);
  s->used = 0;
  return status;
}

ull_status ull__kept_write(ull__kept_writer *writer, int section, const void *data, size_t bytes) {
  stream *s = &writer->streams[section];
  const uint8_t *from = data;
  s->bytes += bytes;
  while (bytes > 0) {
    size_t room = BUFFER_BYTES - s->used, part = bytes < room ? bytes : room;
    memcpy(s->buffer + s->used, from, part);
    s->used += part;
    from += part;
    bytes -= part;
    if (s->used == BUFFER_BYTES) ULL__TRY(flush(writer, s));
  }
  return ULL_OK;
}

/* The second section behind the first, at a multiple of 8. */
static ull_status append_rest(ull__kept_writer *writer, uint64_t *offset) {
  static const uint8_t zeros[8];
  stream *first = &writer->streams[0], *rest = &writer->streams[1];
  uint64_t left = rest->bytes;
  ULL__TRY(flush(writer, rest));
  *offset = (sizeof(ull__kept_header) + first->bytes + 7) / 8 * 8;
  ULL__TRY(ull__kept_write(writer, 0, zeros, *offset - sizeof(ull__kept_header) - first->bytes));
  ULL__TRY(flush(writer, first));
  for (uint64_t at = 0; left > 0;) {
    ssize_t got = pread(rest->descriptor, rest->buffer,
                        left < BUFFER_BYTES ? (size_t)left : BUFFER_BYTES, (off_t)at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return cannot_write(writer->part, "read back");
    ULL__TRY(write_all(writer, first->descriptor, rest->buffer, (size_t)got));
    at += (uint64_t)got;
    left -= (uint64_t)got;
  }
  return ULL_OK;
}

static ull_status write_header(ull__kept_writer *writer, const ull__kept_header *header) {
  int descriptor = writer->streams[0].descriptor;
  if (pwrite(descriptor, header, sizeof *header, 0) != (ssize_t)sizeof *header ||
      fsync(descriptor) != 0)
    return cannot_write(writer->part, "written");
  return ULL_OK;
}

static ull_status fill(ull__kept_writer *writer, const ull__kept_maker *maker,
                       ull__kept_header *header) {
  stream *first = &writer->streams[0];
  *header = (ull__kept_header){
      .version = maker->version, .header_bytes = sizeof *header, .stamp = maker->stamp};
  memcpy(header->magic, MAGIC, sizeof MAGIC);
  if (ftruncate(first->descriptor, 0) != 0 ||
      lseek(first->descriptor, sizeof *header, SEEK_SET) < 0)
    return cannot_write(writer->part, "emptied");
  ULL__TRY(maker->make(maker->context, writer, header->numbers));
  header->sections[0].offset = sizeof *header;
  header->sections[0].bytes = first->bytes;
  header->sections[1].bytes = writer->streams[1].bytes;
  ULL__TRY(append_rest(writer, &header->sections[1].offset));
  header->bytes = header->sections[1].offset + header->sections[1].bytes;
  header->checksum = sum_header(header);
  return write_header(writer, header);
}

typedef struct filling {
  ull__kept_writer *writer;
  const ull__kept_maker *maker;
  ull__kept_header *header;
} filling;

static ull_status fill_apart(void *context) {
  const filling *filling = context;
  return fill(filling->writer, filling->maker, filling->header);
}

static ull_status have_filled(ull__kept_writer *writer, const ull__kept_maker *maker,
                              ull__kept_header *header) {
  filling filling = {writer, maker, header};
  if (maker->apart == NULL) return fill(writer, maker, header);
  return ull__run_apart(maker->apart, fill_apart, &filling, header, sizeof *header);
}

/* A file that has no name any more. */
static ull_status open_nameless(const char *part, int *descriptor) {
  char *name = ull__format("%s.rest", part);
  if (name == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  *descriptor = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  ull_status status = *descriptor < 0 ? cannot_write(name, "opened") : ULL_OK;
  if (status == ULL_OK) unlink(name);
  ull__free(name);
  return status;
}

/* The lock of the part of that name, whoever had it before. */
static ull_status lock_part(const char *part, int *descriptor) {
  for (;;) {
    struct stat ours, named;
    *descriptor = open(part, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (*descriptor < 0) return cannot_write(part, "opened");
    while (flock(*descriptor, LOCK_EX) != 0) {
      if (errno == EINTR) continue;
      ull_status status = cannot_write(part, "locked");
      close(*descriptor);
      return status;
    }
    bool is_named = fstat(*descriptor, &ours) == 0 && stat(part, &named) == 0 &&
                    ours.st_ino == named.st_ino && ours.st_dev == named.st_dev;
    if (is_named) return ULL_OK;
    close(*descriptor);
  }
}

/* With the lock: the finished file takes its place and is read through the same descriptor. */
static ull_status finish(const char *place, const char *part, bool is_fresh, int descriptor,
                         ull__kept *out) {
  char *path = ull__strdup(place);
  if (path == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  if (is_fresh ? unlink(part) != 0 : rename(part, place) != 0) {
    ull__free(path);
    return cannot_write(part, "put in its place");
  }
  int own = fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
  if (own < 0) {
    ull__free(path);
    return cannot_write(place, "opened");
  }
  out->file = (ull__data_file){.path = path, .descriptor = own, .bytes = out->header.bytes};
  return ULL_OK;
}

static ull_status make(const char *place, const char *part, const ull__kept_maker *maker,
                       int descriptor, ull__kept *out) {
  bool is_fresh = ull__stamp_is_fresh(&maker->stamp, ull__stamp_now_ns());
  ull__kept_writer *writer = ull__alloc(1, sizeof *writer);
  if (writer == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  writer->part = part;
  writer->streams[0].descriptor = descriptor;
  ull_status status = open_nameless(part, &writer->streams[1].descriptor);
  if (status == ULL_OK) {
    status = have_filled(writer, maker, &out->header);
    close(writer->streams[1].descriptor);
  }
  if (status == ULL_OK) status = finish(place, part, is_fresh, descriptor, out);
  if (status != ULL_OK) unlink(part);
  ull__free(writer);
  return status;
}

static ull_status open_place(const char *place, const ull__kept_maker *maker, ull__kept *out) {
  int descriptor;
  char *part = ull__format("%s.part", place);
  if (part == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  ull_status status = lock_part(part, &descriptor);
  if (status == ULL_OK) {
    if (find(place, maker, out)) { /* another process was first */
      unlink(part);
    } else {
      status = make(place, part, maker, descriptor, out);
    }
    close(descriptor);
  }
  ull__free(part);
  return status;
}

static ull_status make_folder(const char *place) {
  char *folder = ull__strndup(place, (size_t)(strrchr(place, '/') - place));
  if (folder == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  ull_status status = ull__make_folders(folder);
  ull__free(folder);
  if (status == ULL_OK) return ULL_OK;
  return ull__error_change("set XDG_CACHE_HOME to a folder for what is made once and kept");
}

ull_status ull__kept_open(const ull__kept_maker *maker, ull__kept *out) {
  char *place;
  *out = (ull__kept){.file.descriptor = -1};
  ull_error_clear();
  ULL__TRY(ull__index_place(maker->kind, maker->key, maker->key_bytes, &place));
  if (place == NULL) {
    if (ull_error_last()->status != ULL_OK) return ull_error_last()->status;
    ULL__FAIL(ULL_ERROR_IO, "there is no folder to keep %s in", maker->kind);
    return ull__error_change("set XDG_CACHE_HOME to a folder for what is made once and kept");
  }
  ull_status status = ULL_OK;
  if (!find(place, maker, out)) {
    status = make_folder(place);
    if (status == ULL_OK) status = open_place(place, maker, out);
  }
  ull__free(place);
  return status;
}

/* ---- reading ---- */

ull_status ull__kept_read(const ull__kept *kept, int section, uint64_t at, void *to, size_t bytes) {
  uint64_t size = kept->header.sections[section].bytes;
  ull__content content = {
      .file = &kept->file, .offset = kept->header.sections[section].offset, .bytes = size};
  if (at <= size && bytes <= size - at) return ull__content_read(&content, at, to, bytes);
  ULL__FAIL(ULL_ERROR_DATA, "%s: is damaged: it points outside itself", kept->file.path);
  return ull__error_change("remove the file: it is made anew");
}

void ull__kept_close(ull__kept *kept) {
  if (kept->file.path != NULL) ull__data_file_close(&kept->file);
  *kept = (ull__kept){.file.descriptor = -1};
}
