/* Loaders that come and go leave nothing behind: no thread, no descriptor, no memory. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "support/data_trees.h"
#include "support/picture_folders.h"

enum { PICTURES = 24, LOADERS = 2000, WARM = 200, SIDE = 16, GROWTH = 1 << 20 };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

static int set_up(void **state) {
  make_root(state);
  put_pictures(root, PICTURES);
  return 0;
}

static int count_entries(const char *folder) {
  DIR *listing = opendir(folder);
  int count = 0;
  assert_non_null(listing);
  for (struct dirent *e; (e = readdir(listing)) != NULL;) count += e->d_name[0] != '.';
  closedir(listing);
  return count;
}

static long resident_bytes(void) {
  FILE *file = fopen("/proc/self/statm", "r");
  long all = 0, resident = 0;
  assert_non_null(file);
  assert_int_equal(fscanf(file, "%ld %ld", &all, &resident), 2);
  fclose(file);
  return resident * sysconf(_SC_PAGESIZE);
}

/* Destroyed before, while and after its batches are made. */
static void make_and_destroy(int number) {
  ull_source *source = open_or_fail(root, ULL_SPLIT_TRAIN);
  ull_loader_options options = picture_options(source, SIDE);
  const ull_batch *batch;
  options.workers = number % 4;
  options.prefetch = 1 + number % 3;
  ull_loader *loader = create_loader(&options);
  for (int i = 0; i < number % 5; i++) {
    assert_int_equal(ull_loader_next(loader, &batch), ULL_OK);
    if (batch != NULL && number % 7 != 0) ull_loader_release(loader, batch);
    if (batch == NULL || number % 7 == 0) break;
  }
  ull_loader_destroy(loader);
  ull_source_close(source);
}

static void loaders_leave_nothing_behind(void **state) {
  (void)state;
  make_and_destroy(1); /* what sanitizers and libraries keep from then on is theirs */
  int threads = count_entries("/proc/self/task"), files = count_entries("/proc/self/fd");
  uint64_t live = ull__alloc_count().live_bytes;
  long resident = 0;
  for (int i = 0; i < (SANITIZED ? LOADERS / 10 : LOADERS); i++) {
    if (i == WARM) resident = resident_bytes();
    make_and_destroy(i);
    assert_int_equal(ull__alloc_count().live_bytes, live);
    assert_int_equal(count_entries("/proc/self/fd"), files);
  }
  assert_int_equal(count_entries("/proc/self/task"), threads);
  if (SANITIZED) return;
  long grown = resident_bytes() - resident;
  if (grown > GROWTH) fail_msg("%ld bytes more are resident", grown);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(loaders_leave_nothing_behind)};
  return cmocka_run_group_tests(tests, set_up, remove_root);
}
