/* Saying something to the program's log callback (ullage/log.h). Never allocates. */
#ifndef ULL_BASE_LOG_H
#define ULL_BASE_LOG_H

#include "ullage/log.h"

void ull__log(ull_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* From now on this thread's messages are dropped. Takes no lock. */
void ull__log_mute_thread(void);

#define ULL__LOG_WARNING(...) ull__log(ULL_LOG_WARNING, __VA_ARGS__)
#define ULL__LOG_INFO(...) ull__log(ULL_LOG_INFO, __VA_ARGS__)
#define ULL__LOG_DEBUG(...) ull__log(ULL_LOG_DEBUG, __VA_ARGS__)

#endif
