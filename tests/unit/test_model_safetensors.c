/* Files of tensors: read, written, broken in every way, and hashed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"
#include "base/half.h"
#include "model/safetensors/safetensors.h"
#include "model/weights_hash.h"
#include "support/data_trees.h"

/* A file of a header text and `data_bytes` bytes of data: 0, 1, 2, ... */
static void write_parts(const char *path, const char *header, size_t data_bytes) {
  const size_t length = strlen(header);
  uint8_t *bytes = calloc(1, 8 + length + data_bytes + 1);
  for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)((uint64_t)length >> 8 * i);
  memcpy(bytes + 8, header, length);
  for (size_t i = 0; i < data_bytes; i++) bytes[8 + length + i] = (uint8_t)i;
  write_file(path, bytes, 8 + length + data_bytes);
  free(bytes);
}

static ull_status open_file(const char *path) {
  ull__safetensors *file = NULL;
  const ull_status status = ull__safetensors_open(path, &file);
  if (status != ULL_OK) assert_null(file);
  ull__safetensors_close(file);
  return status;
}

/* ---- reading what Python wrote ---- */

static void test_reads_a_file_of_python(void **state) {
  (void)state;
  ull__safetensors *file = NULL;
  float bias[10];
  double wide[10];
  assert_int_equal(
      ull__safetensors_open(source_path("tests/data/resnet_weights.safetensors"), &file), ULL_OK);
  assert_int_equal(ull__safetensors_count(file), 47);
  for (uint32_t i = 1; i < 47; i++) {
    assert_true(strcmp(ull__safetensors_at(file, i - 1)->name, ull__safetensors_at(file, i)->name) <
                0);
  }
  const ull__tensor_entry *entry = ull__safetensors_find(file, "fc.bias");
  assert_non_null(entry);
  assert_int_equal(entry->dtype, ULL_FLOAT32);
  assert_string_equal(entry->stored_dtype, "F32");
  assert_int_equal(entry->shape.rank, 1);
  assert_int_equal(entry->shape.dims[0].constant, 10);
  assert_int_equal(ull__safetensors_read(file, entry, ULL_FLOAT32, bias), ULL_OK);
  assert_int_equal(ull__safetensors_read(file, entry, ULL_FLOAT64, wide), ULL_OK);
  for (int i = 0; i < 10; i++) {
    assert_true(bias[i] != 0 && bias[i] > -0.2f && bias[i] < 0.2f); /* 1 / sqrt(32) */
    assert_true(wide[i] == (double)bias[i]);
  }
  assert_null(ull__safetensors_find(file, "fc.bia"));
  assert_null(ull__safetensors_find(file, "zzz"));
  assert_int_equal(ull__safetensors_read(file, entry, ULL_INT64, wide), ULL_ERROR_UNSUPPORTED);
  ull__safetensors_close(file);
}

/* Written again, the file is the same byte for byte. */
static void test_writes_what_python_writes(void **state) {
  (void)state;
  ull__safetensors *file = NULL;
  ull__safetensors_writer *writer = NULL;
  char *old_bytes, *new_bytes;
  size_t old_size, new_size;
  ull__tensor_plan plans[64];
  const char *path = source_path("tests/data/gpt2_weights.safetensors");
  assert_int_equal(ull__safetensors_open(path, &file), ULL_OK);
  const uint32_t count = ull__safetensors_count(file);
  for (uint32_t i = 0; i < count; i++) {
    const ull__tensor_entry *entry = ull__safetensors_at(file, (i * 11) % count);
    plans[i] = (ull__tensor_plan){entry->name, entry->dtype, entry->shape};
  }
  assert_int_equal(ull__safetensors_create(path_in(root, "again"), plans, count, NULL, 0, &writer),
                   ULL_OK);
  for (uint32_t i = 0; i < count; i++) {
    const ull__tensor_entry *entry = ull__safetensors_find(file, plans[i].name);
    void *bytes = malloc(entry->size_bytes);
    assert_int_equal(ull__safetensors_read(file, entry, entry->dtype, bytes), ULL_OK);
    assert_int_equal(ull__safetensors_write(writer, entry->name, bytes, entry->size_bytes), ULL_OK);
    free(bytes);
  }
  assert_int_equal(ull__safetensors_finish(writer), ULL_OK);
  ull__safetensors_close(file);
  assert_int_equal(ull__file_read(path, 1 << 24, &old_bytes, &old_size), ULL_OK);
  assert_int_equal(ull__file_read(path_in(root, "again"), 1 << 24, &new_bytes, &new_size), ULL_OK);
  assert_int_equal(old_size, new_size);
  assert_memory_equal(old_bytes, new_bytes, old_size);
  ull__free(old_bytes);
  ull__free(new_bytes);
}

/* Every element type, scalars and empty tensors, metadata, names that need escapes. */
static void test_round_trip_of_every_type(void **state) {
  (void)state;
  static const char *const names[ULL_DTYPE_COUNT] = {"d",   "c", "b",      "\"quoted\"",
                                                     "a/ü", "",  "scalar", "empty"};
  const int64_t dims[] = {3, 1, 5};
  uint8_t bytes[15 * 8];
  ull__tensor_plan plans[ULL_DTYPE_COUNT];
  const ull__metadata_pair metadata[] = {{"step", "30"}, {"format", "pt"}};
  ull__safetensors_writer *writer = NULL;
  ull__safetensors *file = NULL;
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 37 + 1);
  for (int d = 0; d < ULL_DTYPE_COUNT; d++) {
    plans[d] = (ull__tensor_plan){names[d], (ull_dtype)d, ull__shape_of(3, dims)};
  }
  plans[6].shape = ull__shape_of(0, NULL);
  plans[7].shape.dims[1] = ull__dim_of(0);
  assert_int_equal(
      ull__safetensors_create(path_in(root, "types"), plans, ULL_DTYPE_COUNT, metadata, 2, &writer),
      ULL_OK);
  for (int d = ULL_DTYPE_COUNT - 1; d >= 0; d--) {
    uint64_t size = 0;
    assert_int_equal(ull__shape_bytes(&plans[d].shape, plans[d].dtype, &size), ULL_OK);
    assert_int_equal(ull__safetensors_write(writer, names[d], bytes, size), ULL_OK);
  }
  assert_int_equal(ull__safetensors_finish(writer), ULL_OK);
  assert_int_equal(ull__safetensors_open(path_in(root, "types"), &file), ULL_OK);
  assert_string_equal(ull__safetensors_metadata(file, "step"), "30");
  assert_null(ull__safetensors_metadata(file, "none"));
  for (int d = 0; d < ULL_DTYPE_COUNT; d++) {
    uint8_t read[15 * 8];
    const ull__tensor_entry *entry = ull__safetensors_find(file, names[d]);
    assert_non_null(entry);
    assert_int_equal(entry->dtype, d);
    assert_true(ull__shape_equal(&entry->shape, &plans[d].shape));
    assert_int_equal(entry->offset_bytes % (ull_dtype_bytes(entry->dtype)), 0);
    assert_int_equal(ull__safetensors_read(file, entry, entry->dtype, read), ULL_OK);
    assert_memory_equal(read, bytes, entry->size_bytes);
  }
  ull__safetensors_close(file);
}

/* ---- broken files ---- */

static void test_every_truncation_is_refused(void **state) {
  (void)state;
  char *bytes;
  size_t size, checked = 0;
  assert_int_equal(
      ull__file_read(source_path("tests/data/resnet_weights.safetensors"), 1 << 24, &bytes, &size),
      ULL_OK);
  for (size_t cut = 0; cut < size; cut += cut < 4096 ? 1 : 211, checked++) {
    write_file(path_in(root, "cut"), bytes, cut);
    const ull_status status = open_file(path_in(root, "cut"));
    if (status != ULL_ERROR_DATA) fail_msg("%zu bytes: %s", cut, ull_status_name(status));
    assert_non_null(strstr(ull_error_last()->message, path_in(root, "cut")));
  }
  write_file(path_in(root, "cut"), bytes, size - 1);
  assert_int_equal(open_file(path_in(root, "cut")), ULL_ERROR_DATA);
  assert_non_null(strstr(ull_error_last()->message, "is cut off"));
  print_message("%zu truncations refused\n", checked);
  ull__free(bytes);
}

/* One byte of the header changed: refused or read, never anything worse. */
static void test_changed_bytes_do_no_harm(void **state) {
  (void)state;
  static const uint8_t values[] = {0, '"', '{', '}', '[', ',', '-', '9', 0x80, 0xFF};
  char *bytes;
  size_t size, refused = 0, changed = 0;
  assert_int_equal(
      ull__file_read(source_path("tests/data/gpt2_weights.safetensors"), 1 << 24, &bytes, &size),
      ULL_OK);
  for (size_t i = 0; i < 8 + 2560; i += i < 300 ? 1 : 7) {
    const char old = bytes[i];
    bytes[i] = (char)values[i % sizeof values];
    write_file(path_in(root, "changed"), bytes, size);
    refused += open_file(path_in(root, "changed")) != ULL_OK;
    changed++;
    bytes[i] = old;
  }
  print_message("%zu of %zu changed files refused\n", refused, changed);
  assert_true(refused * 2 > changed);
  ull__free(bytes);
}

typedef struct hostile {
  const char *header;
  size_t data_bytes;
  const char *message; /* NULL: the file is good */
} hostile;

#define T(dtype, shape, from, to) \
  "{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" from "," to "]}"

static const hostile hostiles[] = {
    {"{}", 0, NULL},
    {"{\"a\":" T("F32", "2,2", "0", "16") "}", 16, NULL},
    {"{\"a\":" T("F32", "2,2", "0", "16") "}     ", 16, NULL},
    {"{\"a\":" T("F8_E4M3", "4", "0", "4") "}", 4, NULL},
    {"{\"a\":" T("F32", "0,9223372036854775807", "0", "0") "}", 0, NULL},
    {"{\"__metadata__\":{\"k\":\"v\"},\"a\":" T("U8", "", "0", "1") "}", 1, NULL},
    {"", 0, "does not begin with {"},
    {" {}", 0, "does not begin with {"},
    {"[]", 0, "does not begin with {"},
    {"{", 0, "not valid JSON"},
    {"{}x", 0, "not valid JSON"},
    {"{\"\xFF\":1}", 0, "not valid JSON"},
    {"{\"a\\u0000b\":" T("U8", "1", "0", "1") "}", 1, "not valid JSON"},
    {"{}", 1, "belong to none"},
    {"{\"a\":" T("U8", "1", "0", "1") ",\"a\":" T("U8", "1", "1", "2") "}", 2, "not valid JSON"},
    {"{\"a\":" T("U8", "1", "0", "1") ",\"b\":" T("U8", "1", "0", "1") "}", 1, "the one before"},
    {"{\"a\":" T("U8", "2", "0", "2") ",\"b\":" T("U8", "2", "1", "3") "}", 3, "the one before"},
    {"{\"a\":" T("U8", "1", "0", "1") ",\"b\":" T("U8", "1", "2", "3") "}", 3, "the one before"},
    {"{\"a\":" T("U8", "1", "1", "2") "}", 2, "the one before"},
    {"{\"a\":" T("I32", "2,2", "0", "4") "}", 4, "takes 16 bytes"},
    {"{\"a\":" T("F32", "32,8", "0", "65536") "}", 65536, "takes 1024 bytes"},
    {"{\"a\":" T("F32", "2,9223372036854775807", "0", "16") "}", 16, "63 bits"},
    {"{\"a\":" T("F32", "2,18446744073709551614", "0", "16") "}", 16, "not valid JSON"},
    {"{\"a\":" T("F64", "4611686018427387904", "0", "0") "}", 0, "63 bits"},
    {"{\"a\":" T("F32", "-1", "0", "4") "}", 4, "bad dimension"},
    {"{\"a\":" T("F32", "1.0", "0", "4") "}", 4, "bad dimension"},
    {"{\"a\":" T("F32", "\"1\"", "0", "4") "}", 4, "bad dimension"},
    {"{\"a\":" T("F32", "1,1,1,1,1,1,1,1,1", "0", "4") "}", 4, "at most 8"},
    {"{\"a\":" T("F32", "1", "4", "0") "}", 4, "from byte 4 to 0"},
    {"{\"a\":" T("F32", "1", "-4", "0") "}", 4, "from byte -4"},
    {"{\"a\":" T("F32", "1", "0", "4.0") "}", 4, "no pair"},
    {"{\"a\":" T("F32", "1", "0", "1e400") "}", 4, "not valid JSON"},
    {"{\"a\":" T("F32", "1", "0", "9223372036854775807") "}", 4, "is cut off"},
    {"{\"a\":" T("F32", "1", "0,4", "4") "}", 4, "no pair"},
    {"{\"a\":" T("F99", "1", "0", "4") "}", 4, "unknown dtype F99"},
    {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "no dtype"},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "no shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "no pair"},
    {"{\"a\":{\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "no dtype"},
    {"{\"a\":[]}", 4, "no dtype"},
    {"{\"a\":null}", 4, "no dtype"},
    {"{\"__metadata__\":[]}", 0, "no object"},
    {"{\"__metadata__\":{\"k\":1}}", 0, "no text"},
};

static void test_hostile_headers(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof hostiles / sizeof *hostiles; i++) {
    const hostile *h = &hostiles[i];
    write_parts(path_in(root, "hostile"), h->header, h->data_bytes);
    const ull_status status = open_file(path_in(root, "hostile"));
    const char *message = ull_error_last()->message;
    const bool is_expected = h->message == NULL
                                 ? status == ULL_OK
                                 : status == ULL_ERROR_DATA && strstr(message, h->message) != NULL;
    if (!is_expected) fail_msg("%s gave %s: %s", h->header, ull_status_name(status), message);
  }
}

static void check_start(const char *bytes, size_t size, const char *message) {
  write_file(path_in(root, "start"), bytes, size);
  assert_int_equal(open_file(path_in(root, "start")), ULL_ERROR_DATA);
  if (strstr(ull_error_last()->message, message) == NULL) fail_msg("%s", ull_error_last()->message);
}

static void test_hostile_lengths(void **state) {
  (void)state;
  check_start("", 0, "too short");
  check_start("\x3C\0\0\0\0\0\0\0", 8, "inside its header");
  check_start("\x3C\0\0\0\xFF\xFF\xFF\xFF", 8, "too long");
  check_start("\xF8\xFF\xFF\xFF\xFF\xFF\xFF\xFF{}", 10, "too long");
  check_start("\x01\xE1\xF5\x05\0\0\0\0{}", 10, "too long"); /* 100,000,001 */
  check_start("PK\3\4\0\0\0\0archive/data.pkl", 24, "pickle");
  check_start("\x80\2\x8A\nl\xFC\x9C\x46\xF9", 10, "pickle");
  assert_non_null(strstr(ull_error_last()->change, "save_file"));
}

static void test_deep_json_is_refused(void **state) {
  (void)state;
  enum { DEPTH = 100000 };
  char *header = calloc(1, DEPTH + 16);
  strcpy(header, "{\"a\":");
  memset(header + 5, '[', DEPTH);
  write_parts(path_in(root, "deep"), header, 0);
  free(header);
  assert_int_equal(open_file(path_in(root, "deep")), ULL_ERROR_DATA);
}

static void test_files_that_cannot_be_read(void **state) {
  (void)state;
  assert_int_equal(open_file(path_in(root, "absent")), ULL_ERROR_IO);
  assert_non_null(strstr(ull_error_last()->message, path_in(root, "absent")));
  assert_int_equal(open_file(root), ULL_ERROR_IO);
  assert_int_equal(mkfifo(path_in(root, "pipe"), 0600), 0);
  assert_int_equal(open_file(path_in(root, "pipe")),
                   ULL_ERROR_IO); /* and does not wait for a writer */
}

static void test_file_that_shrinks_is_an_error(void **state) {
  (void)state;
  ull__safetensors *file = NULL;
  float numbers[4];
  write_parts(path_in(root, "shrinks"), "{\"a\":" T("F32", "4", "0", "16") "}", 16);
  assert_int_equal(ull__safetensors_open(path_in(root, "shrinks"), &file), ULL_OK);
  assert_int_equal(truncate(path_in(root, "shrinks"), 70), 0);
  assert_int_equal(ull__safetensors_read(file, ull__safetensors_at(file, 0), ULL_FLOAT32, numbers),
                   ULL_ERROR_DATA);
  ull__safetensors_close(file);
}

/* ---- writing ---- */

static const int64_t four = 4;

static ull__safetensors_writer *start_writer(const char *path) {
  const ull__tensor_plan plans[] = {{"a", ULL_FLOAT32, ull__shape_of(1, &four)},
                                    {"b", ULL_UINT8, ull__shape_of(1, &four)}};
  ull__safetensors_writer *writer = NULL;
  assert_int_equal(ull__safetensors_create(path, plans, 2, NULL, 0, &writer), ULL_OK);
  return writer;
}

static uint32_t files_in_folder(void) {
  char command[128], text[16] = "";
  snprintf(command, sizeof command, "ls -A %s/out | wc -l", root);
  FILE *pipe = popen(command, "r");
  assert_non_null(fgets(text, sizeof text, pipe));
  pclose(pipe);
  return (uint32_t)atoi(text);
}

/* Until all is written the old file stays, and nothing is left behind by a failure. */
static void test_old_file_stays_until_the_new_is_whole(void **state) {
  (void)state;
  static const char bytes[16] = "0123456789abcdef";
  char *content;
  size_t size;
  assert_int_equal(mkdir(path_in(root, "out"), 0700), 0);
  write_file(path_in(root, "out/w"), "old", 3);
  ull__safetensors_writer *writer = start_writer(path_in(root, "out/w"));
  assert_int_equal(ull__safetensors_write(writer, "a", bytes, 16), ULL_OK);
  assert_int_equal(ull__safetensors_write(writer, "a", bytes, 16), ULL_ERROR_INVALID); /* twice */
  assert_int_equal(ull__safetensors_write(writer, "b", bytes, 5), ULL_ERROR_INVALID);  /* size */
  assert_int_equal(ull__safetensors_write(writer, "c", bytes, 4), ULL_ERROR_INVALID);
  assert_int_equal(files_in_folder(), 2);
  assert_int_equal(ull__safetensors_finish(writer), ULL_ERROR_INVALID); /* b is missing */
  assert_int_equal(ull__file_read(path_in(root, "out/w"), 100, &content, &size), ULL_OK);
  assert_string_equal(content, "old");
  ull__free(content);
  assert_int_equal(files_in_folder(), 1);

  writer = start_writer(path_in(root, "out/w"));
  assert_int_equal(ull__safetensors_write(writer, "b", bytes, 4), ULL_OK);
  assert_int_equal(ull__safetensors_write(writer, "a", bytes, 16), ULL_OK);
  assert_int_equal(ull__safetensors_finish(writer), ULL_OK);
  assert_int_equal(open_file(path_in(root, "out/w")), ULL_OK);
  assert_int_equal(files_in_folder(), 1);
  ull__safetensors_discard(start_writer(path_in(root, "out/x")));
  assert_int_equal(files_in_folder(), 1);
}

static void test_writer_refuses(void **state) {
  (void)state;
  ull__safetensors_writer *writer = NULL;
  const ull__tensor_plan twice[] = {{"a", ULL_FLOAT32, ull__shape_of(1, &four)},
                                    {"a", ULL_UINT8, ull__shape_of(1, &four)}};
  const ull__tensor_plan batched = {"a", ULL_FLOAT32, ull__shape_batched(1, &four)};
  assert_int_equal(ull__safetensors_create(path_in(root, "t"), twice, 2, NULL, 0, &writer),
                   ULL_ERROR_INVALID);
  assert_int_equal(ull__safetensors_create(path_in(root, "t"), &batched, 1, NULL, 0, &writer),
                   ULL_ERROR_INVALID);
  assert_int_equal(ull__safetensors_create(path_in(root, "no/t"), twice, 1, NULL, 0, &writer),
                   ULL_ERROR_IO);
  assert_null(writer);
}

static void test_memory_out_at_any_allocation(void **state) {
  (void)state;
  const ull__metadata_pair metadata = {"k", "v"};
  static const char bytes[16];
  for (uint64_t n = 1;; n++) {
    const uint64_t live = ull__alloc_count().live_bytes;
    ull__safetensors_writer *writer = NULL;
    ull__safetensors *file = NULL;
    const ull__tensor_plan plan = {"a", ULL_FLOAT32, ull__shape_of(1, &four)};
    ull__alloc_fail_at(n);
    ull_status status =
        ull__safetensors_create(path_in(root, "memory"), &plan, 1, &metadata, 1, &writer);
    if (status == ULL_OK) {
      assert_int_equal(ull__safetensors_write(writer, "a", bytes, 16), ULL_OK);
      status = ull__safetensors_finish(writer);
    }
    if (status == ULL_OK) status = ull__safetensors_open(path_in(root, "memory"), &file);
    ull__alloc_fail_at(0);
    ull__safetensors_close(file);
    assert_int_equal(ull__alloc_count().live_bytes, live);
    if (status == ULL_OK) break;
    if (status != ULL_ERROR_OUT_OF_MEMORY) fail_msg("%s", ull_error_last()->message);
    assert_true(n < 1000);
  }
}

/* ---- types ---- */

static void test_half_numbers(void **state) {
  (void)state;
  for (uint32_t bits = 0; bits <= 0xFFFF;
       bits++) { /* every number survives the way there and back */
    const float half = ull__half_to_float((uint16_t)bits);
    const float brain = ull__bfloat16_to_float((uint16_t)bits);
    if (half == half) assert_int_equal(ull__half_from_float(half), bits);
    if (half != half) assert_true((ull__half_from_float(half) & 0x7FFF) > 0x7C00);
    if (brain == brain) assert_int_equal(ull__bfloat16_from_float(brain), bits);
    if (brain != brain) assert_true((ull__bfloat16_from_float(brain) & 0x7FFF) > 0x7F80);
  }
  assert_true(ull__half_to_float(0x3C00) == 1.0f && ull__half_to_float(1) == 0x1p-24f);
  assert_true(ull__half_to_float(0x7BFF) == 65504.0f && ull__half_to_float(0xC000) == -2.0f);
  assert_int_equal(ull__half_from_float(65519.0f), 0x7BFF);
  assert_int_equal(ull__half_from_float(65520.0f), 0x7C00);
  assert_int_equal(ull__half_from_float(0x1p-25f), 0);   /* tie to even */
  assert_int_equal(ull__half_from_float(0x1.8p-24f), 2); /* tie to even */
  assert_int_equal(ull__half_from_float(1.0f + 0x1p-11f), 0x3C00);
  assert_int_equal(ull__half_from_float(1.0f + 0x1.8p-10f), 0x3C02);
  assert_int_equal(ull__bfloat16_from_float(1.0f + 0x1p-8f), 0x3F80);
  assert_int_equal(ull__bfloat16_from_float(1.0f + 0x1.8p-7f), 0x3F82);
}

static void test_sixteen_bits_are_read_as_float32(void **state) {
  (void)state;
  ull__safetensors_writer *writer = NULL;
  ull__safetensors *file = NULL;
  const int64_t count = 40000; /* several pieces of the conversion's buffer */
  const ull__tensor_plan plans[] = {{"brain", ULL_BFLOAT16, ull__shape_of(1, &count)},
                                    {"half", ULL_FLOAT16, ull__shape_of(1, &count)}};
  uint16_t *bits = malloc((size_t)count * 2);
  float *numbers = malloc((size_t)count * 4);
  for (int64_t i = 0; i < count; i++) bits[i] = (uint16_t)(i % 0x7C00);
  assert_int_equal(ull__safetensors_create(path_in(root, "half"), plans, 2, NULL, 0, &writer),
                   ULL_OK);
  assert_int_equal(ull__safetensors_write(writer, "half", bits, 80000), ULL_OK);
  assert_int_equal(ull__safetensors_write(writer, "brain", bits, 80000), ULL_OK);
  assert_int_equal(ull__safetensors_finish(writer), ULL_OK);
  assert_int_equal(ull__safetensors_open(path_in(root, "half"), &file), ULL_OK);
  assert_int_equal(
      ull__safetensors_read(file, ull__safetensors_find(file, "half"), ULL_FLOAT32, numbers),
      ULL_OK);
  for (int64_t i = 0; i < count; i++) assert_true(numbers[i] == ull__half_to_float(bits[i]));
  assert_int_equal(
      ull__safetensors_read(file, ull__safetensors_find(file, "brain"), ULL_FLOAT32, numbers),
      ULL_OK);
  for (int64_t i = 0; i < count; i++) assert_true(numbers[i] == ull__bfloat16_to_float(bits[i]));
  ull__safetensors_close(file);
  free(bits);
  free(numbers);
}

/* ---- the hash ---- */

static void expect_hash(const char *name, const char *expected) {
  ull__safetensors *file = NULL;
  ull__weights_hash hash;
  char text[ULL__SHA256_HEX];
  assert_int_equal(ull__safetensors_open(source_path(name), &file), ULL_OK);
  ull__weights_hash_begin(&hash);
  for (uint32_t i = 0; i < ull__safetensors_count(file); i++) {
    const ull__tensor_entry *entry = ull__safetensors_at(file, i);
    void *bytes = malloc(entry->size_bytes);
    assert_int_equal(ull__safetensors_read(file, entry, entry->dtype, bytes), ULL_OK);
    assert_int_equal(ull__weights_hash_tensor(&hash, entry->name, entry->dtype, &entry->shape),
                     ULL_OK);
    assert_int_equal(ull__weights_hash_add(&hash, bytes, entry->size_bytes), ULL_OK);
    free(bytes);
  }
  assert_int_equal(ull__weights_hash_end(&hash, text), ULL_OK);
  assert_string_equal(text, expected);
  ull__safetensors_close(file);
}

/* Computed by Python's hashlib from the file's JSON, as weights_hash.h describes it. */
static void test_hash_of_a_file(void **state) {
  (void)state;
  expect_hash("tests/data/gpt2_weights.safetensors",
              "c0320ab87edc9f7f77839f14f87eb86d268723058bbe264b926eb57bb9c294be");
  expect_hash("tests/data/resnet_weights.safetensors",
              "209615f039feec4a25b5a87b3b00b84f8c60dbe02186dcf4e90776ea115991ba");
}

static void test_hash_checks_its_order(void **state) {
  (void)state;
  const ull__shape shape = ull__shape_of(1, &four);
  ull__weights_hash hash;
  char text[ULL__SHA256_HEX], other[ULL__SHA256_HEX];
  static const char bytes[16] = "0123456789abcdef";
  ull__weights_hash_begin(&hash);
  assert_int_equal(ull__weights_hash_tensor(&hash, "b", ULL_FLOAT32, &shape), ULL_OK);
  assert_int_equal(ull__weights_hash_add(&hash, bytes, 10), ULL_OK);
  assert_int_equal(ull__weights_hash_tensor(&hash, "c", ULL_FLOAT32, &shape), ULL_ERROR_INVALID);
  assert_int_equal(ull__weights_hash_end(&hash, text), ULL_ERROR_INVALID);
  assert_int_equal(ull__weights_hash_add(&hash, bytes, 7), ULL_ERROR_INVALID);
  assert_int_equal(ull__weights_hash_add(&hash, bytes + 10, 6), ULL_OK);
  assert_int_equal(ull__weights_hash_tensor(&hash, "b", ULL_FLOAT32, &shape), ULL_ERROR_INVALID);
  assert_int_equal(ull__weights_hash_tensor(&hash, "a", ULL_FLOAT32, &shape), ULL_ERROR_INVALID);
  assert_int_equal(ull__weights_hash_end(&hash, text), ULL_OK);
  ull__weights_hash_begin(&hash); /* in one piece */
  assert_int_equal(ull__weights_hash_tensor(&hash, "b", ULL_FLOAT32, &shape), ULL_OK);
  assert_int_equal(ull__weights_hash_add(&hash, bytes, 16), ULL_OK);
  assert_int_equal(ull__weights_hash_end(&hash, other), ULL_OK);
  assert_string_equal(text, other);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_reads_a_file_of_python),
      cmocka_unit_test(test_writes_what_python_writes),
      cmocka_unit_test(test_round_trip_of_every_type),
      cmocka_unit_test(test_every_truncation_is_refused),
      cmocka_unit_test(test_changed_bytes_do_no_harm),
      cmocka_unit_test(test_hostile_headers),
      cmocka_unit_test(test_hostile_lengths),
      cmocka_unit_test(test_deep_json_is_refused),
      cmocka_unit_test(test_files_that_cannot_be_read),
      cmocka_unit_test(test_file_that_shrinks_is_an_error),
      cmocka_unit_test(test_old_file_stays_until_the_new_is_whole),
      cmocka_unit_test(test_writer_refuses),
      cmocka_unit_test(test_memory_out_at_any_allocation),
      cmocka_unit_test(test_half_numbers),
      cmocka_unit_test(test_sixteen_bits_are_read_as_float32),
      cmocka_unit_test(test_hash_of_a_file),
      cmocka_unit_test(test_hash_checks_its_order),
  };
  return cmocka_run_group_tests(tests, make_root, remove_root);
}
