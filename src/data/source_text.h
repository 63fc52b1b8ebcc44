/* What follows a scheme: a path or pattern, and options behind it as in a query:
 * "FILE?target=label&hash=1000". Since patterns may hold question marks, the options begin at the
 * last one that a `name=` follows. */
#ifndef ULL_DATA_SOURCE_TEXT_H
#define ULL_DATA_SOURCE_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "ullage/status.h"

enum { ULL__TEXT_OPTIONS = 16 };

typedef struct ull__source_text {
  char *path; /* owned, as everything here */
  char *options;
  int count;
  struct {
    const char *name, *value;
  } items[ULL__TEXT_OPTIONS];
} ull__source_text;

/* `known`: names, ended by NULL. ULL_ERROR_USAGE names what is not known, or comes twice. `scheme`
 * is for messages. Free it in any case. */
ull_status ull__source_text_parse(const char *scheme, const char *argument,
                                  const char *const *known, ull__source_text *out);

/* NULL where it is not given. */
const char *ull__source_text_get(const ull__source_text *text, const char *name);

/* A whole number of [least, most], or `otherwise` where it is not given. */
ull_status ull__source_text_integer(const ull__source_text *text, const char *name,
                                    uint64_t otherwise, uint64_t least, uint64_t most,
                                    uint64_t *out);

/* The same for sizes such as 64MiB. */
ull_status ull__source_text_bytes(const ull__source_text *text, const char *name,
                                  uint64_t otherwise, uint64_t least, uint64_t most, uint64_t *out);

void ull__source_text_free(ull__source_text *text);

#endif
