/* Every source gives the bytes that were written, and refuses what it must refuse with the text a
 * user needs. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "support/data_trees.h"

static const char *source_text(const char *scheme, const char *path) {
  static char text[1200];
  snprintf(text, sizeof text, "%s:%s", scheme, path);
  return text;
}

static ull_source *open_source(const char *scheme, const char *path, ull_split split) {
  ull_source_options options = ull_source_options_default();
  options.split = split;
  ull_source *source = NULL;
  if (ull_source_open(source_text(scheme, path), &options, &source) != ULL_OK) {
    fail_msg("%s", ull_error_last()->message);
  }
  return source;
}

/* The message with the folder's path shown as DIR. */
static const char *shown_message(void) {
  static char shown[1024];
  const char *message = ull_error_last()->message;
  size_t length = strlen(root), used = 0;
  while (*message != '\0' && used < sizeof shown - 4) {
    if (strncmp(message, root, length) == 0) {
      used += (size_t)sprintf(shown + used, "DIR");
      message += length;
    } else {
      shown[used++] = *message++;
    }
  }
  shown[used] = '\0';
  return shown;
}

static void expect_failure(const char *scheme, const char *path, ull_status status,
                           const char *message) {
  ull_source_options options = ull_source_options_default();
  ull_source *source = NULL;
  ull_error_clear();
  assert_int_equal(ull_source_open(source_text(scheme, path), &options, &source), status);
  assert_null(source);
  assert_string_equal(shown_message(), message);
  assert_true(strlen(ull_error_last()->holder) > 0);
}

static void check_idx(const char *path, ull_split split, uint32_t count) {
  ull_source *source = open_source("idx", path, split);
  assert_int_equal(ull_source_sample_count(source), count);
  assert_int_equal(ull_source_array_count(source), 2);
  const ull_array_info *image = ull_source_array(source, 0), *label = ull_source_array(source, 1);
  assert_string_equal(image->name, "image");
  assert_true(image->image && image->rank == 3 && image->dtype == ULL_UINT8);
  assert_true(image->shape[0] == 1 && image->shape[1] == 5 && image->shape[2] == 7);
  assert_true(label->role == ULL_ARRAY_TARGET && label->rank == 0 && label->sample_bytes == 1);
  for (uint32_t s = 0; s < count; s++) {
    uint8_t pixels[35], value;
    ull_verdict verdict;
    assert_int_equal(ull_source_read(source, s, 0, pixels, &verdict), ULL_OK);
    assert_int_equal(verdict, ULL_VERDICT_OK);
    for (uint32_t i = 0; i < 35; i++) assert_int_equal(pixels[i], idx_pixel(s, i / 7, i % 7));
    assert_int_equal(ull_source_read(source, s, 1, &value, NULL), ULL_OK);
    assert_int_equal(value, s % 4);
  }
  uint8_t byte;
  assert_int_equal(ull_source_read(source, count, 1, &byte, NULL), ULL_ERROR_INVALID);
  assert_int_equal(ull_source_read(source, 0, 2, &byte, NULL), ULL_ERROR_INVALID);
  ull_source_close(source);
}

static void idx_plain_and_gzip(void **state) {
  (void)state;
  write_idx_pair(root, "train", 50, 5, 7, 4, true);
  write_idx_pair(root, "t10k", 11, 5, 7, 4, false);
  check_idx(root, ULL_SPLIT_TRAIN, 50);
  check_idx(root, ULL_SPLIT_EVAL, 11);
}

static void gzip_is_resident_and_limited(void **state) {
  (void)state;
  write_idx_pair(root, "train", 5000, 5, 7, 4, true);
  write_idx_pair(root, "t10k", 5000, 5, 7, 4, false);
  ull_source *packed = open_source("idx", root, ULL_SPLIT_TRAIN);
  ull_source *plain = open_source("idx", root, ULL_SPLIT_EVAL);
  uint64_t data_bytes = 5000 * 36;
  assert_int_equal(ull_source_resident_bytes(packed),
                   ull_source_resident_bytes(plain) + data_bytes);
  ull_source_close(packed);
  ull_source_close(plain);

  ull_source_options options = ull_source_options_default();
  options.resident_limit_bytes = data_bytes;
  assert_int_equal(ull_source_open(source_text("idx", root), &options, &packed),
                   ULL_ERROR_DOES_NOT_FIT);
  assert_true(ull_error_last()->wanted_bytes > ull_error_last()->available_bytes);
}

static void sources_give_everything_back(void **state) {
  (void)state;
  write_idx_pair(root, "train", 500, 5, 7, 4, true);
  uint64_t before = ull__alloc_count().live_bytes;
  ull_source_close(open_source("idx", root, ULL_SPLIT_TRAIN));
  assert_int_equal(ull__alloc_count().live_bytes, before);
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  write_idx_pair(root, "train", 50, 5, 7, 4, true);
  uint64_t before = ull__alloc_count().live_bytes;
  ull_source_options options = ull_source_options_default();
  ull_status status = ULL_ERROR_OUT_OF_MEMORY;
  int failures = 0;
  for (uint64_t n = 1; status != ULL_OK; n++) {
    ull_source *source = NULL;
    ull__alloc_fail_at(n);
    status = ull_source_open(source_text("idx", root), &options, &source);
    ull__alloc_fail_at(0);
    if (status != ULL_OK) assert_int_equal(status, ULL_ERROR_OUT_OF_MEMORY);
    failures += status != ULL_OK;
    ull_source_close(source);
    assert_int_equal(ull__alloc_count().live_bytes, before);
  }
  assert_true(failures > 8);
}

static const float floats[6] = {1.5f, -2.0f, 0.0f, 3.25f, 1e30f, -1e-30f};
static const int64_t longs[3] = {7, -9, INT64_MAX};
static const int32_t ints[6] = {1, 2, 3, 4, 5, -6};
static const double doubles[3] = {0.1, 0.2, 0.3};
static const uint8_t bytes[3] = {0, 1, 1};
static const uint16_t halves[3] = {0x3c00, 0xc000, 0x7bff};

typedef struct array_case {
  const char *name, *descr, *shape;
  ull_dtype dtype;
  const void *elements;
  size_t count;
} array_case;

static const array_case cases[] = {
    {"image.npy", "<f4", "(3, 2)", ULL_FLOAT32, floats, sizeof floats},
    {"target.npy", "<i8", "(3,)", ULL_INT64, longs, sizeof longs},
    {"ids.npy", "<i4", "(3, 1, 2)", ULL_INT32, ints, sizeof ints},
    {"wide.npy", "<f8", "(3,)", ULL_FLOAT64, doubles, sizeof doubles},
    {"mask.npy", "|b1", "(3,)", ULL_BOOL, bytes, sizeof bytes},
    {"grey.npy", "|u1", "(3, 1)", ULL_UINT8, bytes, sizeof bytes},
    {"half.npy", "<f2", "(3,)", ULL_FLOAT16, halves, sizeof halves},
};
enum { CASE_COUNT = sizeof cases / sizeof cases[0] };

static void check_cases(ull_source *source) {
  assert_int_equal(ull_source_sample_count(source), 3);
  assert_int_equal(ull_source_array_count(source), CASE_COUNT);
  for (size_t i = 0; i < CASE_COUNT; i++) {
    char name[16];
    snprintf(name, sizeof name, "%.*s", (int)strlen(cases[i].name) - 4, cases[i].name);
    int array = ull_source_find_array(source, name);
    assert_true(array >= 0);
    const ull_array_info *info = ull_source_array(source, (size_t)array);
    assert_int_equal(info->dtype, cases[i].dtype);
    assert_int_equal(info->sample_bytes, cases[i].count / 3);
    assert_int_equal(info->role, strcmp(name, "target") == 0 ? ULL_ARRAY_TARGET : ULL_ARRAY_INPUT);
    for (uint64_t s = 0; s < 3; s++) {
      uint8_t sample[16];
      assert_int_equal(ull_source_read(source, s, (size_t)array, sample, NULL), ULL_OK);
      assert_memory_equal(sample, (const uint8_t *)cases[i].elements + s * info->sample_bytes,
                          info->sample_bytes);
    }
  }
  ull_source_close(source);
}

static void build_members(byte_buffer *arrays, npz_member *members) {
  for (size_t i = 0; i < CASE_COUNT; i++) {
    append_npy(&arrays[i], cases[i].descr, false, cases[i].shape, cases[i].elements,
               cases[i].count);
    members[i] = (npz_member){cases[i].name, arrays[i].bytes, arrays[i].count};
  }
}

static void npz_of_all_dtypes(void **state) {
  (void)state;
  byte_buffer arrays[CASE_COUNT] = {0};
  npz_member members[CASE_COUNT];
  build_members(arrays, members);
  for (int deflated = 0; deflated < 2; deflated++) {
    byte_buffer archive = {0};
    append_zip(&archive, members, CASE_COUNT, deflated);
    write_file(path_in(root, "a.npz"), archive.bytes, archive.count);
    free_buffer(&archive);
    check_cases(open_source("npz", path_in(root, "a.npz"), ULL_SPLIT_TRAIN));
  }
  for (size_t i = 0; i < CASE_COUNT; i++) {
    write_file(path_in(root, cases[i].name), arrays[i].bytes, arrays[i].count);
    free_buffer(&arrays[i]);
  }
  check_cases(open_source("npy", root, ULL_SPLIT_TRAIN));
}

static void write_npz(const char *name, const char *descr, bool fortran, const char *shape,
                      const void *elements, size_t count) {
  byte_buffer array = {0}, archive = {0};
  append_npy(&array, descr, fortran, shape, elements, count);
  append_zip(&archive, &(npz_member){name, array.bytes, array.count}, 1, false);
  write_file(path_in(root, "a.npz"), archive.bytes, archive.count);
  free_buffer(&array);
  free_buffer(&archive);
}

static void npz_refusals(void **state) {
  (void)state;
  const char *path = path_in(root, "a.npz");
  write_npz("x.npy", "<f4", true, "(3, 2)", floats, sizeof floats);
  expect_failure("npz", path, ULL_ERROR_UNSUPPORTED, "DIR/a.npz: 'x': is stored in Fortran order");
  assert_string_equal(ull_error_last()->change, "save numpy.ascontiguousarray(array)");
  write_npz("x.npy", ">f4", false, "(3, 2)", floats, sizeof floats);
  expect_failure("npz", path, ULL_ERROR_UNSUPPORTED, "DIR/a.npz: 'x': has elements of dtype '>f4'");
  write_npz("x.npy", "<f4", false, "(4, 2)", floats, sizeof floats);
  expect_failure("npz", path, ULL_ERROR_DATA,
                 "DIR/a.npz: 'x': is truncated: it needs 160 bytes and has 152");
  write_npz("x.npy", "<f4", false, "()", floats, 4);
  expect_failure("npz", path, ULL_ERROR_DATA,
                 "DIR/a.npz: 'x': is a single number; arrays need a first dimension of samples");
  write_npz("x.npy", "<f4", false, "(0, 2)", floats, 0);
  char expected[600];
  snprintf(expected, sizeof expected, "npz:DIR/a.npz: holds no samples");
  expect_failure("npz", path, ULL_ERROR_DATA, expected);
  write_npz("x.npy", "<f4", false, "(9000000000000000000, 9)", floats, sizeof floats);
  expect_failure("npz", path, ULL_ERROR_DATA,
                 "DIR/a.npz: 'x': the extents in its shape multiply beyond 63 bits");
  write_npz("x.npy", "<f4", false, "(99999999999999999999,)", floats, sizeof floats);
  expect_failure("npz", path, ULL_ERROR_DATA,
                 "DIR/a.npz: 'x': an extent in its shape is beyond 63 bits");
  write_npz("x.txt", "<f4", false, "(3, 2)", floats, sizeof floats);
  expect_failure("npz", path, ULL_ERROR_DATA,
                 "DIR/a.npz: holds 'x.txt', which is not an NPY array");
}

static void npz_counts_must_agree(void **state) {
  (void)state;
  byte_buffer x = {0}, y = {0}, archive = {0};
  append_npy(&x, "<f4", false, "(3, 2)", floats, sizeof floats);
  append_npy(&y, "<i4", false, "(6,)", ints, sizeof ints);
  npz_member members[2] = {{"x.npy", x.bytes, x.count}, {"target.npy", y.bytes, y.count}};
  append_zip(&archive, members, 2, true);
  write_file(path_in(root, "a.npz"), archive.bytes, archive.count);
  expect_failure("npz", path_in(root, "a.npz"), ULL_ERROR_DATA,
                 "DIR/a.npz: 'target': 'x' has 3 samples and 'target' has 6");
  free_buffer(&archive);
  members[1] = members[0];
  append_zip(&archive, members, 2, false);
  write_file(path_in(root, "a.npz"), archive.bytes, archive.count);
  expect_failure("npz", path_in(root, "a.npz"), ULL_ERROR_DATA,
                 "npz:DIR/a.npz: has two arrays named 'x'");
  free_buffer(&archive);
  free_buffer(&x);
  free_buffer(&y);
}

static void npz_checksum_is_verified(void **state) {
  (void)state;
  write_npz("x.npy", "<f4", false, "(3, 2)", floats, sizeof floats);
  size_t count;
  uint8_t *content = read_file(path_in(root, "a.npz"), &count);
  content[30 + 5 + 128 + 3] ^= 1; /* an element */
  write_file(path_in(root, "a.npz"), content, count);
  free(content);
  expect_failure("npz", path_in(root, "a.npz"), ULL_ERROR_DATA,
                 "DIR/a.npz: 'x': its checksum does not match its content");
}

static void write_idx_file(const char *name, int rank, const uint32_t *extents, size_t count,
                           bool gzip) {
  byte_buffer content = {0};
  uint8_t *elements = calloc(1, count + 1);
  append_idx(&content, rank, extents, elements, count);
  if (gzip) {
    write_gzip(path_in(root, name), content.bytes, content.count);
  } else {
    write_file(path_in(root, name), content.bytes, content.count);
  }
  free_buffer(&content);
  free(elements);
}

static void idx_refusals(void **state) {
  (void)state;
  const char *images = "train-images-idx3-ubyte", *labels = "train-labels-idx1-ubyte";
  expect_failure("idx", root, ULL_ERROR_DATA,
                 "DIR: has neither train-images-idx3-ubyte nor train-images-idx3-ubyte.gz");
  assert_int_equal(ull_status_exit_code(ull_error_last()->status), 6);
  write_idx_file(images, 3, (uint32_t[]){10, 2, 2}, 39, false);
  expect_failure(
      "idx", root, ULL_ERROR_DATA,
      "DIR/train-images-idx3-ubyte: its header promises 40 bytes of 10 samples, but it has "
      "only 39");
  write_idx_file(images, 3, (uint32_t[]){10, 2, 2}, 41, false);
  expect_failure(
      "idx", root, ULL_ERROR_DATA,
      "DIR/train-images-idx3-ubyte: its header promises 40 bytes of 10 samples, but it has "
      "more than 40");
  write_idx_file(images, 3, (uint32_t[]){0, 2, 2}, 0, false);
  expect_failure("idx", root, ULL_ERROR_DATA,
                 "DIR/train-images-idx3-ubyte: is empty: its header has an extent of 0");
  write_idx_file(images, 3, (uint32_t[]){UINT32_MAX, UINT32_MAX, UINT32_MAX}, 8, false);
  expect_failure("idx", root, ULL_ERROR_DATA,
                 "DIR/train-images-idx3-ubyte: the extents in its header multiply beyond 63 bits");
  write_idx_file(images, 1, (uint32_t[]){4}, 4, false);
  expect_failure("idx", root, ULL_ERROR_DATA,
                 "DIR/train-images-idx3-ubyte: has 1 dimensions; images need 3");
  write_file(path_in(root, images), "hello world", 11);
  expect_failure("idx", root, ULL_ERROR_DATA,
                 "DIR/train-images-idx3-ubyte: is not an IDX file: it begins with 68656c6c");
  write_idx_file(images, 3, (uint32_t[]){10, 2, 2}, 40, false);
  expect_failure("idx", root, ULL_ERROR_DATA,
                 "DIR: has neither train-labels-idx1-ubyte nor train-labels-idx1-ubyte.gz");
  write_idx_file(labels, 1, (uint32_t[]){9}, 9, false);
  expect_failure("idx", root, ULL_ERROR_DATA, "DIR: 'image' has 10 samples and 'label' has 9");
}

static void gzip_bombs_are_refused(void **state) {
  (void)state;
  write_idx_file("train-images-idx3-ubyte.gz", 3, (uint32_t[]){UINT32_MAX, 28, 28}, 1000, true);
  uint64_t before = ull__alloc_count().peak_bytes;
  ull_source_options options = ull_source_options_default();
  ull_source *source;
  assert_int_equal(ull_source_open(source_text("idx", root), &options, &source), ULL_ERROR_DATA);
  assert_non_null(strstr(ull_error_last()->message, "compressed bytes can hold"));
  assert_true(ull__alloc_count().peak_bytes < before + (1 << 20));
  /* A million zeros behind a header that promises 40 bytes: nothing beyond 41 bytes is inflated. */
  write_idx_file("train-images-idx3-ubyte.gz", 3, (uint32_t[]){10, 2, 2}, 1000000, true);
  expect_failure(
      "idx", root, ULL_ERROR_DATA,
      "DIR/train-images-idx3-ubyte.gz: its header promises 40 bytes of 10 samples, but it has "
      "more than 40");
}

static void texts_of_sources(void **state) {
  (void)state;
  ull_source_options options = ull_source_options_default();
  ull_source *source;
  const char *wrong[] = {"", "nothing", "idx:", "npz", "synthetic:7", "IDX:/tmp"};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    assert_int_equal(ull_source_open(wrong[i], &options, &source), ULL_ERROR_USAGE);
    const char *change = ull_error_last()->change;
    assert_ptr_equal(strstr(change, "use one of "), change);
    assert_non_null(strstr(change, "idx:DIR, npz:FILE, npy:DIR, synthetic"));
  }
  expect_failure("npz", "/nonexistent/a.npz", ULL_ERROR_DATA,
                 "/nonexistent/a.npz: cannot be opened: No such file or directory");
  expect_failure("npz", root, ULL_ERROR_DATA, "DIR: is not a regular file");
  expect_failure("npy", root, ULL_ERROR_DATA, "DIR: holds no arrays");
}

static void labels_are_checked(void **state) {
  (void)state;
  int64_t minimum, maximum;
  write_idx_pair(root, "train", 50, 5, 7, 12, true);
  ull_source *source = open_source("idx", root, ULL_SPLIT_TRAIN);
  assert_int_equal(ull_source_range(source, 1, &minimum, &maximum), ULL_OK);
  assert_true(minimum == 0 && maximum == 11);
  assert_int_equal(ull_source_check_range(source, 1, 0, 11), ULL_OK);
  assert_int_equal(ull_source_check_range(source, 1, 0, 9), ULL_ERROR_DATA);
  assert_string_equal(strstr(shown_message(), "sample"), "sample 10: label is 10, outside 0 to 9");
  ull_source_close(source);
}

static void arrays_are_chosen_for_inputs(void **state) {
  (void)state;
  write_idx_pair(root, "train", 10, 5, 7, 4, false);
  ull_source *source = open_source("idx", root, ULL_SPLIT_TRAIN);
  size_t array = 9;
  assert_int_equal(ull_source_choose_array(source, "x", ULL_ARRAY_INPUT, NULL, &array), ULL_OK);
  assert_int_equal(array, 0);
  assert_int_equal(ull_source_choose_array(source, "y", ULL_ARRAY_TARGET, NULL, &array), ULL_OK);
  assert_int_equal(array, 1);
  assert_int_equal(ull_source_choose_array(source, "x", ULL_ARRAY_INPUT, "label", &array), ULL_OK);
  assert_int_equal(array, 1);
  assert_int_equal(ull_source_choose_array(source, "x", ULL_ARRAY_INPUT, "pixels", &array),
                   ULL_ERROR_MISMATCH);
  assert_string_equal(shown_message(), "idx:DIR: has no array 'pixels' for 'x'");
  assert_string_equal(ull_error_last()->change,
                      "say it with --input x=ARRAY or --target ARRAY; there are image, label");
  ull_source_close(source);
}

static void held_out_part_is_a_partition(void **state) {
  (void)state;
  write_idx_pair(root, "train", 100, 5, 7, 100, false);
  int seen[100] = {0}, in_order = 0, last = -1;
  ull_source_options options = ull_source_options_default();
  options.val_split = 0.13;
  for (int split = 0; split < 2; split++) {
    options.split = (ull_split)split;
    ull_source *source;
    assert_int_equal(ull_source_open(source_text("idx", root), &options, &source), ULL_OK);
    assert_int_equal(ull_source_sample_count(source), split == ULL_SPLIT_EVAL ? 13 : 87);
    for (uint64_t s = 0; s < ull_source_sample_count(source); s++) {
      uint8_t label;
      assert_int_equal(ull_source_read(source, s, 1, &label, NULL), ULL_OK);
      seen[label]++;
      in_order += label == last + 1;
      last = label;
    }
    ull_source_close(source);
  }
  for (int i = 0; i < 100; i++) assert_int_equal(seen[i], 1);
  assert_true(in_order < 20);
  ull_source *source;
  options.val_split = 1.5;
  assert_int_equal(ull_source_open(source_text("idx", root), &options, &source), ULL_ERROR_USAGE);
  options.val_split = 0.001;
  assert_int_equal(ull_source_open(source_text("idx", root), &options, &source), ULL_ERROR_DATA);
}

static ull_source *open_synthetic(uint64_t seed) {
  static const ull_synthetic_array arrays[] = {
      {.name = "image", .dtype = ULL_FLOAT32, .rank = 3, .shape = {3, 9, 11}},
      {.name = "target", .dtype = ULL_INT64, .role = ULL_ARRAY_TARGET, .minimum = -3, .maximum = 6},
      {.name = "tokens", .dtype = ULL_INT32, .rank = 1, .shape = {40}, .maximum = 50256},
  };
  ull_source_options options = ull_source_options_default();
  options.seed = seed;
  options.synthetic = arrays;
  options.synthetic_count = 3;
  options.synthetic_samples = 64;
  ull_source *source;
  assert_int_equal(ull_source_open("synthetic", &options, &source), ULL_OK);
  return source;
}

static void synthetic_is_random_and_fixed(void **state) {
  (void)state;
  ull_source *source = open_synthetic(1), *again = open_synthetic(1), *other = open_synthetic(2);
  double sum = 0, square_sum = 0;
  int different = 0, seen[10] = {0};
  for (uint64_t s = 0; s < 64; s++) {
    float image[297], same[297], unlike[297];
    int64_t target;
    assert_int_equal(ull_source_read(source, s, 0, image, NULL), ULL_OK);
    assert_int_equal(ull_source_read(again, s, 0, same, NULL), ULL_OK);
    assert_int_equal(ull_source_read(other, s, 0, unlike, NULL), ULL_OK);
    assert_memory_equal(image, same, sizeof image);
    different += memcmp(image, unlike, sizeof image) != 0;
    for (int i = 0; i < 297; i++) sum += image[i], square_sum += (double)image[i] * image[i];
    assert_int_equal(ull_source_read(source, s, 1, &target, NULL), ULL_OK);
    assert_in_range(target + 3, 0, 9);
    seen[target + 3]++;
  }
  double count = 64 * 297, mean = sum / count;
  assert_int_equal(different, 64);
  assert_true(fabs(mean) < 4 / sqrt(count));
  assert_true(fabs(square_sum / count - 1) < 8 / sqrt(count));
  for (int i = 0; i < 10; i++) assert_true(seen[i] > 0);
  int64_t minimum, maximum;
  assert_int_equal(ull_source_range(source, 2, &minimum, &maximum), ULL_OK);
  assert_true(minimum >= 0 && maximum <= 50256 && maximum > 50256 * 9 / 10);
  assert_true(ull_source_is_fixed(source));
  ull_source_close(source);
  ull_source_close(again);
  ull_source_close(other);
}

static void real_files(void **state) {
  (void)state;
  const char *root = getenv("ULLAGE_TEST_DATA");
  if (root == NULL) {
    print_message("ULLAGE_TEST_DATA is not set\n");
    skip();
  }
  int64_t minimum, maximum;
  char text[128];
  ull_normalize normalize;
  ull_source *source = open_source("idx", path_in(root, "mnist"), ULL_SPLIT_EVAL);
  assert_int_equal(ull_source_sample_count(source), 10000);
  assert_int_equal(ull_source_range(source, 1, &minimum, &maximum), ULL_OK);
  assert_true(minimum == 0 && maximum == 9);
  assert_int_equal(ull_normalize_parse("auto", source, 0, &normalize), ULL_OK);
  assert_string_equal(ull_normalize_describe(&normalize, text, sizeof text),
                      "x/255, mean 0.1307, std 0.3081 (auto)");
  ull_source_close(source);
  source = open_source("npz", path_in(root, "pt2/gpt2.npz"), ULL_SPLIT_TRAIN);
  assert_int_equal(ull_source_sample_count(source), 80);
  int array = ull_source_find_array(source, "input_ids");
  int64_t ids[16];
  assert_int_equal(ull_source_read(source, 0, (size_t)array, ids, NULL), ULL_OK);
  assert_true(ids[0] == 0x2f && ids[1] == 0x33 && ids[2] == 0x4b);
  ull_source_close(source);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(idx_plain_and_gzip, make_root, remove_root),
      cmocka_unit_test_setup_teardown(gzip_is_resident_and_limited, make_root, remove_root),
      cmocka_unit_test_setup_teardown(sources_give_everything_back, make_root, remove_root),
      cmocka_unit_test_setup_teardown(every_allocation_may_fail, make_root, remove_root),
      cmocka_unit_test_setup_teardown(npz_of_all_dtypes, make_root, remove_root),
      cmocka_unit_test_setup_teardown(npz_refusals, make_root, remove_root),
      cmocka_unit_test_setup_teardown(npz_counts_must_agree, make_root, remove_root),
      cmocka_unit_test_setup_teardown(npz_checksum_is_verified, make_root, remove_root),
      cmocka_unit_test_setup_teardown(idx_refusals, make_root, remove_root),
      cmocka_unit_test_setup_teardown(gzip_bombs_are_refused, make_root, remove_root),
      cmocka_unit_test_setup_teardown(texts_of_sources, make_root, remove_root),
      cmocka_unit_test_setup_teardown(labels_are_checked, make_root, remove_root),
      cmocka_unit_test_setup_teardown(arrays_are_chosen_for_inputs, make_root, remove_root),
      cmocka_unit_test_setup_teardown(held_out_part_is_a_partition, make_root, remove_root),
      cmocka_unit_test(synthetic_is_random_and_fixed),
      cmocka_unit_test(real_files),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
