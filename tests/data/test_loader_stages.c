/* Times by stage: on one thread they add up to no more than what passed, and a slow disk is called
 * reading, whoever reads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "support/data_trees.h"
#include "support/picture_folders.h"

enum { PICTURES = 24, SIDE = 24, READ_NS = 4000000 };

static bool is_slow;

/* In place of the C library's: a disk that takes its time. */
ssize_t pread(int file, void *to, size_t count, off_t at) {
  const struct timespec pause = {.tv_nsec = READ_NS};
  if (is_slow) nanosleep(&pause, NULL);
  return syscall(SYS_pread64, file, to, count, at);
}

static void reading_is_told_from_decoding(void **state) {
  (void)state;
  put_pictures(root, PICTURES);
  ull_source *source = open_or_fail(root, ULL_SPLIT_TRAIN);
  ull_loader_options options = picture_options(source, SIDE);
  options.workers = 0;
  ull_loader *loader;
  assert_int_equal(ull_loader_create(&options, &loader), ULL_OK);
  is_slow = true;
  uint64_t since = ull__clock_now_ns(), stages = 0, passed;
  const ull_batch *batch;
  for (;;) {
    assert_int_equal(ull_loader_next(loader, &batch), ULL_OK);
    if (batch == NULL) break;
    ull_loader_release(loader, batch);
  }
  passed = ull__clock_now_ns() - since;
  is_slow = false;
  ull_loader_counts counts = ull_loader_count(loader);
  for (int s = 0; s < ULL_STAGE_IDLE; s++) stages += counts.stage_ns[s];
  assert_in_range(counts.stage_ns[ULL_STAGE_READ], PICTURES * (uint64_t)READ_NS * 9 / 10, passed);
  assert_in_range(stages, counts.stage_ns[ULL_STAGE_READ], passed + passed / 10);
  ull_loader_destroy(loader);
  ull_source_close(source);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(reading_is_told_from_decoding, make_root, remove_root),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
