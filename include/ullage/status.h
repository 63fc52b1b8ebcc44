/* Statuses and the error record.
 *
 * Every function that can fail returns a `ull_status`; `ULL_OK` is 0. A failure also fills the
 * calling thread's error record, which names the thing, the bytes wanted and available, and what to
 * do about it. The record stays until the same thread fails again or clears it. The library never
 * exits, aborts or prints.
 *
 * Thread safety: each thread has its own record. Work that Ullage runs on threads of its own copies
 * the record back to the caller that waits for it.
 */
#ifndef ULLAGE_STATUS_H
#define ULLAGE_STATUS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* name in C, name in JSON, exit code of the command line, text.  Values count up from 0 and are
 * stable. */
#define ULL_STATUS_MAP(XX)                                                  \
  XX(OK, "ok", 0, "success")                                                \
  XX(ERROR_INTERNAL, "internal", 1, "a promise inside Ullage was broken")   \
  XX(ERROR_USAGE, "usage", 2, "wrong flag or value")                        \
  XX(ERROR_INVALID, "invalid", 2, "invalid argument")                       \
  XX(ERROR_DOES_NOT_FIT, "does_not_fit", 3, "does not fit into the budget") \
  XX(ERROR_OUT_OF_MEMORY, "out_of_memory", 4, "out of memory")              \
  XX(ERROR_STOPPED, "stopped", 5, "stopped on request; progress saved")     \
  XX(ERROR_DATA, "data", 6, "the data cannot be used")                      \
  XX(ERROR_NUMERIC, "numeric", 7, "the numbers are no longer finite")       \
  XX(ERROR_IO, "io", 1, "reading or writing failed")                        \
  XX(ERROR_UNSUPPORTED, "unsupported", 1, "not supported")                  \
  XX(ERROR_OVERFLOW, "overflow", 2, "a size does not fit into 63 bits")     \
  XX(ERROR_DEVICE, "device", 1, "the device failed")                        \
  XX(ERROR_BUSY, "busy", 1, "in use by another run")                        \
  XX(ERROR_MISMATCH, "mismatch", 1, "two things that must agree do not")

typedef enum ull_status {
#define XX(name, json, exit_code, text) ULL_##name,
  ULL_STATUS_MAP(XX)
#undef XX
      ULL_STATUS_COUNT
} ull_status;

/* What went wrong, in full. Strings are always terminated; empty where they do not apply. */
typedef struct ull_error {
  ull_status status;
  char message[512];        /* one sentence, no newline: what failed and on what */
  char holder[256];         /* the value, file or flag that stands in the way */
  char change[256];         /* the cheapest thing to do about it */
  uint64_t wanted_bytes;    /* 0 where no bytes are concerned */
  uint64_t available_bytes; /* 0 where no bytes are concerned */
} ull_error;

/* Stable name of a status as in JSON ("does_not_fit"), its text, and the exit code the command line
 * gives it. Static strings, never NULL, also for values outside the table. */
const char *ull_status_name(ull_status status);
const char *ull_status_text(ull_status status);
int ull_status_exit_code(ull_status status);

/* The calling thread's record. Borrowed until the thread's next failing call. Its status is ULL_OK
 * where nothing has failed yet. A call that succeeds leaves it as it was. */
const ull_error *ull_error_last(void);

/* Forgets the calling thread's record. */
void ull_error_clear(void);

#ifdef __cplusplus
}
#endif
#endif
