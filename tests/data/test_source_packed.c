/* Packed shards hold what plain ones hold, in an order of their own, within two windows; threads
 * share them, damage ends them early, their index is kept. */
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
#include <zlib.h>

#include "base/alloc.h"
#include "base/philox.h"
#include "data/source.h"
#include "support/data_trees.h"
#include "support/tar_files.h"

enum { SHARDS = 5, IN_SHARD = 60 };

static void write_packed(bool plain) {
  for (int s = 0; s < SHARDS; s++) {
    byte_buffer tar = {0};
    char name[32];
    append_samples(&tar, s * IN_SHARD, IN_SHARD, s % 2 == 0);
    append_end(&tar);
    snprintf(name, sizeof name, "%s-%d.tar", plain ? "plain" : "packed", s);
    if (plain)
      put_buffer(root, name, &tar);
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
    static uint8_t seen[COUNT];
    memset(seen, 0, sizeof seen);
    for (uint64_t p = 0; p < COUNT; p++) {
      uint64_t sample = source->kind->order(source, keys[k], p);
      assert_in_range(sample, 0, COUNT - 1);
      assert_int_equal(seen[sample]++, 0);
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

/* A header may promise gigabytes: what is not there takes no memory, and what would be is refused.
 */
static void promises_take_no_memory(void **state) {
  (void)state;
  byte_buffer tar = {0};
  uint64_t live = ull__alloc_count().live_bytes;
  append_samples(&tar, 0, 3, true);
  append_text(&tar, "000003.cls", "3");
  size_t header = tar.count;
  append_text(&tar, "000003.jpg", "picture 3 and no more");
  memcpy(tar.bytes + header + 124, "17777777777", 11); /* 2 GiB - 1 */
  seal(tar.bytes + header);
  write_gzip(path_in(root, "a.tar"), tar.bytes, tar.count);
  ull_source *source = open_or_fail(at_root("tar:", "a.tar"), ULL_SPLIT_TRAIN);
  assert_int_equal(ull_source_sample_count(source), 4);
  assert_true(ull_source_resident_bytes(source) < 1 << 20);
  assert_true(ull__alloc_count().live_bytes - live < 1 << 20);
  assert_memory_equal(record_text(source, 3, 0), "picture 3 and no more", 21);
  ull_source_close(source);
  free_buffer(&tar);
  static uint8_t zeros[1 << 20];
  append_text(&tar, "0.cls", "0");
  header = tar.count;
  append_text(&tar, "0.jpg", "");
  memcpy(tar.bytes + header + 124, "02004000000", 11); /* 257 MiB */
  seal(tar.bytes + header);
  gzFile packed = gzopen(path_in(root, "b.tar"), "wb1");
  gzwrite(packed, tar.bytes, (unsigned)tar.count);
  for (int i = 0; i < 257; i++) gzwrite(packed, zeros, sizeof zeros);
  gzclose(packed);
  free_buffer(&tar);
  assert_int_equal(open_status(at_root("tar:", "b.tar"), ULL_SPLIT_TRAIN), ULL_ERROR_DOES_NOT_FIT);
  assert_non_null(strstr(ull_error_last()->message, "sample '0' takes 269484032"));
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
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_root, remove_root)
      TEST(packed_shards_hold_the_same),      TEST(orders_are_permutations_by_window),
      TEST(threads_share_shards_and_windows), TEST(damaged_packed_shards),
      TEST(promises_take_no_memory),          TEST(kept_indexes),
      TEST(memory_can_run_out_anywhere),      TEST(shared_shards),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
