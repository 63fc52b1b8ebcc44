/* What a loader leaves in the page cache where a cgroup leaves it less than the source has: a part
 * of the samples that fits, in every epoch the same one; and everything where all of it fits, or
 * where reading is fast because others put it there. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "data/loader.h"
#include "support/data_trees.h"
#include "support/picture_folders.h"

enum { PICTURES = 640 };

static uint64_t all_bytes;
static bool cache_gives_back;
static atomic_int given_back; /* pictures, by the loader */

/* In place of the C library's: counts. */
int posix_fadvise(int file, off_t offset, off_t bytes, int advice) {
  if (advice == POSIX_FADV_DONTNEED) given_back++;
  return syscall(SYS_fadvise64, file, offset, bytes, advice) == 0 ? 0 : errno;
}

static int open_picture(int number) {
  char path[800];
  snprintf(path, sizeof path, "%s/%s", root, picture_name(number));
  int file = open(path, O_RDONLY | O_CLOEXEC);
  assert_true(file >= 0);
  return file;
}

/* Whether the first page of a picture is in the cache. */
static bool is_resident(int number) {
  unsigned char page = 0;
  int file = open_picture(number);
  void *mapped = mmap(NULL, 1, PROT_READ, MAP_SHARED, file, 0);
  assert_true(mapped != MAP_FAILED);
  assert_int_equal(mincore(mapped, 1, &page), 0);
  munmap(mapped, 1);
  close(file);
  return (page & 1) != 0;
}

static void empty_cache(void) {
  for (int i = 0; i < PICTURES; i++) {
    int file = open_picture(i);
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    close(file);
  }
}

/* Pages that were not written yet are never given back. */
static int set_up(void **state) {
  make_root(state);
  put_pictures(root, PICTURES);
  for (int i = 0; i < PICTURES; i++) {
    struct stat about;
    int file = open_picture(i);
    if (i == 0) syncfs(file);
    fstat(file, &about);
    all_bytes += (uint64_t)about.st_size;
    close(file);
  }
  empty_cache();
  cache_gives_back = !is_resident(0) && !is_resident(PICTURES - 1);
  return 0;
}

/* An epoch as inside a cgroup that leaves so much to the cache; which pictures stay there. */
static int load_epoch(ull_source *source, uint64_t cache_bytes, bool slow, uint64_t seed,
                      bool kept[PICTURES]) {
  ull_loader_options options = picture_options(source, 16);
  uint32_t hashes[PICTURES];
  options.epochs = 1;
  options.seed = seed;
  options.workers = 2;
  ull_loader *loader = create_loader(&options);
  loader->cache_bytes = cache_bytes;
  loader->ahead_left = slow ? UINT64_MAX / 2 : 0;
  empty_cache();
  given_back = 0;
  assert_int_equal(hash_samples(loader, hashes, PICTURES), PICTURES);
  ull_loader_destroy(loader);
  int count = 0;
  for (int i = 0; i < PICTURES; i++) count += kept[i] = is_resident(i);
  return count;
}

static void a_fixed_part_stays(void **state) {
  (void)state;
  if (!cache_gives_back) skip(); /* a file system in memory */
  ull_source *source = open_or_fail(root, ULL_SPLIT_TRAIN);
  bool first[PICTURES], second[PICTURES], all[PICTURES];
  int kept = load_epoch(source, all_bytes / 2, true, 1, first), same = 0;
  assert_in_range(kept, PICTURES / 4, PICTURES * 6 / 10);
  int again = load_epoch(source, all_bytes / 2, true, 2, second);
  for (int i = 0; i < PICTURES; i++) same += first[i] && second[i];
  assert_true(same >= kept * 8 / 10 && same >= again * 8 / 10);
  assert_in_range(load_epoch(source, 0, true, 3, all), 0, PICTURES / 8);
  assert_in_range(given_back, PICTURES * 7 / 8, PICTURES);
  load_epoch(source, 2 * all_bytes, true, 4, all);
  assert_int_equal(given_back, 0);
  load_epoch(source, UINT64_MAX, true, 5, all);
  assert_int_equal(given_back, 0);
  ull_source_close(source);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_fixed_part_stays)};
  return cmocka_run_group_tests(tests, set_up, remove_root);
}
