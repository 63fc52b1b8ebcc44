/* Slabs: guard pages, residency, exact counts, refusal; spans. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/checked.h"
#include "base/error.h"
#include "memory/slab.h"

#define MIB (1ull << 20)

/* How a child ends that touches `address`: a signal number, or 0. */
static int touch_in_child(volatile unsigned char *address) {
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    signal(SIGBUS, SIG_DFL);
    *address = 1;
    _exit(0);
  }
  int how;
  assert_int_equal(waitpid(child, &how, 0), child);
  return WIFSIGNALED(how) ? WTERMSIG(how) : WEXITSTATUS(how);
}

static uint64_t count_resident(const ull__slab *slab) {
  uint64_t page = ull__page_bytes(), pages = slab->bytes / page, resident = 0;
  unsigned char *about = malloc(pages);
  assert_int_equal(mincore(slab->base, slab->bytes, about), 0);
  for (uint64_t i = 0; i < pages; i++) resident += (about[i] & 1) * page;
  free(about);
  return resident;
}

static void a_reservation_takes_no_memory(void **state) {
  (void)state;
  ull__slab slab = {0};
  uint64_t committed = ull__slab_committed_bytes();
  assert_int_equal(ull__slab_reserve(&slab, 1ull << 40), ULL_OK);
  assert_int_equal(slab.bytes, 1ull << 40);
  assert_int_equal(ull__slab_committed_bytes(), committed);
  assert_int_equal(touch_in_child(slab.base), SIGSEGV);
  ull__slab_release(&slab);
  assert_null(slab.base);
  ull__slab_release(&slab);
}

static void committed_pages_are_resident_and_zero(void **state) {
  (void)state;
  ull__slab slab = {0};
  uint64_t committed = ull__slab_committed_bytes();
  assert_int_equal(ull__slab_reserve(&slab, 8 * MIB + 5), ULL_OK);
  assert_int_equal(slab.bytes, 8 * MIB + ull__page_bytes());
  assert_int_equal((uintptr_t)slab.base % ull__huge_page_bytes(), 0);
  assert_int_equal(ull__slab_commit(&slab, 0, slab.bytes), ULL_OK);
  assert_int_equal(slab.committed_bytes, slab.bytes);
  assert_int_equal(ull__slab_committed_bytes(), committed + slab.bytes);
  assert_int_equal(count_resident(&slab), slab.bytes);
  for (uint64_t i = 0; i < slab.bytes; i += 511) assert_int_equal(slab.base[i], 0);
  memset(slab.base, 0xFF, slab.bytes);
  ull__slab_release(&slab);
  assert_int_equal(ull__slab_committed_bytes(), committed);
}

static void both_ends_are_guarded(void **state) {
  (void)state;
  ull__slab slab = {0};
  assert_int_equal(ull__slab_reserve(&slab, 3 * ull__page_bytes()), ULL_OK);
  assert_int_equal(ull__slab_commit(&slab, 0, slab.bytes), ULL_OK);
  assert_int_equal(touch_in_child(slab.base), 0);
  assert_int_equal(touch_in_child(slab.base + slab.bytes - 1), 0);
  assert_int_equal(touch_in_child(slab.base + slab.bytes), SIGSEGV);
  assert_int_equal(touch_in_child(slab.base - 1), SIGSEGV);
  ull__slab_release(&slab);
}

static void commits_grow_in_one_piece(void **state) {
  (void)state;
  ull__slab slab = {0};
  uint64_t page = ull__page_bytes();
  assert_int_equal(ull__slab_reserve(&slab, 10 * page), ULL_OK);
  assert_int_equal(ull__slab_commit(&slab, 4 * page + 1, 1), ULL_OK);
  assert_int_equal(slab.committed_bytes, page);
  slab.base[4 * page] = 7;
  assert_int_equal(ull__slab_commit(&slab, 0, page), ULL_ERROR_INVALID);
  assert_int_equal(ull__slab_commit(&slab, 8 * page, page), ULL_ERROR_INVALID);
  assert_int_equal(ull__slab_commit(&slab, 3 * page, 3 * page), ULL_OK);
  assert_int_equal(slab.committed_bytes, 3 * page);
  assert_int_equal(ull__slab_commit(&slab, 4 * page, page), ULL_OK);
  assert_int_equal(slab.committed_bytes, 3 * page);
  assert_int_equal(slab.base[4 * page], 7);
  assert_int_equal(ull__slab_commit(&slab, 9 * page, 2 * page), ULL_ERROR_INVALID);
  assert_int_equal(ull__slab_commit(&slab, UINT64_MAX, 2), ULL_ERROR_INVALID);
  assert_int_equal(ull__slab_commit(&slab, page, 0), ULL_OK);
  ull__slab_release(&slab);
}

static void impossible_sizes_are_refused_with_their_bytes(void **state) {
  (void)state;
  ull__slab slab = {0};
  assert_int_equal(ull__slab_reserve(&slab, 0), ULL_ERROR_INVALID);
  assert_int_equal(ull__slab_reserve(&slab, UINT64_MAX), ULL_ERROR_OVERFLOW);
  assert_int_equal(ull__slab_reserve(&slab, 1ull << 60), ULL_ERROR_OUT_OF_MEMORY);
  assert_int_equal(ull_error_last()->wanted_bytes, 1ull << 60);
  assert_null(slab.base);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LIMITS_ADDRESS_SPACE 0
#else
#define LIMITS_ADDRESS_SPACE 1
#endif

/* Under RLIMIT_DATA the kernel refuses a commit; the slab stays as it was. */
static void a_refused_commit_changes_nothing(void **state) {
  (void)state;
  if (!LIMITS_ADDRESS_SPACE) skip();
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    ull__slab slab = {0};
    struct rlimit limit = {64 * MIB, 64 * MIB};
    if (setrlimit(RLIMIT_DATA, &limit) != 0) _exit(10);
    if (ull__slab_reserve(&slab, 1024 * MIB) != ULL_OK) _exit(11);
    if (ull__slab_commit(&slab, 0, MIB) != ULL_OK) _exit(12);
    if (ull__slab_commit(&slab, 0, 1024 * MIB) != ULL_ERROR_OUT_OF_MEMORY) _exit(13);
    if (ull_error_last()->wanted_bytes != 1023 * MIB) _exit(14);
    if (slab.committed_bytes != MIB || ull__slab_committed_bytes() != MIB) _exit(15);
    slab.base[MIB - 1] = 1;
    _exit(ull__slab_commit(&slab, 0, 2 * MIB) == ULL_OK ? 0 : 16);
  }
  int how;
  assert_int_equal(waitpid(child, &how, 0), child);
  assert_true(WIFEXITED(how));
  assert_int_equal(WEXITSTATUS(how), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_reservation_takes_no_memory),
      cmocka_unit_test(committed_pages_are_resident_and_zero),
      cmocka_unit_test(both_ends_are_guarded),
      cmocka_unit_test(commits_grow_in_one_piece),
      cmocka_unit_test(impossible_sizes_are_refused_with_their_bytes),
      cmocka_unit_test(a_refused_commit_changes_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
