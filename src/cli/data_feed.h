/* What `data bench` and its kin load: a source bound as a network would have it. */
#ifndef ULL_CLI_DATA_FEED_H
#define ULL_CLI_DATA_FEED_H

#include "cli/cli.h"
#include "ullage/data.h"

typedef struct data_feed {
  ull_source *source;
  ull_binding bindings[ULL_DATA_MAX_ARRAYS];
  ull_loader_options options; /* bindings point into this feed: it must not move */
  bool training;
  uint64_t budget_bytes; /* of --loader-memory; 0 = none given */
} data_feed;

/* Opens SRC as --mode says and binds its arrays: pictures and images of elements as float32,
 * normalised, pictures at --size; everything else as it is. */
ull_status data_feed_open(const command *c, const char *text, data_feed *feed);
void data_feed_close(data_feed *feed);

/* Threads and memory for this number of workers; 0 = as many as suit. */
ull_status data_feed_fit(const command *c, data_feed *feed, int workers);

#endif
