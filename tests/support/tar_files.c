#include "support/tar_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zstd.h>

#include "support/data_trees.h"

static void put_octal(uint8_t *field, int digits, uint64_t value) {
  for (int i = digits - 1; i >= 0; i--, value >>= 3) field[i] = (uint8_t)('0' + (value & 7));
}

void seal(uint8_t *block) {
  unsigned sum = 0;
  memset(block + 148, ' ', 8);
  for (int i = 0; i < 512; i++) sum += block[i];
  put_octal(block + 148, 6, sum);
  block[154] = '\0';
}

void append_member(byte_buffer *tar, const char *name, const void *bytes, size_t count) {
  uint8_t block[512] = {0};
  memcpy(block, name, strlen(name));
  put_octal(block + 100, 7, 0644);
  put_octal(block + 124, 11, count);
  block[156] = '0';
  memcpy(block + 257, "ustar\00000", 8);
  seal(block);
  append_bytes(tar, block, sizeof block);
  append_bytes(tar, bytes, count);
  memset(block, 0, sizeof block);
  append_bytes(tar, block, (512 - count % 512) % 512);
}

void append_text(byte_buffer *tar, const char *name, const char *text) {
  append_member(tar, name, text, strlen(text));
}

void append_end(byte_buffer *tar) {
  static const uint8_t empty[1024];
  append_bytes(tar, empty, sizeof empty);
}

size_t picture(int i, char *text) {
  size_t bytes = (size_t)snprintf(text, 64, "picture %d ", i);
  for (size_t more = (size_t)(i * 379 % 2000); more > 0; more--)
    text[bytes++] = (char)('a' + (more * 7 + (size_t)i) % 26);
  text[bytes] = '\0';
  return bytes;
}

void append_samples(byte_buffer *tar, int first, int count, bool label_first) {
  char name[64], text[4096], label[16];
  for (int i = first; i < first + count; i++) {
    snprintf(label, sizeof label, "%d\n", i % 7);
    size_t bytes = picture(i, text);
    snprintf(name, sizeof name, "%06d.cls", i);
    if (label_first) append_text(tar, name, label);
    snprintf(name, sizeof name, "%06d.jpg", i);
    append_member(tar, name, text, bytes);
    snprintf(name, sizeof name, "%06d.cls", i);
    if (!label_first) append_text(tar, name, label);
  }
}

/* Behind a frame that is skipped, as parallel packers write it. */
void write_zstd(const char *path, const void *bytes, size_t count) {
  static const uint8_t skipped[] = {0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4};
  size_t room = ZSTD_compressBound(count);
  uint8_t *packed = malloc(sizeof skipped + room);
  memcpy(packed, skipped, sizeof skipped);
  size_t size = ZSTD_compress(packed + sizeof skipped, room, bytes, count, 3);
  assert_false(ZSTD_isError(size));
  write_file(path, packed, sizeof skipped + size);
  free(packed);
}

void expect_pictures(const ull_source *source, const int *numbers, size_t count) {
  char text[4096], name[256], ending[64];
  assert_int_equal(ull_source_sample_count(source), count);
  for (size_t i = 0; i < count; i++) {
    picture(numbers[i], text);
    const char *got = record_text(source, i, 0);
    assert_non_null(got);
    assert_string_equal(got, text);
    assert_int_equal(label_of(source, i), numbers[i] % 7);
    snprintf(ending, sizeof ending, ".tar:%06d", numbers[i]);
    ull_source_sample_name(source, i, name, sizeof name);
    assert_non_null(strstr(name, ending));
  }
}

size_t read_all(const char *text, bool exact) {
  ull_source_options options = ull_source_options_default();
  ull_source *source;
  char expected[4096], name[256];
  if (ull_source_open(text, &options, &source) != ULL_OK) {
    assert_true(ull_error_last()->status == ULL_ERROR_DATA ||
                ull_error_last()->status == ULL_ERROR_UNSUPPORTED);
    return 0;
  }
  size_t whole = 0;
  for (uint64_t i = 0; i < ull_source_sample_count(source); i++) {
    const char *got = record_text(source, i, 0);
    label_of(source, i);
    ull_source_sample_name(source, i, name, sizeof name);
    if (got == NULL) continue;
    size_t bytes = picture((int)i, expected);
    if (exact) assert_memory_equal(got, expected, strlen(got));
    whole += strlen(got) == bytes && memcmp(got, expected, bytes) == 0;
  }
  ull_source_close(source);
  return whole;
}
