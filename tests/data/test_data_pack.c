/* Packing from within: members larger than ustar can say, encoders, a caller that stops, and memory
 * that runs out anywhere. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/file.h"
#include "data/pack/tar_writer.h"
#include "data/tar/format.h"
#include "support/data_trees.h"
#include "support/jpeg_files.h"
#include "ullage/image.h"
#include "ullage/image_encode.h"
#include "ullage/pack.h"

/* ---- the archive ---- */

static ull_status read_at(void *context, uint64_t at, void *to, size_t bytes, size_t *got) {
  ssize_t done = pread(*(int *)context, to, bytes, (off_t)at);
  *got = done > 0 ? (size_t)done : 0;
  return ULL_OK;
}

/* Headers are read back by the reader that the tar source has. */
static void headers_say_every_size(void **state) {
  (void)state;
  char longest[2900];
  memset(longest, 'n', sizeof longest - 1);
  longest[sizeof longest - 1] = '\0';
  char exact[101];
  memset(exact, 'e', 100);
  exact[100] = '\0';
  static const uint64_t sizes[] = {
      0, 1, 511, 512, 513, (UINT64_C(1) << 33) - 1, UINT64_C(1) << 33, UINT64_C(5) << 40};
  const char *const names[] = {"a", exact, longest};
  for (size_t n = 0; n < 3; n++) {
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
      int file = open(path_in(root, "archive"), O_RDWR | O_CREAT | O_TRUNC, 0666);
      ull__tar_writer tar;
      assert_int_equal(ull__tar_writer_begin(&tar, file, "archive"), ULL_OK);
      assert_int_equal(ull__tar_writer_member(&tar, names[n], sizes[i]), ULL_OK);
      uint64_t header = tar.bytes;
      uint64_t padded = (sizes[i] + 511) / 512 * 512;
      assert_int_equal(ull__tar_writer_member_bytes(names[n], sizes[i]), header + padded);
      tar.open = 0; /* nobody writes five tebibytes here */
      assert_int_equal(ull__tar_writer_end(&tar), ULL_OK);
      ull__tar_writer_free(&tar);
      ull__tar_reader *reader = calloc(1, sizeof *reader);
      ull__tar_member *member = calloc(1, sizeof *member);
      bool found = false;
      ull__tar_begin(reader, read_at, &file);
      assert_int_equal(ull__tar_next(reader, member, &found), ULL_OK);
      assert_true(found);
      assert_string_equal(member->name, names[n]);
      assert_int_equal(member->bytes, sizes[i]);
      assert_int_equal(member->offset, header);
      free(member);
      free(reader);
      close(file);
    }
  }
}

static void a_member_is_as_long_as_announced(void **state) {
  (void)state;
  int file = open(path_in(root, "archive"), O_RDWR | O_CREAT | O_TRUNC, 0666);
  ull__tar_writer tar;
  assert_int_equal(ull__tar_writer_begin(&tar, file, "archive"), ULL_OK);
  assert_int_equal(ull__tar_writer_member(&tar, "a", 3), ULL_OK);
  assert_int_equal(ull__tar_writer_add(&tar, "xy", 2), ULL_OK);
  assert_int_equal(ull__tar_writer_member(&tar, "b", 0), ULL_ERROR_INVALID);
  assert_int_equal(ull__tar_writer_add(&tar, "zz", 2), ULL_ERROR_INVALID);
  assert_int_equal(ull__tar_writer_add(&tar, "z", 1), ULL_OK);
  assert_int_equal(tar.bytes % 512, 0);
  ull__tar_writer_free(&tar);
  close(file);
}

/* ---- encoders ---- */

/* Slow ramps; of three channels, different ones. */
static uint8_t *make_pixels(int width, int height, int channels) {
  uint8_t *pixels = malloc((size_t)width * (size_t)height * (size_t)channels);
  for (int y = 0; y < height; y++)
    for (int x = 0; x < width; x++)
      for (int c = 0; c < channels; c++)
        pixels[(y * width + x) * channels + c] = (uint8_t)(x * (3 - c) + y * (c + 1));
  return pixels;
}

static int largest_difference(const uint8_t *a, const uint8_t *b, size_t count) {
  int largest = 0;
  for (size_t i = 0; i < count; i++) {
    int difference = abs(a[i] - b[i]);
    if (difference > largest) largest = difference;
  }
  return largest;
}

static void check_picture(int width, int height, int channels) {
  uint8_t *pixels = make_pixels(width, height, channels);
  size_t count = (size_t)width * (size_t)height * (size_t)channels;
  ull_pixels from = {pixels, width, height, channels};
  ull_image_options options = ull_image_options_default();
  options.channels = channels;
  for (int jpeg = 0; jpeg < 2; jpeg++) {
    ull_encoded encoded;
    ull_image image;
    assert_int_equal(jpeg ? ull_image_encode_jpeg(&from, 95, &encoded)
                          : ull_image_encode_png(&from, &encoded),
                     ULL_OK);
    assert_int_equal(ull_image_decode_memory(encoded.bytes, encoded.count, "it", &options, &image),
                     ULL_OK);
    assert_int_equal(image.verdict, ULL_VERDICT_OK);
    assert_int_equal(image.width, width);
    assert_int_equal(image.height, height);
    assert_in_range(largest_difference(image.pixels, pixels, count), 0, jpeg ? 12 : 0);
    ull_image_free(&image);
    ull_encoded_free(&encoded);
    ull_encoded_free(&encoded);
  }
  free(pixels);
}

static void pictures_come_back(void **state) {
  (void)state;
  static const int sides[][2] = {{1, 1}, {7, 3}, {16, 16}, {33, 24}};
  for (size_t i = 0; i < sizeof sides / sizeof sides[0]; i++) {
    check_picture(sides[i][0], sides[i][1], 1);
    check_picture(sides[i][0], sides[i][1], 3);
  }
}

static void what_cannot_be_encoded(void **state) {
  (void)state;
  uint8_t pixel[4] = {0};
  ull_encoded out;
  const ull_pixels wrong[] = {
      {pixel, 0, 1, 1}, {pixel, 1, -1, 3}, {pixel, 1, 1, 2}, {pixel, 1, 1, 4}};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    assert_int_equal(ull_image_encode_png(&wrong[i], &out), ULL_ERROR_INVALID);
    assert_int_equal(ull_image_encode_jpeg(&wrong[i], 90, &out), ULL_ERROR_INVALID);
    assert_null(out.bytes);
  }
  ull_pixels right = {pixel, 1, 1, 3}, wide = {pixel, 65501, 1, 1};
  assert_int_equal(ull_image_encode_jpeg(&right, 0, &out), ULL_ERROR_INVALID);
  assert_int_equal(ull_image_encode_jpeg(&right, 101, &out), ULL_ERROR_INVALID);
  assert_int_equal(ull_image_encode_jpeg(&wide, 90, &out), ULL_ERROR_INVALID);
}

/* ---- packs ---- */

enum { PICTURES = 9 };

static void make_tree(void) {
  for (int i = 0; i < PICTURES; i++) {
    jpeg_form form = {.width = 60 + i, .height = 44, .colours = JPEG_YCC, .h = 2, .v = 2};
    char name[64];
    size_t count;
    uint8_t *bytes = make_jpeg(&form, &count);
    snprintf(name, sizeof name, "tree/%c/%d.jpg", 'a' + i % 2, i);
    put_bytes(root, name, bytes, count);
    free(bytes);
  }
}

static ull_pack_options small_shards(const char *prefix) {
  ull_pack_options options = ull_pack_options_default();
  options.prefix = prefix;
  options.shard_bytes = 8192;
  options.max_side = 32;
  options.workers = 3;
  return options;
}

static bool stop_at(void *context, const ull_pack_progress *progress) {
  assert_true(progress->done <= progress->total);
  return progress->done < *(const uint64_t *)context;
}

static void assert_same_file(const char *a, const char *b) {
  char *left, *right;
  size_t left_bytes, right_bytes;
  assert_int_equal(ull__file_read(a, 1 << 20, &left, &left_bytes), ULL_OK);
  assert_int_equal(ull__file_read(b, 1 << 20, &right, &right_bytes), ULL_OK);
  assert_int_equal(left_bytes, right_bytes);
  assert_memory_equal(left, right, left_bytes);
  ull__free(left);
  ull__free(right);
}

static void assert_same_packs(const char *a, const char *b, uint64_t shards) {
  char left[1300], right[1300];
  for (uint64_t i = 0; i < shards; i++) {
    snprintf(left, sizeof left, "%s-%06u.tar", a, (unsigned)i);
    snprintf(right, sizeof right, "%s-%06u.tar", b, (unsigned)i);
    assert_same_file(left, right);
  }
  snprintf(left, sizeof left, "%s-pack.json", a);
  snprintf(right, sizeof right, "%s-pack.json", b);
  assert_same_file(left, right);
}

static void a_stopped_pack_goes_on(void **state) {
  (void)state;
  char whole_prefix[600], prefix[600];
  make_tree();
  ull_source *source = open_or_fail(path_in(root, "tree"), ULL_SPLIT_TRAIN);
  snprintf(whole_prefix, sizeof whole_prefix, "%s/whole/x", root);
  snprintf(prefix, sizeof prefix, "%s/parts/x", root);
  ull_pack_options options = small_shards(whole_prefix);
  ull_pack_result whole, result = {0};
  assert_int_equal(ull_pack(source, &options, &whole), ULL_OK);
  assert_int_equal(whole.samples, PICTURES);
  assert_in_range(whole.shards, 3, PICTURES);
  options.prefix = prefix;
  options.progress = stop_at;
  for (uint64_t stop = 1; stop <= PICTURES; stop++) {
    options.context = &stop;
    assert_int_equal(ull_pack(source, &options, &result), ULL_ERROR_STOPPED);
    assert_in_range(result.resumed_samples, 0, stop);
  }
  options.progress = NULL;
  assert_int_equal(ull_pack(source, &options, &result), ULL_OK);
  assert_in_range(result.resumed_samples, 1, PICTURES - 1);
  result.resumed_samples = 0;
  assert_memory_equal(&result, &whole, sizeof result);
  assert_same_packs(prefix, whole_prefix, whole.shards);
  ull_source_close(source);
}

/* Whatever allocation fails: an error, nothing lost, nothing open, and the next call finishes. */
static void memory_runs_out_anywhere(void **state) {
  (void)state;
  char whole_prefix[600], prefix[600];
  make_tree();
  ull_source *source = open_or_fail(path_in(root, "tree"), ULL_SPLIT_TRAIN);
  snprintf(whole_prefix, sizeof whole_prefix, "%s/whole/x", root);
  ull_pack_options options = small_shards(whole_prefix);
  ull_pack_result whole, result;
  options.workers = 2;
  options.shard_bytes = 16384;
  assert_int_equal(ull_pack(source, &options, &whole), ULL_OK);
  int descriptors = open_descriptors();
  uint64_t live = ull__alloc_count().live_bytes;
  ull_status status = ULL_ERROR_OUT_OF_MEMORY;
  unsigned failures = 0;
  for (uint64_t n = 1; status != ULL_OK && n < 20000; n += 1 + n / 8) {
    snprintf(prefix, sizeof prefix, "%s/out%u/x", root, (unsigned)n);
    options.prefix = prefix;
    ull__alloc_fail_at(n);
    status = ull_pack(source, &options, &result);
    ull__alloc_fail_at(0);
    assert_int_equal(open_descriptors(), descriptors);
    assert_int_equal(ull__alloc_count().live_bytes, live);
    if (status == ULL_OK) continue;
    assert_int_equal(status, ULL_ERROR_OUT_OF_MEMORY);
    failures++;
    assert_int_equal(ull_pack(source, &options, &result), ULL_OK);
    assert_same_packs(prefix, whole_prefix, whole.shards);
  }
  assert_int_equal(status, ULL_OK);
  assert_in_range(failures, 12, 20000);
  ull_source_close(source);
}

static void options_that_mean_nothing(void **state) {
  (void)state;
  make_tree();
  ull_source *source = open_or_fail(path_in(root, "tree"), ULL_SPLIT_TRAIN);
  ull_pack_options wrong[4];
  for (int i = 0; i < 4; i++) wrong[i] = small_shards(path_in(root, "out/x"));
  wrong[0].prefix = NULL;
  wrong[1].quality = 101;
  wrong[2].max_side = -1;
  wrong[3].workers = -1;
  ull_pack_result result;
  for (int i = 0; i < 4; i++)
    assert_int_equal(ull_pack(source, &wrong[i], &result), ULL_ERROR_INVALID);
  ull_source_close(source);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(headers_say_every_size, make_root, remove_root),
      cmocka_unit_test_setup_teardown(a_member_is_as_long_as_announced, make_root, remove_root),
      cmocka_unit_test(pictures_come_back),
      cmocka_unit_test(what_cannot_be_encoded),
      cmocka_unit_test_setup_teardown(a_stopped_pack_goes_on, make_root, remove_root),
      cmocka_unit_test_setup_teardown(memory_runs_out_anywhere, make_root, remove_root),
      cmocka_unit_test_setup_teardown(options_that_mean_nothing, make_root, remove_root),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
