/* Broken files: cut at every length, and with bytes flipped. Whatever is in them, opening gives a
 * clean error or a source that can be read; never a crash, a hang, or memory that was not given
 * back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/philox.h"
#include "support/data_trees.h"

enum { FLIPS = 600, MOST_BYTES = 64 << 20 };

static bool is_file_error(ull_status status) {
  return status == ULL_ERROR_DATA || status == ULL_ERROR_UNSUPPORTED;
}

static void read_everything(ull_source *source) {
  for (size_t a = 0; a < ull_source_array_count(source); a++) {
    const ull_array_info *info = ull_source_array(source, a);
    uint8_t *sample = malloc(info->sample_bytes);
    assert_non_null(sample);
    for (uint64_t s = 0; s < ull_source_sample_count(source); s++) {
      assert_int_equal(ull_source_read(source, s, a, sample, NULL), ULL_OK);
    }
    free(sample);
  }
}

/* Opens and reads; returns the status of the opening. */
static ull_status try_source(const char *text, bool verify) {
  uint64_t before = ull__alloc_count().live_bytes;
  ull_source_options options = ull_source_options_default();
  options.verify = verify;
  options.resident_limit_bytes = MOST_BYTES;
  ull_source *source = NULL;
  ull_error_clear();
  ull_status status = ull_source_open(text, &options, &source);
  if (status == ULL_OK) {
    read_everything(source);
    ull_source_close(source);
  } else {
    assert_null(source);
    assert_true(is_file_error(status) || status == ULL_ERROR_DOES_NOT_FIT);
    assert_true(strlen(ull_error_last()->message) > 0);
    assert_non_null(strstr(ull_error_last()->message, root));
  }
  assert_int_equal(ull__alloc_count().live_bytes, before);
  return status;
}

static void cut_everywhere(const char *file_name, const char *text) {
  size_t count;
  const char *path = path_in(root, file_name);
  char kept[1024];
  snprintf(kept, sizeof kept, "%s", path);
  uint8_t *content = read_file(kept, &count);
  assert_int_equal(try_source(text, true), ULL_OK);
  for (size_t length = 0; length < count; length++) {
    write_file(kept, content, length);
    ull_status status = try_source(text, true);
    if (!is_file_error(status))
      fail_msg("%s cut at %zu of %zu: %d", file_name, length, count, status);
  }
  write_file(kept, content, count);
  free(content);
}

static void flip_bytes(const char *file_name, const char *text, uint64_t seed,
                       size_t least_errors) {
  size_t count, errors = 0;
  char kept[1024];
  snprintf(kept, sizeof kept, "%s", path_in(root, file_name));
  uint8_t *content = read_file(kept, &count), *damaged = malloc(count);
  for (uint64_t i = 0; i < FLIPS; i++) {
    memcpy(damaged, content, count);
    for (uint64_t flip = 0; flip <= i % 3; flip++) {
      ull__philox_block block = ull__philox(seed, i, flip);
      damaged[block.word[0] % count] = block.word[2] % 4 ? (uint8_t)block.word[1] : 0xff;
    }
    write_file(kept, damaged, count);
    errors += try_source(text, i % 2) != ULL_OK;
  }
  write_file(kept, content, count);
  free(content);
  free(damaged);
  assert_true(errors >= least_errors);
}

static char *text_of(const char *scheme, const char *path) {
  static char text[1200];
  snprintf(text, sizeof text, "%s:%s", scheme, path);
  return text;
}

static void idx_cut(void **state) {
  (void)state;
  char *text = text_of("idx", root);
  write_idx_pair(root, "train", 9, 3, 4, 3, false);
  cut_everywhere("train-images-idx3-ubyte", text);
  cut_everywhere("train-labels-idx1-ubyte", text);
  remove(path_in(root, "train-images-idx3-ubyte"));
  remove(path_in(root, "train-labels-idx1-ubyte"));
  write_idx_pair(root, "train", 9, 3, 4, 3, true);
  cut_everywhere("train-images-idx3-ubyte.gz", text);
  cut_everywhere("train-labels-idx1-ubyte.gz", text);
}

static void idx_flipped(void **state) {
  (void)state;
  char *text = text_of("idx", root);
  write_idx_pair(root, "train", 9, 3, 4, 3, false);
  flip_bytes("train-images-idx3-ubyte", text, 1, FLIPS / 20);
  remove(path_in(root, "train-images-idx3-ubyte"));
  remove(path_in(root, "train-labels-idx1-ubyte"));
  write_idx_pair(root, "train", 9, 3, 4, 3, true);
  flip_bytes("train-images-idx3-ubyte.gz", text, 2, FLIPS / 2);
}

static void write_archive(bool deflated) {
  static const float x[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  static const int64_t y[4] = {3, 1, 2, 0};
  byte_buffer xs = {0}, ys = {0}, archive = {0};
  append_npy(&xs, "<f4", false, "(4, 3)", x, sizeof x);
  append_npy(&ys, "<i8", false, "(4,)", y, sizeof y);
  npz_member members[2] = {{"x.npy", xs.bytes, xs.count}, {"target.npy", ys.bytes, ys.count}};
  append_zip(&archive, members, 2, deflated);
  write_file(path_in(root, "a.npz"), archive.bytes, archive.count);
  free_buffer(&xs);
  free_buffer(&ys);
  free_buffer(&archive);
}

static void npz_cut(void **state) {
  (void)state;
  for (int deflated = 0; deflated < 2; deflated++) {
    write_archive(deflated);
    cut_everywhere("a.npz", text_of("npz", path_in(root, "a.npz")));
  }
}

static void npz_flipped(void **state) {
  (void)state;
  for (int deflated = 0; deflated < 2; deflated++) {
    write_archive(deflated);
    flip_bytes("a.npz", text_of("npz", path_in(root, "a.npz")), 3 + (uint64_t)deflated, FLIPS / 3);
  }
}

static void npy_cut_and_flipped(void **state) {
  (void)state;
  static const float x[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  byte_buffer xs = {0};
  append_npy(&xs, "<f4", false, "(4, 3)", x, sizeof x);
  write_file(path_in(root, "x.npy"), xs.bytes, xs.count);
  free_buffer(&xs);
  cut_everywhere("x.npy", text_of("npy", root));
  flip_bytes("x.npy", text_of("npy", root), 5, FLIPS / 5);
}

/* A file that shrinks after it was opened: the read says so. */
static void file_shrinks_under_the_source(void **state) {
  (void)state;
  write_idx_pair(root, "train", 9, 3, 4, 3, false);
  ull_source_options options = ull_source_options_default();
  ull_source *source;
  uint8_t pixels[12];
  ull_verdict verdict;
  assert_int_equal(ull_source_open(text_of("idx", root), &options, &source), ULL_OK);
  write_file(path_in(root, "train-images-idx3-ubyte"), "short", 5);
  assert_int_equal(ull_source_read(source, 8, 0, pixels, &verdict), ULL_ERROR_DATA);
  assert_int_equal(verdict, ULL_VERDICT_UNREADABLE);
  assert_non_null(strstr(ull_error_last()->message, "sample 8: "));
  assert_non_null(strstr(ull_error_last()->message, "train-images-idx3-ubyte"));
  ull_source_close(source);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(idx_cut, make_root, remove_root),
      cmocka_unit_test_setup_teardown(idx_flipped, make_root, remove_root),
      cmocka_unit_test_setup_teardown(npz_cut, make_root, remove_root),
      cmocka_unit_test_setup_teardown(npz_flipped, make_root, remove_root),
      cmocka_unit_test_setup_teardown(npy_cut_and_flipped, make_root, remove_root),
      cmocka_unit_test_setup_teardown(file_shrinks_under_the_source, make_root, remove_root),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
