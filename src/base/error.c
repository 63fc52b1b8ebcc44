/* The thread's error record. It is a thread-local value, so filling it never allocates and never
 * waits. Its texts quote names from outside and may be cut, so they are cleaned to be UTF-8. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

static _Thread_local ull_error record;

const ull_error *ull_error_last(void) {
  return &record;
}

void ull_error_clear(void) {
  record = (ull_error){0};
}

ull_status ull__fail(ull_status status, const char *format, ...) {
  char message[sizeof record.message];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  record = (ull_error){.status = status};
  memcpy(record.message, message, sizeof message);
  for (char *c = record.message; *c != '\0'; c++) {
    if (*c == '\n' || *c == '\r') *c = ' ';
  }
  ull__utf8_clean(record.message);
  return status;
}

ull_status ull__error_holder(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(record.holder, sizeof record.holder, format, arguments);
  va_end(arguments);
  ull__utf8_clean(record.holder);
  return record.status;
}

ull_status ull__error_change(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(record.change, sizeof record.change, format, arguments);
  va_end(arguments);
  ull__utf8_clean(record.change);
  return record.status;
}

ull_status ull__error_bytes(uint64_t wanted_bytes, uint64_t available_bytes) {
  record.wanted_bytes = wanted_bytes;
  record.available_bytes = available_bytes;
  return record.status;
}

ull_status ull__error_context(const char *format, ...) {
  char text[sizeof record.message];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (length < 0) return record.status;
  size_t used = (size_t)length < sizeof text ? (size_t)length : sizeof text - 1;
  snprintf(text + used, sizeof text - used, ": %s", record.message);
  memcpy(record.message, text, sizeof text);
  ull__utf8_clean(record.message);
  return record.status;
}

ull_status ull__error_restore(const ull_error *error) {
  if (error != &record) record = *error;
  return record.status;
}

ull_status ull__error_unless(ull_status status, const ull_error *before) {
  if (status == ULL_OK) ull__error_restore(before);
  return status;
}
