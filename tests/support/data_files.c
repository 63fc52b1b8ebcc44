#include "support/data_files.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

/* Files for tests: a failure here is a broken test machine, so it ends the program. */
static void require(bool condition, const char *what) {
  if (condition) return;
  perror(what);
  exit(99);
}

const char *make_folder(void) {
  static char path[512];
  const char *base = getenv("TMPDIR");
  snprintf(path, sizeof path, "%s/ullage-test-XXXXXX", base != NULL ? base : "/tmp");
  require(mkdtemp(path) != NULL, path);
  return path;
}

static int remove_entry(const char *path, const struct stat *about, int flag, struct FTW *at) {
  (void)about;
  (void)flag;
  (void)at;
  return remove(path);
}

void remove_tree(const char *folder) {
  nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

const char *path_in(const char *folder, const char *name) {
  static char paths[8][1024];
  static unsigned next;
  char *path = paths[next++ % 8];
  snprintf(path, sizeof paths[0], "%s/%s", folder, name);
  return path;
}

const char *source_path(const char *name) {
  const char *repository = getenv("ULLAGE_SOURCE_DIR");
  return path_in(repository != NULL ? repository : ".", name);
}

void write_file(const char *path, const void *bytes, size_t count) {
  FILE *file = fopen(path, "wb");
  require(file != NULL, path);
  require(count == 0 || fwrite(bytes, 1, count, file) == count, path);
  require(fclose(file) == 0, path);
}

void write_gzip(const char *path, const void *bytes, size_t count) {
  gzFile file = gzopen(path, "wb6");
  require(file != NULL, path);
  require(count == 0 || gzwrite(file, bytes, (unsigned)count) == (int)count, path);
  require(gzclose(file) == Z_OK, path);
}

uint8_t *read_file(const char *path, size_t *count) {
  FILE *file = fopen(path, "rb");
  require(file != NULL, path);
  fseek(file, 0, SEEK_END);
  *count = (size_t)ftell(file);
  rewind(file);
  uint8_t *bytes = malloc(*count + 1);
  require(bytes != NULL && fread(bytes, 1, *count, file) == *count, path);
  fclose(file);
  return bytes;
}

void append_bytes(byte_buffer *buffer, const void *bytes, size_t count) {
  if (buffer->count + count > buffer->capacity) {
    buffer->capacity = (buffer->count + count) * 2;
    buffer->bytes = realloc(buffer->bytes, buffer->capacity);
    require(buffer->bytes != NULL, "memory");
  }
  if (count > 0) memcpy(buffer->bytes + buffer->count, bytes, count);
  buffer->count += count;
}

void append_little(byte_buffer *buffer, uint64_t value, int count) {
  for (int i = 0; i < count; i++) {
    uint8_t byte = (uint8_t)(value >> (8 * i));
    append_bytes(buffer, &byte, 1);
  }
}

void append_big32(byte_buffer *buffer, uint32_t value) {
  uint8_t bytes[4] = {(uint8_t)(value >> 24), (uint8_t)(value >> 16), (uint8_t)(value >> 8),
                      (uint8_t)value};
  append_bytes(buffer, bytes, sizeof bytes);
}

void free_buffer(byte_buffer *buffer) {
  free(buffer->bytes);
  *buffer = (byte_buffer){0};
}

void append_idx(byte_buffer *buffer, int rank, const uint32_t *extents, const uint8_t *elements,
                size_t count) {
  append_big32(buffer, 0x0800u | (uint32_t)rank);
  for (int i = 0; i < rank; i++) append_big32(buffer, extents[i]);
  append_bytes(buffer, elements, count);
}

void append_npy(byte_buffer *buffer, const char *descr, bool fortran, const char *shape,
                const void *elements, size_t count) {
  char text[256];
  int length = snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }",
                        descr, fortran ? "True" : "False", shape);
  int padded = (10 + length + 1 + 63) / 64 * 64 - 10;
  append_bytes(buffer, "\x93NUMPY\x01\x00", 8);
  append_little(buffer, (uint64_t)padded, 2);
  append_bytes(buffer, text, (size_t)length);
  for (int i = length; i < padded - 1; i++) append_bytes(buffer, " ", 1);
  append_bytes(buffer, "\n", 1);
  append_bytes(buffer, elements, count);
}

static size_t deflate_raw(const void *bytes, size_t count, uint8_t **out) {
  z_stream stream = {0};
  size_t room = count + count / 8 + 64;
  *out = malloc(room);
  require(*out != NULL, "memory");
  require(deflateInit2(&stream, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) == Z_OK, "deflate");
  stream.next_in = (Bytef *)bytes;
  stream.avail_in = (uInt)count;
  stream.next_out = *out;
  stream.avail_out = (uInt)room;
  require(deflate(&stream, Z_FINISH) == Z_STREAM_END, "deflate");
  deflateEnd(&stream);
  return room - stream.avail_out;
}

/* The fields that the local and the central header share. */
static void append_member_fields(byte_buffer *buffer, const npz_member *member, bool deflated,
                                 size_t compressed) {
  append_little(buffer, 20, 2);
  append_little(buffer, 0, 2);
  append_little(buffer, deflated ? 8 : 0, 2);
  append_little(buffer, 0x00210000, 4);
  append_little(buffer, crc32(crc32(0, NULL, 0), member->bytes, (uInt)member->count), 4);
  append_little(buffer, compressed, 4);
  append_little(buffer, member->count, 4);
  append_little(buffer, strlen(member->name), 2);
  append_little(buffer, 0, 2);
}

static size_t append_local(byte_buffer *buffer, const npz_member *member, bool deflate_it) {
  uint8_t *packed = NULL;
  size_t compressed =
      deflate_it ? deflate_raw(member->bytes, member->count, &packed) : member->count;
  append_bytes(buffer, "PK\x03\x04", 4);
  append_member_fields(buffer, member, deflate_it, compressed);
  append_bytes(buffer, member->name, strlen(member->name));
  append_bytes(buffer, deflate_it ? packed : member->bytes, compressed);
  free(packed);
  return compressed;
}

void append_zip(byte_buffer *buffer, const npz_member *members, size_t member_count,
                bool deflate_them) {
  size_t offsets[64], compressed[64];
  for (size_t i = 0; i < member_count; i++) {
    offsets[i] = buffer->count;
    compressed[i] = append_local(buffer, &members[i], deflate_them);
  }
  size_t directory = buffer->count;
  for (size_t i = 0; i < member_count; i++) {
    append_bytes(buffer, "PK\x01\x02\x14\x00", 6);
    append_member_fields(buffer, &members[i], deflate_them, compressed[i]);
    append_little(buffer, 0, 6); /* comment, disk, internal attributes */
    append_little(buffer, 0, 4);
    append_little(buffer, offsets[i], 4);
    append_bytes(buffer, members[i].name, strlen(members[i].name));
  }
  size_t directory_bytes = buffer->count - directory;
  append_bytes(buffer, "PK\x05\x06", 4);
  append_little(buffer, 0, 4);
  append_little(buffer, member_count, 2);
  append_little(buffer, member_count, 2);
  append_little(buffer, directory_bytes, 4);
  append_little(buffer, directory, 4);
  append_little(buffer, 0, 2);
}

uint8_t idx_pixel(uint32_t sample, uint32_t y, uint32_t x) {
  return (uint8_t)(sample * 37u + y * 11u + x * 3u + (sample * y * x) % 7u);
}

static void write_idx(const char *folder, const char *prefix, const char *what, int rank,
                      const byte_buffer *content, bool gzip) {
  char name[64];
  snprintf(name, sizeof name, "%s-%s-idx%d-ubyte%s", prefix, what, rank, gzip ? ".gz" : "");
  if (gzip) {
    write_gzip(path_in(folder, name), content->bytes, content->count);
  } else {
    write_file(path_in(folder, name), content->bytes, content->count);
  }
}

void write_idx_pair(const char *folder, const char *prefix, uint32_t count, uint32_t height,
                    uint32_t width, uint32_t classes, bool gzip) {
  byte_buffer images = {0}, labels = {0};
  append_idx(&images, 3, (uint32_t[]){count, height, width}, NULL, 0);
  append_idx(&labels, 1, (uint32_t[]){count}, NULL, 0);
  for (uint32_t s = 0; s < count; s++) {
    for (uint32_t i = 0; i < height * width; i++) {
      uint8_t pixel = idx_pixel(s, i / width, i % width);
      append_bytes(&images, &pixel, 1);
    }
    uint8_t label = (uint8_t)(s % classes);
    append_bytes(&labels, &label, 1);
  }
  write_idx(folder, prefix, "images", 3, &images, gzip);
  write_idx(folder, prefix, "labels", 1, &labels, gzip);
  free_buffer(&images);
  free_buffer(&labels);
}
