/* A stream of batches from settings by name: what most programs and bindings want of data.h.
 *
 *     const char *settings[] = {"batch-size=64", "size=224", "seed=0"};
 *     ull_stream *stream;
 *     if (ull_stream_open("photos/", settings, 3, &stream) != ULL_OK) return fail();
 *     const ull_batch *batch;
 *     while (ull_loader_next(ull_stream_loader(stream), &batch) == ULL_OK && batch) {
 *       use(batch->arrays, batch->samples);
 *       ull_loader_release(ull_stream_loader(stream), batch);
 *     }
 *     ull_stream_close(stream);
 *
 * A stream opens the source, binds every array of it as networks want it (pictures float32
 * [channels, size, size] and normalised, labels int64), chooses threads, slots and memory, and
 * starts the loader. Settings are the flags of `ullage data bench`, which runs on this.
 */
#ifndef ULLAGE_STREAM_H
#define ULLAGE_STREAM_H

#include <stddef.h>
#include <stdint.h>

#include "ullage/config.h"
#include "ullage/data.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ull_stream ull_stream;

/* Opens SRC (see ull_source_open) with "name=value" settings: batch-size, size, seed, mode
 * (train|eval), shuffle, augment, normalize, dtype, layout, drop-last, workers, prefetch,
 * loader-memory, on-bad, max-bad, rank, world-size, epochs (0 = no end, the default here). Texts
 * are borrowed for the call. ULL_ERROR_USAGE names the setting; else as ull_source_open,
 * ull_loader_fit and ull_loader_create. */
ull_status ull_stream_open(const char *source, const char *const *settings, size_t count,
                           ull_stream **out);

/* The same from a configuration of ULL_COMMAND_DATA, which is borrowed for the call; `workers` in
 * place of the option of that name where it is not negative (0 = what suits this machine). */
ull_status ull_stream_open_config(const char *source, const ull_config *config, int workers,
                                  ull_stream **out);

/* The two halves of it: what the stream will be, and what it will take, before any thread or memory
 * of the loader exists; and the start. ull_stream_loader is NULL in between. */
ull_status ull_stream_prepare(const char *source, const ull_config *config, int workers,
                              ull_stream **out);
ull_status ull_stream_start(ull_stream *stream);

/* Ends the loader's threads and closes the source. Batches on loan become invalid. NULL is allowed.
 */
void ull_stream_close(ull_stream *stream);

/* Borrowed until close. */
ull_loader *ull_stream_loader(ull_stream *stream);
const ull_source *ull_stream_source(const ull_stream *stream);

/* What the loader was made with; memory and threads as they were resolved. */
const ull_loader_options *ull_stream_options(const ull_stream *stream);
const ull_loader_bound *ull_stream_bound(const ull_stream *stream);

/* One line for a person: source, samples, preparation, memory with its parts. Borrowed until close.
 */
const char *ull_stream_describe(const ull_stream *stream);

/* For callers that cannot see structures. */
uint64_t ull_stream_samples(const ull_stream *stream);
uint64_t ull_stream_bound_bytes(const ull_stream *stream);
uint64_t ull_stream_slots(const ull_stream *stream);
void ull_stream_sample_name(const ull_stream *stream, uint64_t sample, char *buffer, size_t bytes);
uint64_t ull_stream_class_count(const ull_stream *stream);

/* Stays until the next call on this stream. */
const char *ull_stream_class_name(ull_stream *stream, uint64_t number);

#ifdef __cplusplus
}
#endif
#endif
