/* Filling the thread's error record, and passing failures on.
 *
 *     if (axis >= rank) return ULL__FAIL(ULL_ERROR_INVALID, "axis %d of %d", axis, rank);
 *     ULL__TRY(ull__vector_push(&nodes, node));
 *
 * ULL__FAIL evaluates to the status it was given, so that it can be returned. Details are added
 * afterwards with ull__error_holder, ull__error_change and ull__error_bytes, on the same thread. */
#ifndef ULL_BASE_ERROR_H
#define ULL_BASE_ERROR_H

#include "ullage/status.h"

#define ULL__FAIL(status, ...) ull__fail((status), __VA_ARGS__)

#define ULL__TRY(expression)                               \
  do {                                                     \
    ull_status ull__try_status = (expression);             \
    if (ull__try_status != ULL_OK) return ull__try_status; \
  } while (0)

/* For functions that clean up behind a label: sets `status` and jumps. */
#define ULL__TRY_GOTO(status, expression, label) \
  do {                                           \
    (status) = (expression);                     \
    if ((status) != ULL_OK) goto label;          \
  } while (0)

/* Starts a new record (holder, change and bytes are emptied). Never allocates. */
ull_status ull__fail(ull_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Add to the current record. Each returns the record's status. */
ull_status ull__error_holder(const char *format, ...) __attribute__((format(printf, 1, 2)));
ull_status ull__error_change(const char *format, ...) __attribute__((format(printf, 1, 2)));
ull_status ull__error_bytes(uint64_t wanted_bytes, uint64_t available_bytes);

/* Puts `context: ` before the message of the current record ("model.json: ..."). Returns the
 * record's status. */
ull_status ull__error_context(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Copies a record taken on another thread into the calling thread's. Returns its status. */
ull_status ull__error_restore(const ull_error *error);

/* What a call that succeeds met on its way is not the caller's business: puts back the record as it
 * was `before` unless `status` is a failure. Returns `status`.
 *
 *     const ull_error before = *ull_error_last();
 *     return ull__error_unless(try_both(), &before); */
ull_status ull__error_unless(ull_status status, const ull_error *before);

#endif
