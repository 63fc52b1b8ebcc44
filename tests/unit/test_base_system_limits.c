/* Cores and memory out of made-up trees of /proc and /sys: bare machines, cgroups v1 and v2,
 * containers, rlimits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/system_limits.h"
#include "support/data_trees.h"

#define GIB (1ull << 30)
#define MIB (1ull << 20)

static void put_machine(const char *cores) {
  char status[256];
  snprintf(
      status, sizeof status,
      "Name:\tx\nVmSize:\t  1048576 kB\nVmHWM:\t 2048 kB\nVmRSS:\t 1024 kB\nRssAnon:\t 512 kB\n"
      "VmData:\t  524288 kB\nCpus_allowed_list:\t%s\n",
      cores);
  put_file(root, "/proc/meminfo",
           "MemTotal:       16777216 kB\nMemFree: 1 kB\nMemAvailable:   12582912 kB\n");
  put_file(root, "/proc/self/status", status);
}

static ull__system_limits read_limits(void) {
  ull__system_limits limits;
  uint64_t live = ull__alloc_count().live_bytes;
  ull__fail(ULL_ERROR_INTERNAL, "before");
  assert_int_equal(ull__system_limits_read(root, &limits), ULL_OK);
  assert_int_equal(ull__alloc_count().live_bytes, live);
  assert_string_equal(ull_error_last()->message, "before"); /* what is not there is no failure */
  return limits;
}

static void a_bare_machine_gives_what_is_available(void **state) {
  (void)state;
  put_machine("0-7,16");
  ull__system_limits limits = read_limits();
  assert_int_equal(limits.affinity_cores, 9);
  assert_int_equal(limits.usable_cores, 9);
  assert_true(limits.quota_cores == 0);
  assert_int_equal(limits.total_bytes, 16 * GIB);
  assert_int_equal(limits.usable_bytes, 12 * GIB);
  assert_int_equal(limits.part_count, 1);
  assert_string_equal(limits.parts[0].name, "MemAvailable");
}

static void a_machine_without_meminfo_is_an_error(void **state) {
  (void)state;
  ull__system_limits limits;
  assert_int_equal(ull__system_limits_read(root, &limits), ULL_ERROR_IO);
  put_file(root, "/proc/meminfo", "MemTotal: 1 kB\n");
  assert_int_equal(ull__system_limits_read(root, &limits), ULL_ERROR_IO);
}

/* v2: the tightest limit sits two levels above us, and page cache in use below it does not count.
 */
static void every_cgroup_above_us_binds(void **state) {
  (void)state;
  put_machine("0-3");
  put_file(root, "/proc/self/cgroup", "0::/user/slice/job\n");
  put_file(root, "/proc/self/mountinfo",
           "24 30 0:22 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n");
  put_file(root, "/sys/fs/cgroup/user/slice/job/memory.max", "max\n");
  put_file(root, "/sys/fs/cgroup/user/slice/job/cpu.max", "max 100000\n");
  put_file(root, "/sys/fs/cgroup/user/slice/memory.max", "8589934592\n");
  put_file(root, "/sys/fs/cgroup/user/slice/memory.current", "1073741824\n");
  put_file(root, "/sys/fs/cgroup/user/memory.max", "4294967296\n");
  put_file(root, "/sys/fs/cgroup/user/memory.current", "3221225472\n");
  put_file(root, "/sys/fs/cgroup/user/memory.stat", "anon 5\nfile 7\ninactive_file 1073741824\n");
  put_file(root, "/sys/fs/cgroup/user/cpu.max", "250000 100000\n");
  ull__system_limits limits = read_limits();
  assert_int_equal(limits.usable_bytes, 2 * GIB);
  assert_string_equal(limits.parts[limits.least_part].name, "/sys/fs/cgroup/user/memory.max");
  assert_true(limits.parts[limits.least_part].of_cgroup);
  assert_false(limits.parts[0].of_cgroup);
  assert_int_equal(limits.parts[limits.least_part].limit_bytes, 4 * GIB);
  assert_int_equal(limits.part_count, 3);
  assert_true(limits.quota_cores == 2.5);
  assert_int_equal(limits.usable_cores, 2);
}

static void version_one_is_read_by_controller(void **state) {
  (void)state;
  put_machine("0-11");
  put_file(root, "/proc/self/cgroup", "9:name=systemd:/\n4:memory:/a/b\n2:cpu,cpuacct:/a\n0::/\n");
  put_file(root, "/proc/self/mountinfo",
           "31 25 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
           "32 25 0:28 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n");
  put_file(root, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  put_file(root, "/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "1073741824\n");
  put_file(root, "/sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", "536870912\n");
  put_file(root, "/sys/fs/cgroup/memory/a/b/memory.stat",
           "cache 1\ntotal_inactive_file 268435456\n");
  put_file(root, "/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "400000\n");
  put_file(root, "/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
  put_file(root, "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  put_file(root, "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  ull__system_limits limits = read_limits();
  assert_int_equal(limits.usable_bytes, 768 * MIB);
  assert_int_equal(limits.part_count, 2);
  assert_int_equal(limits.usable_cores, 4);
}

/* In a container the mount shows our own part of the hierarchy: /proc/self/cgroup names the path
 * outside. */
static void a_container_sees_its_own_part(void **state) {
  (void)state;
  put_machine("0-11");
  put_file(root, "/proc/self/cgroup", "4:memory:/docker/abc\n");
  put_file(root, "/proc/self/mountinfo",
           "31 25 0:27 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
  put_file(root, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n");
  put_file(root, "/sys/fs/cgroup/memory/memory.usage_in_bytes", "0\n");
  ull__system_limits limits = read_limits();
  assert_int_equal(limits.usable_bytes, 2 * GIB);
}

static void a_path_that_is_not_mounted_means_the_mount(void **state) {
  (void)state;
  put_machine("0");
  put_file(root, "/proc/self/cgroup", "0::/../../elsewhere\n");
  put_file(root, "/proc/self/mountinfo", "24 30 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  put_file(root, "/sys/fs/cgroup/memory.max", "1073741824\n");
  put_file(root, "/sys/fs/cgroup/memory.current", "2147483648\n");
  put_file(root, "/sys/fs/cgroup/cpu.max", "50000 100000\n");
  ull__system_limits limits = read_limits();
  assert_int_equal(limits.usable_bytes, 0);
  assert_int_equal(limits.usable_cores, 1);
  assert_true(limits.quota_cores == 0.5);
}

static void rlimits_leave_what_is_not_used(void **state) {
  (void)state;
  put_machine("0-1");
  put_file(root, "/proc/self/limits",
           "Limit                     Soft Limit           Hard Limit           Units     \n"
           "Max data size             1073741824           unlimited            bytes     \n"
           "Max address space         8589934592           unlimited            bytes     \n");
  ull__system_limits limits = read_limits();
  assert_int_equal(limits.part_count, 3);
  assert_int_equal(limits.usable_bytes, 512 * MIB);
  assert_string_equal(limits.parts[limits.least_part].name, "RLIMIT_DATA");
  assert_string_equal(limits.parts[1].name, "RLIMIT_AS");
  assert_int_equal(limits.parts[1].left_bytes, 7 * GIB);
}

static void nonsense_is_passed_over(void **state) {
  (void)state;
  put_machine("x");
  put_file(root, "/proc/self/cgroup", "garbage\n:::\n0::\n4:memory\n");
  put_file(root, "/proc/self/mountinfo",
           "1 2 3\n - cgroup2\n24 30 0:22 / /sys/fs/cgroup rw - cgroup2\n");
  put_file(root, "/sys/fs/cgroup/memory.max", "-5\n");
  put_file(root, "/proc/self/limits", "Max address space unlimited unlimited bytes\n");
  ull__system_limits limits = read_limits();
  assert_int_equal(limits.part_count, 1);
  assert_int_equal(limits.usable_cores, 1);
}

static void resident_bytes_are_read_without_allocating(void **state) {
  (void)state;
  ull__resident_bytes resident;
  put_machine("0");
  uint64_t calls = ull__alloc_count().calls;
  assert_int_equal(ull__resident_read(root, &resident), ULL_OK);
  assert_int_equal(resident.now_bytes, MIB);
  assert_int_equal(resident.peak_bytes, 2 * MIB);
  assert_int_equal(resident.anonymous_bytes, MIB / 2);
  assert_int_equal(ull__resident_read("", &resident), ULL_OK);
  assert_true(resident.peak_bytes >= resident.now_bytes && resident.now_bytes > MIB);
  assert_int_equal(ull__resident_read("/no/such", &resident), ULL_ERROR_IO);
  assert_int_equal(ull__alloc_count().calls, calls);
}

static void this_machine_is_read(void **state) {
  (void)state;
  ull__system_limits limits;
  assert_int_equal(ull__system_limits_read("", &limits), ULL_OK);
  assert_true(limits.usable_cores >= 1);
  assert_true(limits.usable_cores <= limits.affinity_cores);
  assert_true(limits.usable_bytes > 0 && limits.usable_bytes <= limits.total_bytes);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_root, remove_root)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(a_bare_machine_gives_what_is_available),
      TEST(a_machine_without_meminfo_is_an_error),
      TEST(every_cgroup_above_us_binds),
      TEST(version_one_is_read_by_controller),
      TEST(a_container_sees_its_own_part),
      TEST(a_path_that_is_not_mounted_means_the_mount),
      TEST(rlimits_leave_what_is_not_used),
      TEST(nonsense_is_passed_over),
      TEST(resident_bytes_are_read_without_allocating),
      TEST(this_machine_is_read),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
