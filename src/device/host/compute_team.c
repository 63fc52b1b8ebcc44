/* The one compute thread of the process and its OpenMP team.
 *
 * Libraries make a team for each thread that calls them, so every launch, primitive creation and
 * measurement comes from this thread. It lives while a device is open. Its team's size is set once,
 * before the first parallel region, and every member flushes denormals from then on. Without OpenMP
 * in the build the team is the thread itself, and a library that has OpenMP is told so. */
#include <dlfcn.h>

#if defined(ULL__OPENMP)
#include <omp.h>
#endif
#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

#include "base/error.h"
#include "base/system_limits.h"
#include "device/host/host.h"

#define MOST_THREADS 4096u

static pthread_mutex_t users_mutex = PTHREAD_MUTEX_INITIALIZER;
static uint32_t user_count;
static uint32_t team_size;
static ull__worker compute;
static _Thread_local bool is_compute_thread;

static void flush_denormals(void) {
#if defined(__x86_64__) || defined(__i386__)
  _mm_setcsr(_mm_getcsr() | 0x8040u); /* flush results to zero, take denormal operands as zero */
#elif defined(__aarch64__)
  uint64_t control;
  __asm__ volatile("mrs %0, fpcr" : "=r"(control));
  __asm__ volatile("msr fpcr, %0" : : "r"(control | (1ull << 24)));
#endif
}

static void begin_team(void *argument) {
  (void)argument;
  is_compute_thread = true;
  flush_denormals();
#if defined(ULL__OPENMP)
  omp_set_dynamic(0);
  omp_set_num_threads((int)team_size);
#pragma omp parallel
  flush_denormals();
#else
  void (*set_num_threads)(int) = (void (*)(int))dlsym(RTLD_DEFAULT, "omp_set_num_threads");
  if (set_num_threads != NULL) set_num_threads(1);
#endif
}

static ull_status choose_team_size(uint32_t threads, uint32_t *out) {
#if defined(ULL__OPENMP)
  ull__system_limits limits;
  if (threads == 0) ULL__TRY(ull__system_limits_read("", &limits));
  *out = threads > 0 ? threads : limits.usable_cores;
#else
  (void)threads;
  *out = 1;
#endif
  return ULL_OK;
}

static ull_status join_team(uint32_t threads) {
  if (threads > MOST_THREADS) {
    return ULL__FAIL(ULL_ERROR_USAGE, "%u compute threads; at most %u", threads, MOST_THREADS);
  }
  uint32_t wanted = 1;
  ULL__TRY(choose_team_size(threads, &wanted));
  if (user_count > 0 && threads > 0 && wanted != team_size) {
    return ULL__FAIL(ULL_ERROR_MISMATCH,
                     "the process computes with %u threads, another device asks for %u", team_size,
                     wanted);
  }
  if (user_count > 0) return ULL_OK;
  team_size = wanted;
  return ull__worker_start(&compute, "ull-compute", begin_team, NULL);
}

ull_status ull__compute_acquire(uint32_t threads, ull__worker **out, uint32_t *team_threads) {
  pthread_mutex_lock(&users_mutex);
  ull_status status = join_team(threads);
  if (status == ULL_OK) {
    user_count++;
    *out = &compute;
    *team_threads = team_size;
  }
  pthread_mutex_unlock(&users_mutex);
  return status;
}

void ull__compute_release(void) {
  pthread_mutex_lock(&users_mutex);
  if (--user_count == 0) ull__worker_stop(&compute);
  pthread_mutex_unlock(&users_mutex);
}

bool ull__compute_is_current(void) {
  return is_compute_thread;
}
