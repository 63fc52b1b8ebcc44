/* The copy is made by fork and leaves through _exit: none of the program's handlers runs in it, and
 * no lock is taken that another thread may have held. Its answer lies in memory that both share, so
 * that it is had whoever waits for the program's children first. It dies with the thread that waits
 * for it. */
#include "base/apart.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"

typedef struct answer {
  atomic_bool is_given;
  ull_status status;
  ull_error error;
  uint8_t result[]; /* of the size that the caller's has */
} answer;

typedef struct job {
  ull__apart_work work;
  void *context, *result;
  size_t bytes;
  answer *answer;
} job;

static _Noreturn void work_in_copy(const job *job, pid_t parent) {
  static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE};
  answer *answer = job->answer;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  for (size_t i = 0; i < sizeof ending / sizeof ending[0]; i++) signal(ending[i], SIG_DFL);
  ull__log_mute_thread();
  answer->status = job->work(job->context);
  if (answer->status != ULL_OK) answer->error = *ull_error_last();
  memcpy(answer->result, job->result, job->bytes);
  atomic_store(&answer->is_given, true);
  _exit(0);
}

/* What ended the copy; 0 where that is not known, since somebody else waited for it. */
static int wait_for(pid_t copy) {
  int how = 0;
  pid_t ended;
  do {
    ended = waitpid(copy, &how, 0);
  } while (ended < 0 && errno == EINTR);
  return ended == copy && WIFSIGNALED(how) ? WTERMSIG(how) : 0;
}

static ull_status died(const char *name, int number) {
  const char *how = number != 0 ? strsignal(number) : "without a word";
  if (number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGQUIT)
    return ULL__FAIL(ULL_ERROR_STOPPED, "%s: reading it was interrupted", name);
  if (number == SIGKILL) {
    ULL__FAIL(ULL_ERROR_OUT_OF_MEMORY, "%s: the process that read it was killed", name);
    ull__error_holder("%s", name);
    return ull__error_change("allow more memory: the system kills what takes too much");
  }
  ULL__FAIL(ULL_ERROR_DATA, "%s: the process that read it died: %s", name, how);
  ull__error_holder("%s", name);
  return ull__error_change("check the file: it is probably damaged");
}

static ull_status take_answer(const job *job, const char *name, int number) {
  const answer *answer = job->answer;
  if (!atomic_load(&answer->is_given)) return died(name, number);
  memcpy(job->result, answer->result, job->bytes);
  return answer->status == ULL_OK ? ULL_OK : ull__error_restore(&answer->error);
}

static ull_status run(const char *name, const job *job) {
  pid_t parent = getpid(), copy = fork();
  if (copy == 0) work_in_copy(job, parent);
  if (copy > 0) return take_answer(job, name, wait_for(copy));
  ULL__FAIL(ULL_ERROR_OUT_OF_MEMORY, "%s: no process can be started to read it: %s", name,
            strerror(errno));
  return ull__error_change("raise the limit of processes (ulimit -u), or free memory");
}

ull_status ull__run_apart(const char *name, ull__apart_work work, void *context, void *result,
                          size_t bytes) {
  job job = {.work = work, .context = context, .result = result, .bytes = bytes};
  size_t shared = sizeof *job.answer + bytes;
  job.answer = mmap(NULL, shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (job.answer == MAP_FAILED)
    return ULL__FAIL(ULL_ERROR_OUT_OF_MEMORY, "%s: no memory to read it: %s", name,
                     strerror(errno));
  ull_status status = run(name, &job);
  munmap(job.answer, shared);
  return status;
}
