/* The text of a sim device, its link's rate, and overlap on the virtual clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "device/device.h"
#include "device/sim/sim.h"

static void texts_are_parsed_strictly(void **state) {
  (void)state;
  ull__sim_text text;
  assert_int_equal(ull__sim_text_parse("512MiB@8GB/s", &text), ULL_OK);
  assert_int_equal(text.capacity_bytes, 512ull << 20);
  assert_int_equal(text.link_bytes_per_second, 8000000000ull);
  assert_int_equal(text.link_latency_ns, 0);
  assert_int_equal(ull__sim_text_parse("1.5GiB@500MiB/s,latency=10us", &text), ULL_OK);
  assert_int_equal(text.capacity_bytes, 3ull << 29);
  assert_int_equal(text.link_bytes_per_second, 500ull << 20);
  assert_int_equal(text.link_latency_ns, 10000);
  static const struct {
    const char *text, *part;
  } wrong[] = {
      {"", "@RATE"},
      {"512MiB", "@RATE"},
      {"@8GB/s", "@8GB/s"},
      {"512MiB@", "lacks"},
      {"512Mib/s@8GB/s", "512Mib/s"},
      {"-1@8GB/s", "-1"},
      {"0@8GB/s", "nothing"},
      {"512MiB@8GB", "8GB"},
      {"512MiB@0GB/s", "nothing"},
      {"512MiB@8GBs", "8GBs"},
      {"512MiB@8GB/s,", "latency"},
      {"512MiB@8GB/s,latency=", "latency"},
      {"512MiB@8GB/s,latency=10", "10"},
      {"512MiB@8GB/s,latency=10parsec", "10parsec"},
      {"512MiB@8GB/s,latency=-1us", "-1us"},
      {"512MiB@8GB/s,latency=10us,latency=10us", "10us,latency"},
      {"512MiB@8GB/s,jitter=10us", "jitter=10us"},
      {"512MiB@8GB/s latency=10us", "8GB/s latency"},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    assert_int_equal(ull__sim_text_parse(wrong[i].text, &text), ULL_ERROR_USAGE);
    if (strstr(ull_error_last()->message, wrong[i].part) == NULL) {
      fail_msg("'%s': '%s' is not in '%s'", wrong[i].text, wrong[i].part,
               ull_error_last()->message);
    }
  }
  assert_int_equal(ull__sim_text_parse("99999999999TiB@8GB/s", &text), ULL_ERROR_OVERFLOW);
  assert_int_equal(ull__sim_text_parse("1MiB@8GB/s,latency=99999999999999s", &text),
                   ULL_ERROR_OVERFLOW);
}

/* ---- one host slab and one device slab ---- */

#define MOVED_BYTES 1000000u

typedef struct setup {
  ull__device *device;
  ull__place host, inner;
  ull__event_id event;
} setup;

static setup open_setup(const char *text, bool virtual_clock) {
  setup made = {.host.bytes = MOVED_BYTES, .inner.bytes = MOVED_BYTES};
  const ull__device_options options = {.threads = 1, .virtual_clock = virtual_clock};
  assert_int_equal(ull__device_open(text, &options, &made.device), ULL_OK);
  assert_int_equal(ull__device_allocate(made.device, ULL__TIER_HOST, MOVED_BYTES, &made.host.slab),
                   ULL_OK);
  assert_int_equal(
      ull__device_allocate(made.device, ULL__TIER_DEVICE, MOVED_BYTES, &made.inner.slab), ULL_OK);
  assert_int_equal(ull__device_event_create(made.device, &made.event), ULL_OK);
  return made;
}

static void put_copy(const setup *made, ull__lane lane, ull__place to, ull__place from) {
  assert_int_equal(ull__device_copy(made->device, lane, to, from), ULL_OK);
}

/* 0.5 MB over 100 MB/s with 2 ms latency are 7 ms. */
static void a_copy_takes_at_least_its_time(void **state) {
  (void)state;
  setup made = open_setup("sim:1MiB@100MB/s,latency=2ms", false);
  made.host.bytes = made.inner.bytes = MOVED_BYTES / 2;
  ull__place host = made.host, inner = made.inner;
  host.offset = inner.offset = MOVED_BYTES / 2;
  uint64_t begin_ns = ull__clock_now_ns();
  put_copy(&made, ULL__LANE_COPY_IN, made.inner, made.host);
  put_copy(&made, ULL__LANE_COPY_OUT, host, inner);
  assert_int_equal(ull__device_synchronize(made.device), ULL_OK);
  assert_true(ull__clock_now_ns() - begin_ns >= 7000000);
  begin_ns = ull__clock_now_ns();
  put_copy(&made, ULL__LANE_COPY_IN, made.inner, made.host);
  const void *memory = ull__device_host_pointer(made.device, host.slab);
  assert_int_equal(ull__device_upload(made.device, ULL__LANE_COPY_IN, inner, memory), ULL_OK);
  assert_int_equal(ull__device_synchronize(made.device), ULL_OK);
  assert_true(ull__clock_now_ns() - begin_ns >= 14000000);
  ull__device_close(made.device);
}

/* ---- the virtual clock ---- */

static ull_status do_nothing(const ull__launch_frame *frame) {
  (void)frame;
  return ULL_OK;
}

static uint64_t cost_of_tag(void *context, ull__lane lane, uint32_t tag) {
  (void)lane;
  const uint64_t *costs_ns = context;
  return costs_ns[tag];
}

static const uint64_t costs_ns[] = {1000000, 30000000, 5};

static void launch(const setup *made, ull__lane lane, uint32_t tag) {
  const ull__launch work = {.entry = do_nothing, .tag = tag};
  assert_int_equal(ull__device_launch(made->device, lane, &work), ULL_OK);
}

static uint64_t time_of(const setup *made, ull__lane lane) {
  return ull__device_virtual_time_ns(made->device, lane);
}

/* A copy of 1 MB over 100 MB/s with 2 ms latency is 12 ms. */
static void overlap_is_exact_on_the_virtual_clock(void **state) {
  (void)state;
  setup made = open_setup("sim:1MiB@100MB/s,latency=2ms", true);
  assert_int_equal(ull__device_set_costs(made.device, cost_of_tag, (void *)costs_ns), ULL_OK);
  launch(&made, ULL__LANE_COMPUTE, 0);
  assert_int_equal(ull__device_copy(made.device, ULL__LANE_COPY_IN, made.inner, made.host), ULL_OK);
  assert_int_equal(ull__device_record(made.device, ULL__LANE_COPY_IN, made.event), ULL_OK);
  assert_int_equal(ull__device_synchronize(made.device), ULL_OK);
  assert_int_equal(time_of(&made, ULL__LANE_COMPUTE), 1000000);
  assert_int_equal(time_of(&made, ULL__LANE_COPY_IN), 12000000);
  /* 30 ms of work hide the second copy; the third ends 2 x 12 ms after the first. */
  assert_int_equal(ull__device_wait(made.device, ULL__LANE_COMPUTE, made.event), ULL_OK);
  launch(&made, ULL__LANE_COMPUTE, 1);
  assert_int_equal(ull__device_copy(made.device, ULL__LANE_COPY_IN, made.inner, made.host), ULL_OK);
  assert_int_equal(ull__device_record(made.device, ULL__LANE_COPY_IN, made.event), ULL_OK);
  assert_int_equal(ull__device_wait(made.device, ULL__LANE_COMPUTE, made.event), ULL_OK);
  launch(&made, ULL__LANE_COMPUTE, 2);
  assert_int_equal(ull__device_synchronize(made.device), ULL_OK);
  assert_int_equal(time_of(&made, ULL__LANE_COMPUTE), 42000005);
  assert_int_equal(time_of(&made, ULL__LANE_COPY_IN), 24000000);
  assert_int_equal(time_of(&made, ULL__LANE_COPY_OUT), 0);
  ull__device_close(made.device);
}

/* The event is recorded again before the wait is taken: the wait still means its own recording. */
static void a_wait_takes_the_time_of_its_own_record(void **state) {
  (void)state;
  for (int round = 0; round < 50; round++) {
    setup made = open_setup("sim:1MiB@100MB/s", true);
    assert_int_equal(ull__device_set_costs(made.device, cost_of_tag, (void *)costs_ns), ULL_OK);
    launch(&made, ULL__LANE_COPY_IN, 0);
    assert_int_equal(ull__device_record(made.device, ULL__LANE_COPY_IN, made.event), ULL_OK);
    for (int i = 0; i < 3; i++) launch(&made, ULL__LANE_COMPUTE, 2);
    assert_int_equal(ull__device_wait(made.device, ULL__LANE_COMPUTE, made.event), ULL_OK);
    launch(&made, ULL__LANE_COPY_IN, 1);
    assert_int_equal(ull__device_record(made.device, ULL__LANE_COPY_IN, made.event), ULL_OK);
    launch(&made, ULL__LANE_COMPUTE, 2);
    assert_int_equal(ull__device_synchronize(made.device), ULL_OK);
    assert_int_equal(time_of(&made, ULL__LANE_COMPUTE), 1000005);
    assert_int_equal(time_of(&made, ULL__LANE_COPY_IN), 31000000);
    ull__device_close(made.device);
  }
}

static void only_virtual_clocks_have_costs(void **state) {
  (void)state;
  setup made = open_setup("sim:1MiB@8GB/s", false);
  assert_int_equal(ull__device_set_costs(made.device, cost_of_tag, NULL), ULL_ERROR_UNSUPPORTED);
  launch(&made, ULL__LANE_COMPUTE, 1);
  assert_int_equal(ull__device_synchronize(made.device), ULL_OK);
  assert_int_equal(time_of(&made, ULL__LANE_COMPUTE), 0);
  ull__device_close(made.device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(texts_are_parsed_strictly),
      cmocka_unit_test(a_copy_takes_at_least_its_time),
      cmocka_unit_test(overlap_is_exact_on_the_virtual_clock),
      cmocka_unit_test(a_wait_takes_the_time_of_its_own_record),
      cmocka_unit_test(only_virtual_clocks_have_costs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
