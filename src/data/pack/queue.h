/* Workers that make samples ahead, and one caller that takes them in order.
 *
 * A sample's place in the ring follows from its number; a worker takes the next number as soon as
 * its place is free. What is made never depends on which worker makes it. */
#ifndef ULL_DATA_PACK_QUEUE_H
#define ULL_DATA_PACK_QUEUE_H

#include "data/pack/sample.h"

typedef struct ull__pack_queue ull__pack_queue;

/* Makes the samples from `first` on. `source` and `options` are borrowed until destroy. */
ull_status ull__pack_queue_create(const ull_source *source, const ull_pack_options *options,
                                  uint64_t first, ull__pack_queue **out);

/* Stops the workers, whatever they are doing. NULL is allowed. */
void ull__pack_queue_destroy(ull__pack_queue *queue);

/* Waits for the next sample in order; borrowed until release. */
ull_status ull__pack_queue_take(ull__pack_queue *queue, const ull__pack_sample **sample);
void ull__pack_queue_release(ull__pack_queue *queue);

#endif
