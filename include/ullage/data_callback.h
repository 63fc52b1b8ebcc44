/* Samples of the program's own: functions that a loader, and so a trainer, reads from.
 *
 *     static ull_status read_one(void *context, uint64_t sample, size_t array, void *bytes) { ... }
 *     ...
 *     const ull_callback_array arrays[] = {
 *         {.name = "image", .dtype = ULL_FLOAT32, .rank = 3, .shape = {3, 32, 32}},
 *         {.name = "label", .dtype = ULL_INT64}};
 *     const ull_callbacks callbacks = {
 *         .samples = 50000, .arrays = arrays, .array_count = 2, .read = read_one};
 *     ull_source_register("mine", &callbacks);
 *     ull_config_set(config, "data", "callback:mine"); // or ull_source_open("callback:mine", ...)
 *
 * Order, shuffling, epochs, batches, conversion, augmentation, resume and the memory bound are the
 * loader's as for every other source: the same sample must be the same bytes whenever it is asked
 * for.
 */
#ifndef ULLAGE_DATA_CALLBACK_H
#define ULLAGE_DATA_CALLBACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ullage/data.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One array of every sample. */
typedef struct ull_callback_array {
  const char *name; /* "target", "label" and "labels" are targets, everything else is an input */
  ull_array_content content; /* 0 = ULL_CONTENT_ELEMENTS: `read` fills it. Pictures and masks:
                                `open` gives the encoded file; shape and dtype are not looked at */
  ull_dtype dtype;
  int rank; /* of one sample: without the batch */
  int64_t shape[ULL_DATA_MAX_RANK];
} ull_callback_array;

/* The functions are called on loader threads, several at once unless `one_at_a_time`. They return
 * ULL_OK, or ULL_ERROR_DATA for a sample that cannot be used (--on-bad then applies), or any other
 * status to end the run. They must not call into the loader that calls them. */
typedef struct ull_callbacks {
  uint64_t samples;
  const ull_callback_array *arrays; /* copied */
  size_t array_count;

  /* Copies one array of one sample, in row-major order and native byte order, to `bytes`: as many
   * as its shape and dtype say, at any alignment. NULL only where no array is of elements. */
  ull_status (*read)(void *context, uint64_t sample, size_t array, void *bytes);

  /* Lends the encoded bytes of a picture until `close` is called with the same `*hold`. NULL only
   * where all arrays are of elements. */
  ull_status (*open)(void *context, uint64_t sample, size_t array, const void **bytes,
                     uint64_t *count, void **hold);
  void (*close)(void *context, void *hold); /* NULL: nothing is to be given back */

  bool one_at_a_time; /* calls are never made by two threads at once */
  void *context;      /* the caller's; must stay while a source over these functions is open */
} ull_callbacks;

/* Makes `callback:NAME` a source from now on, for every thread of the process. Everything but
 * functions and context is copied. ULL_ERROR_USAGE: the name is taken, empty, or longer than 63
 * characters. ULL_ERROR_INVALID: no samples, no arrays, or a function is missing.
 * ULL_ERROR_OUT_OF_MEMORY. Thread safe. */
ull_status ull_source_register(const char *name, const ull_callbacks *callbacks);

/* Forgets the name. Sources that are open stay as they are. ULL_ERROR_USAGE where it is not known.
 * Thread safe. */
ull_status ull_source_unregister(const char *name);

#ifdef __cplusplus
}
#endif
#endif
