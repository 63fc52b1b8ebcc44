/* One callback for the process. A mutex keeps messages of several threads apart. */
#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static ull_log_callback current_callback;
static void *current_user;
static ull_log_level current_level = ULL_LOG_INFO;
static _Thread_local bool is_muted;

void ull_log_set(ull_log_callback callback, void *user, ull_log_level level) {
  pthread_mutex_lock(&mutex);
  current_callback = callback;
  current_user = user;
  current_level = level;
  pthread_mutex_unlock(&mutex);
}

const char *ull_log_level_name(ull_log_level level) {
  static const char *const names[] = {"error", "warning", "info", "debug"};
  return (unsigned)level <= ULL_LOG_DEBUG ? names[level] : "unknown";
}

void ull__log_mute_thread(void) {
  is_muted = true;
}

void ull__log(ull_log_level level, const char *format, ...) {
  if (is_muted) return;
  char message[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  pthread_mutex_lock(&mutex);
  if (current_callback != NULL && level <= current_level) {
    current_callback(current_user, level, message);
  }
  pthread_mutex_unlock(&mutex);
}
