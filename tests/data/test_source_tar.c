/* Shards are read as they were written: by the system's tar in all its formats, cut anywhere,
 * damaged anywhere, packed or not. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <zstd.h>

#include "base/alloc.h"
#include "base/philox.h"
#include "data/source.h"
#include "support/data_files.h"
#include "support/data_trees.h"

static const char *root;

static int set_up(void **state) {
  (void)state;
  root = make_folder();
  collect_warnings();
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  remove_tree(root);
  return 0;
}

static const char *at_root(const char *scheme, const char *name) {
  static char texts[4][1200];
  static unsigned next;
  char *text = texts[next++ % 4];
  snprintf(text, sizeof texts[0], "%s%s/%s", scheme, root, name);
  return text;
}

/* ---- writing ---- */

static void put_octal(uint8_t *field, int digits, uint64_t value) {
  for (int i = digits - 1; i >= 0; i--, value >>= 3) field[i] = (uint8_t)('0' + (value & 7));
}

static void seal(uint8_t *block) {
  unsigned sum = 0;
  memset(block + 148, ' ', 8);
  for (int i = 0; i < 512; i++) sum += block[i];
  put_octal(block + 148, 6, sum);
  block[154] = '\0';
}

static void append_member(byte_buffer *tar, const char *name, const void *bytes, size_t count) {
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

static void append_text(byte_buffer *tar, const char *name, const char *text) {
  append_member(tar, name, text, strlen(text));
}

static void append_end(byte_buffer *tar) {
  static const uint8_t empty[1024];
  append_bytes(tar, empty, sizeof empty);
}

/* The content of picture i: its number, and then bytes of their own, of different lengths. */
static size_t picture(int i, char *text) {
  size_t bytes = (size_t)snprintf(text, 64, "picture %d ", i);
  for (size_t more = (size_t)(i * 379 % 2000); more > 0; more--)
    text[bytes++] = (char)('a' + (more * 7 + (size_t)i) % 26);
  text[bytes] = '\0';
  return bytes;
}

static void append_samples(byte_buffer *tar, int first, int count, bool label_first) {
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

static void write_buffer(const char *name, const byte_buffer *buffer) {
  put_bytes(root, name, buffer->bytes, buffer->count);
}

static void write_zstd(const char *path, const void *bytes, size_t count) {
  size_t room = ZSTD_compressBound(count);
  void *packed = malloc(room);
  size_t size = ZSTD_compress(packed, room, bytes, count, 3);
  assert_false(ZSTD_isError(size));
  write_file(path, packed, size);
  free(packed);
}

/* ---- reading ---- */

static void expect_pictures(const ull_source *source, const int *numbers, size_t count) {
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

static void system_tars_equal_the_folder(void **state) {
  (void)state;
  char name[600], command[4096], text[2048];
  for (int i = 0; i < 24; i++) {
    int bytes = snprintf(name, sizeof name, "photos/class %c/%02d", "BaC"[i % 3], i);
    if (i % 4 == 1) bytes += sprintf(name + bytes, "%0*d", 60 + 8 * i, i);
    if (i == 6) bytes += sprintf(name + bytes, "line\nbreak \xff");
    sprintf(name + bytes, ".jpg");
    put_file(root, name, name);
  }
  ull_source *folder = open_or_fail(at_root("", "photos"), ULL_SPLIT_TRAIN);
  static const char *const formats[] = {"gnu", "pax", "oldgnu"};
  for (size_t f = 0; f < sizeof formats / sizeof formats[0]; f++) {
    for (int dot = 0; dot < 2; dot++) {
      snprintf(command, sizeof command, "tar --sort=name --format=%s -cf '%s/%s.tar' -C '%s' %s",
               formats[f], root, formats[f], dot ? at_root("", "photos") : root,
               dot ? "." : "photos");
      assert_int_equal(system(command), 0);
      snprintf(text, sizeof text, "tar:%s/%s.tar", root, formats[f]);
      ull_source *source = open_or_fail(text, ULL_SPLIT_TRAIN);
      assert_int_equal(ull_source_sample_count(source), 24);
      assert_int_equal(ull_source_class_count(source), 3);
      for (uint64_t i = 0; i < 24; i++) {
        assert_string_equal(record_text(source, i, 0), record_text(folder, i, 0));
        assert_int_equal(label_of(source, i), label_of(folder, i));
      }
      for (uint64_t c = 0; c < 3; c++) {
        char one[64], other[64];
        assert_string_equal(ull_source_class_name(source, c, one, sizeof one),
                            ull_source_class_name(folder, c, other, sizeof other));
      }
      ull_source_close(source);
    }
  }
  assert_string_equal(warnings(), "");
  ull_source_close(folder);
}

static void fields_of_samples(void **state) {
  (void)state;
  byte_buffer tar = {0}, npy = {0};
  const float values[3] = {1.5f, -2, 3};
  append_npy(&npy, "<f4", false, "(3,)", values, sizeof values);
  append_text(&tar, "__meta__.json", "{}");
  append_text(&tar, "README", "no sample");
  for (int i = 0; i < 4; i++) {
    char name[32], text[64];
    snprintf(name, sizeof name, "d/%d.PNG", i);
    append_text(&tar, name, "image");
    snprintf(name, sizeof name, "d/%d.seg.png", i);
    append_text(&tar, name, "mask");
    snprintf(name, sizeof name, "d/%d.left.jpg", i);
    append_text(&tar, name, "left");
    snprintf(name, sizeof name, "d/%d.feat.npy", i);
    append_member(&tar, name, npy.bytes, npy.count);
    snprintf(name, sizeof name, "d/%d.json", i);
    snprintf(text, sizeof text, "{\"caption\": \"x\", \"label\": %d}", 40 + i);
    append_text(&tar, name, text);
    snprintf(name, sizeof name, "d/%d.txt", i);
    append_text(&tar, name, "caption");
  }
  append_text(&tar, "d/9.png", "lacks the rest");
  append_end(&tar);
  write_buffer("a.tar", &tar);
  ull_source *source = open_or_fail(at_root("tar:", "a.tar"), ULL_SPLIT_TRAIN);
  assert_int_equal(ull_source_sample_count(source), 4);
  static const char *const names[] = {"image", "left", "mask", "feat", "label"};
  assert_int_equal(ull_source_array_count(source), 5);
  for (size_t i = 0; i < 5; i++) assert_string_equal(ull_source_array(source, i)->name, names[i]);
  assert_int_equal(ull_source_array(source, 2)->content, ULL_CONTENT_MASK);
  assert_int_equal(ull_source_array(source, 3)->dtype, ULL_FLOAT32);
  for (uint64_t i = 0; i < 4; i++) {
    float got[3];
    assert_string_equal(record_text(source, i, 0), "image");
    assert_string_equal(record_text(source, i, 1), "left");
    assert_string_equal(record_text(source, i, 2), "mask");
    assert_int_equal(ull_source_read(source, i, 3, got, NULL), ULL_OK);
    assert_memory_equal(got, values, sizeof values);
    assert_int_equal(label_of(source, i), 40 + (int64_t)i);
  }
  int64_t least, most;
  assert_int_equal(ull_source_range(source, 4, &least, &most), ULL_OK);
  assert_true(least == 40 && most == 43);
  assert_non_null(strstr(warnings(), "1 samples are left out: they lack a field that most have "
                                     "(the first: d/9)"));
  ull_source_close(source);
  free_buffer(&tar);
  free_buffer(&npy);
}

static void members_apart_find_each_other(void **state) {
  (void)state;
  byte_buffer tar = {0};
  char name[32], text[4096];
  for (int i = 0; i < 5; i++) {
    size_t bytes = picture(i, text);
    snprintf(name, sizeof name, "%06d.jpg", i);
    append_member(&tar, name, text, bytes);
  }
  for (int i = 0; i < 5; i++) {
    snprintf(name, sizeof name, "%06d.cls", i);
    snprintf(text, sizeof text, "%d", i % 7);
    append_text(&tar, name, text);
  }
  append_end(&tar);
  write_buffer("a.tar", &tar);
  ull_source *source = open_or_fail(at_root("tar:", "a.tar"), ULL_SPLIT_TRAIN);
  expect_pictures(source, (const int[]){0, 1, 2, 3, 4}, 5);
  assert_non_null(strstr(warnings(), "5 members do not lie beside the rest"));
  ull_source_close(source);
  write_gzip(path_in(root, "b.tar.gz"), tar.bytes, tar.count);
  assert_int_equal(open_status(at_root("tar:", "b.tar.gz"), ULL_SPLIT_TRAIN), ULL_ERROR_DATA);
  assert_non_null(strstr(ull_error_last()->message, "the members of '000000' do not lie together"));
  free_buffer(&tar);
}

static void patterns_name_shards(void **state) {
  (void)state;
  int numbers[40];
  for (int s = 0; s < 20; s++) {
    byte_buffer tar = {0};
    char name[32];
    append_samples(&tar, 2 * s, 2, true);
    append_end(&tar);
    snprintf(name, sizeof name, "shard-%03d.tar", s);
    write_buffer(name, &tar);
    free_buffer(&tar);
    numbers[2 * s] = 2 * s;
    numbers[2 * s + 1] = 2 * s + 1;
  }
  static const char *const patterns[] = {
      "shard-*.tar", "shard-{000..019}.tar", "{shard-00?.tar,shard-01[0-9].tar}",
      "shard-0{0?,1{0..9}}.tar?window=1MiB", "shard-{01{0..9},00{0..9}}.tar"};
  int before = open_descriptors();
  for (size_t p = 0; p < sizeof patterns / sizeof patterns[0]; p++) {
    ull_source *source = open_or_fail(at_root("tar:", patterns[p]), ULL_SPLIT_TRAIN);
    expect_pictures(source, numbers, 40);
    assert_in_range(open_descriptors() - before, 0, 8);
    ull_source_close(source);
    assert_int_equal(open_descriptors(), before);
  }
  assert_int_equal(open_status(at_root("tar:", "shard-{000..020}.tar"), ULL_SPLIT_TRAIN),
                   ULL_ERROR_DATA);
  assert_non_null(strstr(ull_error_last()->message, "shard-020.tar: there is no such file"));
  assert_int_equal(open_status(at_root("tar:", "none-*.tar"), ULL_SPLIT_TRAIN), ULL_ERROR_DATA);
  assert_int_equal(open_status(at_root("tar:", "shard-*.tar?windows=3"), ULL_SPLIT_TRAIN),
                   ULL_ERROR_USAGE);
  assert_string_equal(ull_error_last()->change, "there are window");
  assert_int_equal(open_status(at_root("tar:", "shard-*.tar?window=3"), ULL_SPLIT_TRAIN),
                   ULL_ERROR_USAGE);
}

/* ---- damage ---- */

/* Opens and reads all there is; whole pictures must be right. Returns how many were whole. */
static size_t read_all(const char *text, bool exact) {
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

static void cut_at_every_block(void **state) {
  (void)state;
  for (int label_first = 0; label_first < 2; label_first++) {
    byte_buffer tar = {0};
    size_t ends[8], known = 0, largest = 0;
    for (int i = 0; i < 8; i++) {
      append_samples(&tar, i, 1, label_first != 0);
      ends[i] = tar.count;
    }
    append_end(&tar);
    const char *text = at_root("tar:", "a.tar");
    for (size_t cut = 0; cut <= tar.count; cut += 512) {
      put_bytes(root, "a.tar", tar.bytes, cut);
      size_t whole = read_all(text, true);
      while (known < 8 && ends[known] <= cut) known++;
      /* What is left of the first sample alone shows no field that others have. */
      if (known > 0) assert_true(whole == known);
      if (cut > 512 && known > 0 && cut < tar.count - 512)
        assert_non_null(strstr(warnings(), "1 shard is cut or damaged"));
      if (whole > largest) largest = whole;
    }
    assert_int_equal(largest, 8);
    for (size_t cut = 0; cut < tar.count; cut += 97) {
      put_bytes(root, "a.tar", tar.bytes, cut);
      read_all(text, true);
    }
    free_buffer(&tar);
  }
}

static void flipped_bytes_do_no_harm(void **state) {
  (void)state;
  byte_buffer tar = {0};
  char command[2048];
  append_samples(&tar, 0, 6, true);
  append_end(&tar);
  for (uint32_t i = 0; i < 1500; i++) {
    ull__philox_block random = ull__philox(7, 0, i);
    size_t at = random.word[0] % tar.count;
    /* Mostly in headers. */
    if (random.word[1] % 4 != 0) at = at / 512 * 512 + random.word[2] % 160;
    uint8_t before = tar.bytes[at];
    tar.bytes[at] = (uint8_t)(random.word[3] >> 8);
    if (i % 3 == 0) seal(tar.bytes + at / 512 * 512);
    put_bytes(root, "a.tar", tar.bytes, tar.count);
    read_all(at_root("tar:", "a.tar"), false);
    if (i % 3 != 0) tar.bytes[at] = before;
    if (i % 3 == 0) {
      tar.count = 0;
      append_samples(&tar, 0, 6, true);
      append_end(&tar);
    }
  }
  free_buffer(&tar);
  /* Extensions of the formats. */
  put_file(root, "x/long/name.jpg", "1");
  snprintf(command, sizeof command,
           "cd '%s' && mkdir -p x/$(printf %%0200d 1) && cp x/long/name.jpg x/0*/ && "
           "tar --format=pax -cf p.tar x && tar --format=gnu -cf g.tar x",
           root);
  assert_int_equal(system(command), 0);
  for (int gnu = 0; gnu < 2; gnu++) {
    size_t count;
    uint8_t *bytes = read_file(path_in(root, gnu ? "g.tar" : "p.tar"), &count);
    for (uint32_t i = 0; i < 1500; i++) {
      ull__philox_block random = ull__philox(8, 0, i);
      size_t at = random.word[0] % (count < 5120 ? count : 5120);
      uint8_t before = bytes[at];
      bytes[at] = (uint8_t)random.word[1];
      uint8_t header[512];
      memcpy(header, bytes + at / 512 * 512, 512);
      if (memcmp(header + 257, "ustar", 5) == 0) seal(bytes + at / 512 * 512);
      put_bytes(root, "a.tar", bytes, count);
      read_all(at_root("tar:", "a.tar"), false);
      memcpy(bytes + at / 512 * 512, header, 512);
      bytes[at] = before;
    }
    free(bytes);
  }
}

static void shards_that_change_are_noticed(void **state) {
  (void)state;
  byte_buffer tar = {0};
  append_samples(&tar, 0, 3, true);
  append_end(&tar);
  write_buffer("a.tar", &tar);
  ull_source *source = open_or_fail(at_root("tar:", "a.tar"), ULL_SPLIT_TRAIN);
  append_end(&tar);
  write_buffer("a.tar", &tar);
  assert_null(record_text(source, 0, 0));
  assert_int_equal(ull_error_last()->status, ULL_ERROR_DATA);
  assert_non_null(strstr(ull_error_last()->message, "has changed since it was opened"));
  remove(path_in(root, "a.tar"));
  assert_null(record_text(source, 0, 0));
  ull_source_close(source);
  free_buffer(&tar);
}

static void refusals_name_what_there_is(void **state) {
  (void)state;
  byte_buffer tar = {0};
  append_text(&tar, "0.ten", "x");
  append_text(&tar, "1.ten", "x");
  append_end(&tar);
  write_buffer("a.tar", &tar);
  assert_int_equal(open_status(at_root("tar:", "a.tar"), ULL_SPLIT_TRAIN), ULL_ERROR_DATA);
  assert_non_null(strstr(ull_error_last()->message, "holds no field that is read, such as ten"));
  free_buffer(&tar);
  put_file(root, "b.tar", "this is no archive, whatever its name says, and not even long");
  assert_int_equal(open_status(at_root("tar:", "b.tar"), ULL_SPLIT_TRAIN), ULL_ERROR_DATA);
  assert_int_equal(open_status("tar:?window=1MiB", ULL_SPLIT_TRAIN), ULL_ERROR_USAGE);
}

/* ---- packed shards ---- */

enum { SHARDS = 5, IN_SHARD = 60 };

static void write_packed(bool plain) {
  for (int s = 0; s < SHARDS; s++) {
    byte_buffer tar = {0};
    char name[32];
    append_samples(&tar, s * IN_SHARD, IN_SHARD, s % 2 == 0);
    append_end(&tar);
    snprintf(name, sizeof name, "%s-%d.tar", plain ? "plain" : "packed", s);
    if (plain)
      write_buffer(name, &tar);
    else if (s % 2 == 0)
      write_gzip(path_in(root, name), tar.bytes, tar.count);
    else
      write_zstd(path_in(root, name), tar.bytes, tar.count);
    free_buffer(&tar);
  }
}

static void packed_shards_hold_the_same(void **state) {
  (void)state;
  int numbers[SHARDS * IN_SHARD];
  for (int i = 0; i < SHARDS * IN_SHARD; i++) numbers[i] = i;
  write_packed(true);
  write_packed(false);
  ull_source *plain = open_or_fail(at_root("tar:", "plain-*.tar"), ULL_SPLIT_TRAIN);
  ull_source *packed = open_or_fail(at_root("tar:", "packed-*.tar?window=64KiB"), ULL_SPLIT_TRAIN);
  assert_null(plain->kind->order);
  assert_non_null(packed->kind->order);
  expect_pictures(plain, numbers, SHARDS * IN_SHARD);
  expect_pictures(packed, numbers, SHARDS * IN_SHARD);
  uint64_t packed_bytes = ull_source_resident_bytes(packed);
  assert_in_range(packed_bytes, 8 << 20, 12 << 20); /* zstd's window, and two of ours */
  /* From anywhere to anywhere. */
  char text[4096];
  for (uint32_t i = 0; i < 200; i++) {
    uint64_t sample = ull__philox(3, 0, i).word[0] % (SHARDS * IN_SHARD);
    picture((int)sample, text);
    assert_string_equal(record_text(packed, sample, 0), text);
  }
  ull_source_close(plain);
  ull_source_close(packed);
  ull_source_options options = ull_source_options_default();
  options.val_split = 0.1;
  assert_int_equal(ull_source_open(at_root("tar:", "packed-*.tar"), &options, &packed),
                   ULL_ERROR_UNSUPPORTED);
  assert_non_null(strstr(ull_error_last()->message, "nothing can be held out of packed shards"));
  options = ull_source_options_default();
  options.resident_limit_bytes = 1 << 20;
  assert_int_equal(ull_source_open(at_root("tar:", "packed-*.tar"), &options, &packed),
                   ULL_ERROR_DOES_NOT_FIT);
}

static void orders_are_permutations_by_window(void **state) {
  (void)state;
  enum { COUNT = SHARDS * IN_SHARD };
  write_packed(false);
  ull_source *source = open_or_fail(at_root("tar:", "packed-*.tar?window=64KiB"), ULL_SPLIT_TRAIN);
  static uint64_t orders[3][COUNT];
  static const uint64_t keys[3] = {1, 2, 1};
  for (int k = 0; k < 3; k++) {
    uint8_t seen[COUNT] = {0};
    for (uint64_t p = 0; p < COUNT; p++) {
      uint64_t sample = source->kind->order(source, keys[k], p);
      assert_true(sample < COUNT && !seen[sample]);
      seen[sample] = 1;
      orders[k][p] = sample;
      /* A shard is finished before the next one begins. */
      assert_int_equal(sample / IN_SHARD, orders[k][p / IN_SHARD * IN_SHARD] / IN_SHARD);
    }
  }
  assert_memory_equal(orders[0], orders[2], sizeof orders[0]);
  assert_memory_not_equal(orders[0], orders[1], sizeof orders[0]);
  size_t moved = 0;
  for (uint64_t p = 1; p < COUNT; p++) moved += orders[0][p] != orders[0][p - 1] + 1;
  assert_true(moved > COUNT / 2);
  ull_source_close(source);
}

typedef struct reader {
  const ull_source *source;
  uint64_t first;
  pthread_t thread;
  int wrong;
} reader;

static void *read_share(void *argument) {
  reader *reader = argument;
  char *expected = malloc(4096), *got = malloc(4096);
  for (uint64_t p = reader->first; p < SHARDS * IN_SHARD; p += 4) {
    uint64_t sample =
        reader->source->kind->order != NULL ? reader->source->kind->order(reader->source, 9, p) : p;
    size_t bytes = picture((int)sample, expected), count = 0;
    ull__record *record = malloc(sizeof *record);
    ull_status status = reader->source->kind->open_record(reader->source, sample, 0, record);
    if (status == ULL_OK) status = ull__record_read(record, 0, got, 4096, &count);
    reader->wrong += status != ULL_OK || count != bytes || memcmp(got, expected, bytes) != 0;
    if (status == ULL_OK) reader->source->kind->close_record(reader->source, record);
    ull__record_close(record);
    free(record);
  }
  free(expected);
  free(got);
  return NULL;
}

static void threads_share_shards_and_windows(void **state) {
  (void)state;
  write_packed(true);
  write_packed(false);
  for (int plain = 0; plain < 2; plain++) {
    ull_source *source = open_or_fail(plain ? at_root("tar:", "plain-*.tar")
                                            : at_root("tar:", "packed-*.tar?window=64KiB"),
                                      ULL_SPLIT_TRAIN);
    reader readers[4];
    for (uint64_t t = 0; t < 4; t++) {
      readers[t] = (reader){.source = source, .first = t};
      assert_int_equal(pthread_create(&readers[t].thread, NULL, read_share, &readers[t]), 0);
    }
    for (int t = 0; t < 4; t++) {
      pthread_join(readers[t].thread, NULL);
      assert_int_equal(readers[t].wrong, 0);
    }
    ull_source_close(source);
  }
}

static void damaged_packed_shards(void **state) {
  (void)state;
  byte_buffer tar = {0};
  append_samples(&tar, 0, 12, true);
  append_end(&tar);
  for (int zstd = 0; zstd < 2; zstd++) {
    const char *name = path_in(root, "a.tar");
    if (zstd)
      write_zstd(name, tar.bytes, tar.count);
    else
      write_gzip(name, tar.bytes, tar.count);
    size_t count;
    uint8_t *bytes = read_file(name, &count);
    assert_int_equal(read_all(at_root("tar:", "a.tar"), true), 12);
    for (size_t cut = 0; cut < count; cut += 53) {
      put_bytes(root, "a.tar", bytes, cut);
      read_all(at_root("tar:", "a.tar"), true);
    }
    for (uint32_t i = 0; i < 400; i++) {
      ull__philox_block random = ull__philox(5, (uint64_t)zstd, i);
      size_t at = random.word[0] % count;
      uint8_t before = bytes[at];
      bytes[at] ^= (uint8_t)(1u << random.word[1] % 8);
      put_bytes(root, "a.tar", bytes, count);
      read_all(at_root("tar:", "a.tar"), false);
      bytes[at] = before;
    }
    free(bytes);
  }
  free_buffer(&tar);
}

static void rest_a_little(void) {
  nanosleep(&(struct timespec){.tv_nsec = 60000000}, NULL);
}

/* The index of packed shards is kept; a damaged one is made anew. */
static void kept_indexes(void **state) {
  (void)state;
  int numbers[SHARDS * IN_SHARD];
  for (int i = 0; i < SHARDS * IN_SHARD; i++) numbers[i] = i;
  setenv("XDG_CACHE_HOME", at_root("", "cache"), 1);
  write_packed(false);
  rest_a_little();
  const char *text = at_root("tar:", "packed-*.tar?window=64KiB");
  ull_source *source = open_or_fail(text, ULL_SPLIT_TRAIN);
  uint64_t resident = ull_source_resident_bytes(source);
  ull_source_close(source);
  char command[2048], path[1024] = "";
  snprintf(command, sizeof command, "ls '%s'/cache/ullage/tar-*.index", root);
  FILE *listing = popen(command, "r");
  assert_non_null(fgets(path, sizeof path, listing));
  pclose(listing);
  path[strcspn(path, "\n")] = '\0';
  size_t count;
  uint8_t *bytes = read_file(path, &count);
  struct stat before, after;
  stat(path, &before);
  source = open_or_fail(text, ULL_SPLIT_TRAIN);
  assert_int_equal(ull_source_resident_bytes(source), resident);
  expect_pictures(source, numbers, SHARDS * IN_SHARD);
  ull_source_close(source);
  stat(path, &after);
  assert_int_equal(before.st_ino, after.st_ino);
  for (uint32_t i = 0; i < 24; i++) {
    ull__philox_block random = ull__philox(6, 0, i);
    size_t at = random.word[0] % count;
    uint8_t good = bytes[at];
    bytes[at] ^= (uint8_t)(1u << random.word[1] % 8);
    write_file(path, bytes, i % 4 == 0 ? at : count);
    bytes[at] = good;
    source = open_or_fail(text, ULL_SPLIT_TRAIN);
    if (i % 10 == 0) expect_pictures(source, numbers, SHARDS * IN_SHARD);
    assert_int_equal(ull_source_sample_count(source), SHARDS * IN_SHARD);
    ull_source_close(source);
    size_t anew;
    uint8_t *written = read_file(path, &anew);
    assert_int_equal(anew, count);
    assert_memory_equal(written, bytes, count);
    free(written);
  }
  /* Another content under the same name. */
  write_gzip(path_in(root, "packed-0.tar"), "", 0);
  source = open_or_fail(text, ULL_SPLIT_TRAIN);
  assert_int_equal(ull_source_sample_count(source), (SHARDS - 1) * IN_SHARD);
  ull_source_close(source);
  free(bytes);
}

static void memory_can_run_out_anywhere(void **state) {
  (void)state;
  write_packed(true);
  write_packed(false);
  ull_source_options options = ull_source_options_default();
  uint64_t live = ull__alloc_count().live_bytes;
  int descriptors = open_descriptors();
  for (int plain = 0; plain < 2; plain++) {
    int refused = 0;
    for (uint64_t n = 1; n < 400; n += 1 + n / 20) {
      ull_source *source;
      ull__alloc_fail_at(n);
      ull_status status = ull_source_open(at_root("tar:", plain ? "plain-*.tar" : "packed-*.tar"),
                                          &options, &source);
      ull__alloc_fail_at(0);
      assert_true(status == ULL_OK || status == ULL_ERROR_OUT_OF_MEMORY);
      refused += status != ULL_OK;
      if (status == ULL_OK) ull_source_close(source);
      assert_int_equal(ull__alloc_count().live_bytes, live);
      assert_int_equal(open_descriptors(), descriptors);
    }
    assert_true(refused > 10);
  }
}

static void shared_shards(void **state) {
  (void)state;
  const char *data = getenv("ULLAGE_TEST_DATA");
  if (data == NULL) {
    printf("ULLAGE_TEST_DATA is not set\n");
    skip();
  }
  char text[1200];
  snprintf(text, sizeof text, "tar:%s/webdataset/sample.tgz", data);
  ull_source *source = open_or_fail(text, ULL_SPLIT_TRAIN);
  assert_in_range(ull_source_sample_count(source), 80, 100);
  for (uint64_t i = 0; i < ull_source_sample_count(source); i++) {
    assert_memory_equal(record_text(source, i, 0), "\x89PNG", 4);
    assert_in_range(label_of(source, i), 0, 9);
  }
  ull_source_close(source);
  snprintf(text, sizeof text, "tar:%s/webdataset/tendata.tar", data);
  assert_int_equal(open_status(text, ULL_SPLIT_TRAIN), ULL_ERROR_DATA);
}

int main(void) {
  const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
      TEST(system_tars_equal_the_folder),
      TEST(fields_of_samples),
      TEST(members_apart_find_each_other),
      TEST(patterns_name_shards),
      TEST(cut_at_every_block),
      TEST(flipped_bytes_do_no_harm),
      TEST(shards_that_change_are_noticed),
      TEST(refusals_name_what_there_is),
      TEST(packed_shards_hold_the_same),
      TEST(orders_are_permutations_by_window),
      TEST(threads_share_shards_and_windows),
      TEST(damaged_packed_shards),
      TEST(kept_indexes),
      TEST(memory_can_run_out_anywhere),
      TEST(shared_shards),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
