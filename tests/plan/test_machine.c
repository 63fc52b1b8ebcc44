/* Machine texts: what they say, what they refuse, and that printing gives the same machine back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "plan/machine.h"

#define GIB ((uint64_t)1 << 30)

static ull__machine parse(const char *text) {
  ull__machine machine = {0};
  if (ull__machine_parse(text, &machine) != ULL_OK) fail_msg("%s", ull_error_last()->message);
  return machine;
}

static void test_text(void **state) {
  (void)state;
  ull__machine m = parse(
      "device:8GiB@12GB/s,6.5GB/s host:16GiB  disk:100GiB@500MB/s compute:9TFLOPS mem:300GB/s\n"
      "latency:10us process:24MiB kernel:40KiB launch:16KiB");
  assert_false(m.shared);
  assert_int_equal(m.tiers[ULL__TIER_DEVICE].capacity_bytes, 8 * GIB);
  assert_true(m.tiers[ULL__TIER_DEVICE].in_bytes_per_second == 12e9);
  assert_true(m.tiers[ULL__TIER_DEVICE].out_bytes_per_second == 6.5e9);
  assert_int_equal(m.tiers[ULL__TIER_HOST].capacity_bytes, 16 * GIB);
  assert_true(m.tiers[ULL__TIER_DISK].out_bytes_per_second == 500e6);
  assert_true(m.flops_per_second == 9e12);
  assert_true(m.bytes_per_second == 300e9);
  assert_true(m.launch_seconds == 10e-6);
  assert_int_equal(m.process_bytes, 24 << 20);
  assert_int_equal(m.allowances.kernel_bytes, 40 << 10);
  assert_int_equal(m.allowances.launch_bytes, 16 << 10);
}

static void test_shared_leaves_the_rest_out(void **state) {
  (void)state;
  ull__machine m = parse("shared:96GiB");
  assert_true(m.shared);
  assert_int_equal(m.tiers[ULL__TIER_DEVICE].capacity_bytes, 96 * GIB);
  assert_int_equal(m.tiers[ULL__TIER_HOST].capacity_bytes, 0);
  assert_true(m.flops_per_second == 0 && m.bytes_per_second == 0 && m.launch_seconds == 0);
  assert_int_equal(m.process_bytes + m.allowances.kernel_bytes + m.allowances.launch_bytes, 0);
}

static void test_refusals_name_the_part(void **state) {
  (void)state;
  static const char *const wrong[][2] = {
      {"device:8GiB compute:9", "compute:9"},
      {"device:8GiB compute:TFLOPS", "compute:TFLOPS"},
      {"device:8GiB mem:300GB", "mem:300GB"},
      {"device:8GiB mem:-1GB/s", "mem:-1GB/s"},
      {"device:8GiB mem:3.GB/s", "mem:3.GB/s"},
      {"device:8GiB latency:10", "latency:10"},
      {"device:8GiB@fast", "device:8GiB@fast"},
      {"device:8GiB@1GB/s,", "device:8GiB@1GB/s,"},
      {"device:8GiB@0B/s", "device:8GiB@0B/s"},
      {"device:0", "device:0"},
      {"device:", "device:"},
      {"device:8GiB device:8GiB", "device:8GiB"},
      {"device:8GiB host:many", "host:many"},
      {"device:8GiB gpu:2", "gpu:2"},
      {"shared:8GiB@1GB/s", "shared:8GiB@1GB/s"},
      {"shared:8GiB host:8GiB", "shared"},
      {"host:8GiB", "device"},
      {"no-such-file.machine", "no-such-file.machine"},
      {"", "device"},
      {"device:8GiB mem:99999999999999999999999GB/s", "mem:99999999999999999999999GB/s"},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    ull__machine machine;
    assert_int_equal(ull__machine_parse(wrong[i][0], &machine), ULL_ERROR_USAGE);
    assert_string_equal(ull_error_last()->holder, wrong[i][1]);
  }
}

static void test_long_part(void **state) {
  (void)state;
  char text[300];
  memset(text, '8', sizeof text);
  memcpy(text, "device:", 7);
  text[sizeof text - 1] = 0;
  ull__machine machine;
  assert_int_equal(ull__machine_parse(text, &machine), ULL_ERROR_USAGE);
}

static void test_printing_parses_back(void **state) {
  (void)state;
  static const char *const texts[] = {
      ("device:8GiB@12GB/s,6500MB/s host:16GiB disk:100GiB@500MB/s compute:9TFLOPS mem:300GB/s "
       "latency:10us process:24MiB kernel:40KiB launch:16KiB"),
      "shared:96GiB",
      "shared:1000 compute:123456789123FLOPS mem:1B/s latency:4371ns",
  };
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    ull__machine machine = parse(texts[i]);
    char printed[512];
    assert_string_equal(ull__machine_text(&machine, printed, sizeof printed), texts[i]);
  }
}

static void test_short_room_is_kept(void **state) {
  (void)state;
  ull__machine machine = parse("device:8GiB@12GB/s host:16GiB compute:9TFLOPS mem:300GB/s");
  char printed[24] = "";
  printed[16] = 'x';
  ull__machine_text(&machine, printed, 16);
  assert_int_equal(strlen(printed), 15);
  assert_int_equal(printed[16], 'x');
}

static void test_nominal(void **state) {
  (void)state;
  ull__machine one, four, again;
  setenv("ULLAGE_ISA", "portable", 1);
  assert_int_equal(ull__machine_nominal(1, &one), ULL_OK);
  assert_int_equal(ull__machine_nominal(4, &four), ULL_OK);
  assert_int_equal(ull__machine_nominal(4, &again), ULL_OK);
  assert_memory_equal(&four, &again, sizeof four);
  assert_true(four.flops_per_second == 4 * one.flops_per_second);
  assert_true(four.bytes_per_second > one.bytes_per_second);
  assert_true(four.bytes_per_second < 4 * one.bytes_per_second);
  assert_true(one.launch_seconds > 0 && one.process_bytes > 0);
  assert_true(one.allowances.kernel_bytes > 0 && one.allowances.launch_bytes > 0);
  unsetenv("ULLAGE_ISA");
  assert_int_equal(ull__machine_nominal(1, &again), ULL_OK);
  assert_true(again.flops_per_second >= one.flops_per_second);
}

static void write_file(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
}

static void test_files(void **state) {
  (void)state;
  char path[] = "/tmp/ullage-machine-XXXXXX";
  int descriptor = mkstemp(path);
  assert_true(descriptor >= 0);
  close(descriptor);
  ull__machine machine;
  write_file(path, "device:8GiB@12GB/s\nhost:16GiB\n");
  assert_int_equal(parse(path).tiers[ULL__TIER_HOST].capacity_bytes, 16 * GIB);
  write_file(path, "{\"schema\":1,\"machine\":\"shared:3GiB compute:20GFLOPS\"}\n");
  assert_int_equal(parse(path).tiers[ULL__TIER_DEVICE].capacity_bytes, 3 * GIB);
  write_file(path, "{\"schema\":1}");
  assert_int_equal(ull__machine_parse(path, &machine), ULL_ERROR_DATA);
  write_file(path, "{\"machine\":");
  assert_int_equal(ull__machine_parse(path, &machine), ULL_ERROR_DATA);
  write_file(path, "device:lots");
  assert_int_equal(ull__machine_parse(path, &machine), ULL_ERROR_USAGE);
  assert_non_null(strstr(ull_error_last()->message, path));
  unlink(path);
}

#define LISTED(fields)                                                                \
  "{\"machine\":\"shared:3GiB kernel:40KiB launch:16KiB\",\"fingerprint\":\"lib 1\"," \
  "\"allowances\":[{\"name\":\"jit a\"," fields "}]}"
#define WHOLE "\"prepared_bytes\":5000,\"again_bytes\":1,\"launch_bytes\":0,\"launch_calls\":3"

static void test_allowances(void **state) {
  (void)state;
  char path[] = "/tmp/ullage-machine-XXXXXX";
  close(mkstemp(path));
  write_file(path, LISTED(WHOLE));
  ull__machine machine = parse(path);
  bool measured;
  ull__library_use use = ull__allowances_find(&machine.allowances, "lib 1", "jit a", &measured);
  assert_true(measured);
  assert_int_equal(use.prepared_bytes, 12288); /* two pages and one more */
  assert_int_equal(use.again_bytes, 8192);
  assert_int_equal(use.launch_bytes, 0);
  assert_int_equal(use.launch_calls, 3);
  use = ull__allowances_find(&machine.allowances, "lib 1", "jit b", &measured);
  assert_false(measured);
  assert_int_equal(use.prepared_bytes, 40 << 10);
  assert_int_equal(use.launch_bytes, 16 << 10);
  ull__allowances_find(&machine.allowances, "lib 2", "jit a", &measured);
  assert_false(measured);
  ull__machine_free(&machine);

  static const char *const wrong[] = {
      LISTED("\"again_bytes\":1,\"launch_bytes\":0,\"launch_calls\":3"),
      LISTED("\"prepared_bytes\":-1,\"again_bytes\":1,\"launch_bytes\":0,\"launch_calls\":3"),
      LISTED("\"prepared_bytes\":1.5,\"again_bytes\":1,\"launch_bytes\":0,\"launch_calls\":3"),
      "{\"machine\":\"shared:3GiB\",\"fingerprint\":\"lib 1\",\"allowances\":7}",
      "{\"machine\":\"shared:3GiB\",\"fingerprint\":\"lib 1\",\"allowances\":[{}]}",
      "{\"machine\":\"shared:3GiB\",\"allowances\":[]}"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    write_file(path, wrong[i]);
    assert_int_equal(ull__machine_parse(path, &machine), ULL_ERROR_DATA);
    assert_non_null(strstr(ull_error_last()->message, path));
  }
  unlink(path);
}

static void test_taking_more_is_an_error(void **state) {
  (void)state;
  ull__library_kernel kernel = {
      .name = "jit a", .allowed = {8192, 4096, 4096, 3}, .measured = true};
  kernel.took = (ull__library_use){8192, 9999, 4096, 3};
  assert_int_equal(ull__library_kernel_check(&kernel), ULL_OK);
  kernel.took.launch_bytes = 4097;
  assert_int_equal(ull__library_kernel_check(&kernel), ULL_ERROR_OUT_OF_MEMORY);
  assert_string_equal(ull_error_last()->holder, "jit a");
  assert_int_equal(ull_error_last()->wanted_bytes, 4097);
  assert_int_equal(ull_error_last()->available_bytes, 4096);
  kernel.took.launch_bytes = 0;
  kernel.took.prepared_bytes = 8193;
  assert_int_equal(ull__library_kernel_check(&kernel), ULL_ERROR_OUT_OF_MEMORY);
  kernel.measured = false;
  assert_int_equal(ull__library_kernel_check(&kernel), ULL_OK);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_text),
      cmocka_unit_test(test_shared_leaves_the_rest_out),
      cmocka_unit_test(test_refusals_name_the_part),
      cmocka_unit_test(test_long_part),
      cmocka_unit_test(test_printing_parses_back),
      cmocka_unit_test(test_short_room_is_kept),
      cmocka_unit_test(test_allowances),
      cmocka_unit_test(test_taking_more_is_an_error),
      cmocka_unit_test(test_nominal),
      cmocka_unit_test(test_files),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
