/* Slabs and places, and sim's memory that faults. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"
#include "device/device.h"
#include "device/sim/sim.h"

static ull__device *open_device(const char *text, bool poison) {
  ull__device *device = NULL;
  const ull__device_options options = {.threads = 1, .poison = poison};
  assert_int_equal(ull__device_open(text, &options, &device), ULL_OK);
  return device;
}

static ull__slab_id allocate(ull__device *device, ull__tier tier, uint64_t bytes) {
  ull__slab_id slab = UINT32_MAX;
  assert_int_equal(ull__device_allocate(device, tier, bytes, &slab), ULL_OK);
  return slab;
}

static void unknown_devices_are_refused(void **state) {
  (void)state;
  ull__device *device = NULL;
  static const char *const wrong[] = {"", "gpu", "cpux", "cpu:2", "sim", "sim:", "simx:1MiB@1GB/s"};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    assert_int_equal(ull__device_open(wrong[i], NULL, &device), ULL_ERROR_USAGE);
    assert_null(device);
  }
}

static void cpu_tiers_are_one_pool(void **state) {
  (void)state;
  ull__device *device = open_device("cpu", false);
  assert_string_equal(ull__device_name(device), "cpu");
  assert_true(ull__device_is_shared(device));
  assert_true(ull__device_capacity_bytes(device) == UINT64_MAX);
  ull__slab_id inner = allocate(device, ULL__TIER_DEVICE, 10000);
  ull__slab_id host = allocate(device, ULL__TIER_HOST, 5000);
  assert_non_null(ull__device_host_pointer(device, inner));
  assert_non_null(ull__device_host_pointer(device, host));
  assert_int_equal(ull__device_allocated_bytes(device, ULL__TIER_DEVICE), 15000);
  assert_int_equal(ull__device_allocated_bytes(device, ULL__TIER_HOST), 0);
  ull__device_free(device, inner);
  assert_null(ull__device_host_pointer(device, inner));
  assert_int_equal(ull__device_allocated_bytes(device, ULL__TIER_DEVICE), 5000);
  assert_int_equal(ull__device_peak_bytes(device, ULL__TIER_DEVICE), 15000);
  ull__slab_id slab;
  assert_int_equal(ull__device_allocate(device, ULL__TIER_DISK, 1, &slab), ULL_ERROR_UNSUPPORTED);
  assert_int_equal(ull__device_allocate(device, ULL__TIER_HOST, 0, &slab), ULL_ERROR_INVALID);
  ull__device_close(device);
}

static void sim_counts_and_refuses_to_the_byte(void **state) {
  (void)state;
  ull__device *device = open_device("sim:1MiB@8GB/s", false);
  const uint64_t capacity_bytes = 1 << 20;
  ull__slab_id slab = allocate(device, ULL__TIER_DEVICE, 1000), second;
  assert_false(ull__device_is_shared(device));
  assert_int_equal(ull__device_capacity_bytes(device), capacity_bytes);
  assert_int_equal(ull__device_allocate(device, ULL__TIER_DEVICE, capacity_bytes - 999, &second),
                   ULL_ERROR_OUT_OF_MEMORY);
  assert_int_equal(ull_error_last()->wanted_bytes, capacity_bytes - 999);
  assert_int_equal(ull_error_last()->available_bytes, capacity_bytes - 1000);
  assert_int_equal(ull__device_allocated_bytes(device, ULL__TIER_DEVICE), 1000);
  second = allocate(device, ULL__TIER_DEVICE, capacity_bytes - 1000);
  allocate(device, ULL__TIER_HOST, 3 * capacity_bytes);
  assert_int_equal(ull__device_peak_bytes(device, ULL__TIER_DEVICE), capacity_bytes);
  assert_int_equal(ull__device_allocated_bytes(device, ULL__TIER_HOST), 3 * capacity_bytes);
  ull__device_free(device, slab);
  ull__device_free(device, second);
  assert_int_equal(ull__device_allocated_bytes(device, ULL__TIER_DEVICE), 0);
  allocate(device, ULL__TIER_DEVICE, capacity_bytes);
  ull__device_close(device);
}

static void slabs_are_limited_and_reused(void **state) {
  (void)state;
  ull__device *device = open_device("cpu", false);
  ull__slab_id slab = 0, last = 0;
  uint32_t count = 0;
  while (ull__device_allocate(device, ULL__TIER_HOST, 1, &slab) == ULL_OK) {
    last = slab;
    count++;
  }
  assert_int_equal(ull_error_last()->status, ULL_ERROR_OUT_OF_MEMORY);
  assert_int_equal(count, 256);
  ull__device_free(device, last);
  assert_int_equal(allocate(device, ULL__TIER_HOST, 1), last);
  ull__device_close(device);
}

static void roundtrip_on(const char *text) {
  ull__device *device = open_device(text, true);
  ull__slab_id host = allocate(device, ULL__TIER_HOST, 4096);
  ull__slab_id inner = allocate(device, ULL__TIER_DEVICE, 8192);
  unsigned char bytes[100], back[100];
  for (int i = 0; i < 100; i++) bytes[i] = (unsigned char)(i + 1);
  ull__place to = {.slab = inner, .offset = 77, .bytes = 100};
  ull__place from = {.slab = host, .offset = 5, .bytes = 100};
  assert_int_equal(ull__device_read(device, to, back), ULL_OK);
  for (int i = 0; i < 100; i++) assert_int_equal(back[i], 0xFF); /* fresh memory is poisoned */
  memcpy((unsigned char *)ull__device_host_pointer(device, host) + 5, bytes, 100);
  assert_int_equal(ull__device_copy(device, ULL__LANE_COPY_IN, to, from), ULL_OK);
  assert_int_equal(ull__device_synchronize(device), ULL_OK);
  assert_int_equal(ull__device_read(device, to, back), ULL_OK);
  assert_memory_equal(back, bytes, 100);
  const ull__place middle = {.slab = inner, .offset = 87, .bytes = 10};
  assert_int_equal(ull__device_poison(device, ULL__LANE_COMPUTE, middle), ULL_OK);
  assert_int_equal(ull__device_read(device, to, back), ULL_OK);
  for (int i = 0; i < 100; i++) {
    assert_int_equal(back[i], i >= 10 && i < 20 ? 0xFF : bytes[i]);
  }
  assert_int_equal(ull__device_write(device, to, bytes), ULL_OK);
  assert_int_equal(ull__device_read(device, to, back), ULL_OK);
  assert_memory_equal(back, bytes, 100);
  unsigned char sent[100], received[100] = {0};
  for (int i = 0; i < 100; i++) sent[i] = (unsigned char)(200 - i);
  assert_int_equal(ull__device_upload(device, ULL__LANE_COPY_IN, to, sent), ULL_OK);
  assert_int_equal(ull__device_download(device, ULL__LANE_COPY_IN, to, received), ULL_OK);
  assert_int_equal(ull__device_synchronize(device), ULL_OK);
  assert_memory_equal(received, sent, 100);
  to.offset = 8192 - 99;
  assert_int_equal(ull__device_upload(device, ULL__LANE_COPY_IN, to, sent), ULL_ERROR_INVALID);
  assert_int_equal(ull__device_download(device, ULL__LANE_COPY_OUT, to, back), ULL_ERROR_INVALID);
  assert_int_equal(ull__device_write(device, to, bytes), ULL_ERROR_INVALID);
  assert_int_equal(ull__device_read(device, to, back), ULL_ERROR_INVALID);
  to.bytes = 99;
  assert_int_equal(ull__device_copy(device, ULL__LANE_COPY_IN, to, from), ULL_ERROR_INVALID);
  ull__device_close(device);
}

static void bytes_travel_both_ways(void **state) {
  (void)state;
  roundtrip_on("cpu");
  roundtrip_on("sim:1MiB@8GB/s");
}

/* Signal a child gets for reading or writing an address; 0 where it lives. */
static int touch_in_child(const volatile unsigned char *address, bool writes) {
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    const struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    signal(SIGSEGV, SIG_DFL);
    signal(SIGBUS, SIG_DFL);
    if (writes) {
      *(volatile unsigned char *)address = 1;
    } else {
      (void)*address;
    }
    _exit(0);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void stray_access_to_sim_memory_faults(void **state) {
  (void)state;
  ull__device *device = open_device("sim:1MiB@8GB/s", false);
  ull__slab_id inner = allocate(device, ULL__TIER_DEVICE, 100000);
  ull__slab_id host = allocate(device, ULL__TIER_HOST, 100000);
  const unsigned char *address = ull__sim_address(device, inner);
  assert_non_null(address);
  assert_null(ull__device_host_pointer(device, inner));
  assert_null(ull__sim_address(device, host));
  assert_int_equal(touch_in_child(address, false), SIGSEGV);
  assert_int_equal(touch_in_child(address + 99999, true), SIGSEGV);
  assert_int_equal(touch_in_child(ull__device_host_pointer(device, host), true), 0);
  ull__device_close(device);
}

static ull_status step_over_the_end(const ull__launch_frame *frame) {
  volatile unsigned char *bytes = frame->operands[0];
  const int64_t *offset = frame->constants;
  bytes[*offset] = 1;
  return ULL_OK;
}

/* A child opens a device, since threads do not survive a fork. */
static int launch_in_child(const char *text, int64_t offset) {
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    const struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    signal(SIGSEGV, SIG_DFL);
    ull__device *device = NULL;
    ull__slab_id slab;
    const ull__device_options options = {.threads = 1};
    if (ull__device_open(text, &options, &device) != ULL_OK) _exit(1);
    if (ull__device_allocate(device, ULL__TIER_DEVICE, 8192, &slab) != ULL_OK) _exit(1);
    const ull__place place = {.slab = slab, .bytes = 8192};
    const ull__launch launch = {
        .entry = step_over_the_end, .constants = &offset, .places = &place, .place_count = 1};
    if (ull__device_launch(device, ULL__LANE_COMPUTE, &launch) != ULL_OK) _exit(1);
    _exit(ull__device_synchronize(device) != ULL_OK);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

static void launches_that_leave_a_slab_fault(void **state) {
  (void)state;
  static const char *const texts[] = {"cpu", "sim:1MiB@8GB/s"};
  for (int i = 0; i < 2; i++) {
    assert_int_equal(launch_in_child(texts[i], 8191), 0);
    assert_int_equal(launch_in_child(texts[i], 8192), SIGSEGV);
    assert_int_equal(launch_in_child(texts[i], -1), SIGSEGV);
  }
}

static void every_failed_allocation_is_survived(void **state) {
  (void)state;
  uint64_t live_bytes = ull__alloc_count().live_bytes;
  static const char *const texts[] = {"cpu", "sim:1MiB@8GB/s"};
  for (int i = 0; i < 2; i++) {
    ull__device *device = NULL;
    ull__alloc_fail_at(1);
    assert_int_equal(ull__device_open(texts[i], NULL, &device), ULL_ERROR_OUT_OF_MEMORY);
    device = open_device(texts[i], false);
    ull__event_id event;
    ull__alloc_fail_at(1);
    assert_int_equal(ull__device_event_create(device, &event), ULL_ERROR_OUT_OF_MEMORY);
    assert_int_equal(ull__device_event_create(device, &event), ULL_OK);
    ull__alloc_fail_at(0);
    ull__device_close(device);
  }
  assert_int_equal(ull__alloc_count().live_bytes, live_bytes);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(launches_that_leave_a_slab_fault),
      cmocka_unit_test(unknown_devices_are_refused),
      cmocka_unit_test(cpu_tiers_are_one_pool),
      cmocka_unit_test(sim_counts_and_refuses_to_the_byte),
      cmocka_unit_test(slabs_are_limited_and_reused),
      cmocka_unit_test(bytes_travel_both_ways),
      cmocka_unit_test(stray_access_to_sim_memory_faults),
      cmocka_unit_test(every_failed_allocation_is_survived),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
