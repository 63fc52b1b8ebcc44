/* JSON by jansson, with its memory counted, its input bounded, and one line out. */
#ifndef ULL_BASE_JSON_H
#define ULL_BASE_JSON_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "ullage/status.h"

/* Routes jansson's memory through ull__alloc. Every function here does it; a module that calls
 * jansson first must do it before. */
void ull__json_start(void);

/* Parses `bytes` of text. `name` is for messages. The value is owned by the caller (json_decref).
 * ULL_ERROR_DATA names line and column; keys that come twice are refused. */
ull_status ull__json_parse(const char *text, size_t bytes, const char *name, json_t **out);

/* The same for other people's data: texts may hold NUL (json_string_length), every number is a
 * real, so that whole ones beyond 64 bits are no fault, and of keys that come twice the last
 * counts. */
ull_status ull__json_parse_data(const char *text, size_t bytes, const char *name, json_t **out);

/* Reads and parses a file of at most `limit_bytes`. */
ull_status ull__json_load(const char *path, uint64_t limit_bytes, json_t **out);

/* One line without newline in fresh memory (ull__free), keys in order of insertion, reals with
 * enough digits to be read back exactly. */
ull_status ull__json_line(const json_t *value, char **out);

/* A real, or null where it is not finite. NULL when memory is out. */
json_t *ull__json_real(double value);

/* Puts a new reference under `key` and takes it, also on failure. A NULL value counts as memory
 * being out, so that calls of json_integer, json_string and the like can be passed on directly. */
ull_status ull__json_put(json_t *object, const char *key, json_t *value);
ull_status ull__json_append(json_t *array, json_t *value);

#endif
