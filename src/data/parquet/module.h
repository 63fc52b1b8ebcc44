/* The part that reads Parquet: a module of its own, since the library for it is C++ and may be
 * absent. What is made of C opens it when it first meets a Parquet file, and knows it by the table
 * of functions below.
 *
 * No exception leaves the module; errors are texts. */
#ifndef ULL_DATA_PARQUET_MODULE_H
#define ULL_DATA_PARQUET_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "data/parquet/arrow_c.h"

enum { ULL__PARQUET_MODULE_VERSION = 1, ULL__NUMBER_TEXT = 48 };

typedef struct ull__parquet_module {
  uint32_t version;    /* ULL__PARQUET_MODULE_VERSION */
  const char *library; /* its name and version, for people */

  /* Begins to read the rows of an open file, which stays the caller's and open; its position is not
   * used. On success the stream is to be released, after all that it gave. Batches are of about
   * `batch_bytes`; more than `most_bytes` at a time is an error. False with a text on failure. */
  bool (*open)(int descriptor, int64_t batch_bytes, int64_t most_bytes,
               struct ArrowArrayStream *stream, char *message, size_t room);

  /* The shortest text that reads back as the same number, as a float where `is_single`; returns its
   * bytes. `to` has room for ULL__NUMBER_TEXT. Nothing fails. */
  size_t (*print)(double value, bool is_single, char *to);
} ull__parquet_module;

/* What the module's one symbol, "ull__parquet_module_table", is. */
typedef const ull__parquet_module *(*ull__parquet_module_entry)(void);

#ifndef __cplusplus
#include "ullage/status.h"

/* Opens the module once in a process, for good; ULL_ERROR_UNSUPPORTED says where it was looked for
 * and how it is got. For one thread: that of the process in which Parquet is read. */
ull_status ull__parquet_module_open(const ull__parquet_module **module);
#endif

#endif
