/* The loader without the trainer: reads a folder of photos (or any other source) batch by batch.
 *
 *     build/release/examples/load FOLDER [name=value ...]
 *     build/release/examples/load photos/ batch-size=32 size=160 mode=eval
 *
 * Without a folder it reads samples that it makes itself, through functions of its own. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ullage/data_callback.h"
#include "ullage/stream.h"

enum { SAMPLES = 1000, SIDE = 8, SETTINGS_MAX = 32 };

static int fail(void) {
  const ull_error *error = ull_error_last();
  fprintf(stderr, "%s\n", error->message);
  if (error->change[0]) fprintf(stderr, "try: %s\n", error->change);
  return ull_status_exit_code(error->status);
}

/* Stands for the program's own data: a bright square whose row is the label. */
static ull_status make_sample(void *context, uint64_t sample, size_t array, void *bytes) {
  (void)context;
  int64_t label = (int64_t)(sample % SIDE);
  if (array == 1) {
    memcpy(bytes, &label, sizeof label);
    return ULL_OK;
  }
  uint8_t *pixels = (uint8_t *)bytes; /* the cast is for C++ */
  for (int64_t i = 0; i < SIDE * SIDE; i++) pixels[i] = i / SIDE == label ? 255 : 0;
  return ULL_OK;
}

static ull_status register_own(void) {
  const ull_callback_array arrays[] = {
      {.name = "image", .dtype = ULL_UINT8, .rank = 3, .shape = {1, SIDE, SIDE}},
      {.name = "label", .dtype = ULL_INT64}};
  const ull_callbacks callbacks = {
      .samples = SAMPLES, .arrays = arrays, .array_count = 2, .read = make_sample};
  return ull_source_register("squares", &callbacks);
}

static void print_batch(const ull_batch *batch) {
  printf("batch %" PRIu64 ":", batch->batch);
  for (size_t i = 0; i < batch->array_count; i++) {
    const ull_batch_array *array = &batch->arrays[i];
    printf(" %s %s [", array->name, ull_dtype_name(array->dtype));
    for (int d = 0; d < array->rank; d++) printf("%s%" PRId64, d ? ", " : "", array->shape[d]);
    printf("]");
  }
  printf(", %" PRIu64 " stand in for bad ones\n", batch->replaced);
}

static int read_all(ull_stream *stream) {
  ull_loader *loader = ull_stream_loader(stream);
  const ull_batch *batch;
  ull_status status;
  uint64_t samples = 0;
  while ((status = ull_loader_next(loader, &batch)) == ULL_OK && batch != NULL) {
    if (batch->batch < 3) print_batch(batch);
    samples += batch->samples;
    ull_loader_release(loader, batch);
  }
  if (status != ULL_OK) return fail();
  ull_loader_counts counts = ull_loader_count(loader);
  printf("%" PRIu64 " samples; at most %" PRIu64 " of %" PRIu64 " bytes used\n", samples,
         counts.peak_bytes, ull_stream_bound_bytes(stream));
  return samples > 0 && counts.peak_bytes <= ull_stream_bound_bytes(stream) ? 0 : 1;
}

int main(int argc, char **argv) {
  const char *settings[SETTINGS_MAX] = {"epochs=1", "batch-size=64"};
  size_t count = 2;
  for (int i = 2; i < argc && count < SETTINGS_MAX; i++) settings[count++] = argv[i];
  ull_stream *stream;
  if (register_own() != ULL_OK) return fail();
  if (ull_stream_open(argc > 1 ? argv[1] : "callback:squares", settings, count, &stream) != ULL_OK)
    return fail();
  puts(ull_stream_describe(stream));
  int code = read_all(stream);
  ull_stream_close(stream);
  return code;
}
