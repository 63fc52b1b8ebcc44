/* Messages from the library.
 *
 * The library prints nothing. What it has to say beside its statuses goes to one callback, which a
 * program sets once, before it uses anything else. Without a callback, messages are dropped.
 *
 * Thread safety: ull_log_set is not to be called while other threads use the library. The callback
 * may be called from any thread, one call at a time.
 */
#ifndef ULLAGE_LOG_H
#define ULLAGE_LOG_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ull_log_level {
  ULL_LOG_ERROR,
  ULL_LOG_WARNING,
  ULL_LOG_INFO,
  ULL_LOG_DEBUG
} ull_log_level;

/* `message` is one line without newline, borrowed for the call. The callback must not call into the
 * library. */
typedef void (*ull_log_callback)(void *user, ull_log_level level, const char *message);

/* Messages of `level` and graver go to `callback` with `user` (borrowed until replaced). A NULL
 * callback drops all. */
void ull_log_set(ull_log_callback callback, void *user, ull_log_level level);

/* "error", "warning", "info", "debug". Static, never NULL. */
const char *ull_log_level_name(ull_log_level level);

#ifdef __cplusplus
}
#endif
#endif
