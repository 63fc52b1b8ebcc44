/* The first batch of a loader that goes on at 90 % of the epoch, beside a cold one.
 *
 *     ./dev bench first_batch ROUNDS SETTING=VALUE... SRC
 *
 * In every round two fresh loaders are opened, with a seed of the round's: one asks for its first
 * batch, the other is given the state of a stream at 90 % before it does; who begins changes.
 * Prints one JSON object: nanoseconds from ull_loader_set_state, or from ull_loader_next, to the
 * batch, processor time of all threads meanwhile, and what opening took before that. One slot, so
 * that no thread begins a batch that was not asked for. Whether index and page cache are warm is
 * the caller's affair: the round before the first is not counted. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ullage/stream.h"

enum { MOST_SETTINGS = 24, MOST_ROUNDS = 1001 };

typedef struct bench {
  const char *source;
  const char *settings[MOST_SETTINGS];
  size_t count;
  char seed[32];
} bench;

typedef struct figures {
  uint64_t wall_ns, cpu_ns, open_ns;
} figures;

static int stop(void) {
  const ull_error *error = ull_error_last();
  fprintf(stderr, "first_batch: %s\n", error->message);
  exit(1);
}

static uint64_t now_ns(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static ull_stream *open_stream(bench *b) {
  ull_stream *stream;
  if (ull_stream_open(b->source, b->settings, b->count, &stream) != ULL_OK) stop();
  return stream;
}

static ull_loader_state state_at(bench *b, double share) {
  ull_stream *stream = open_stream(b);
  ull_loader *loader = ull_stream_loader(stream);
  uint64_t batches = ull_loader_batches_per_epoch(loader);
  ull_loader_position position = {.batch = (uint64_t)((double)batches * share)};
  if (ull_loader_set_position(loader, position) != ULL_OK) stop();
  ull_loader_state state = ull_loader_get_state(loader);
  ull_stream_close(stream);
  return state;
}

static figures measure(bench *b, const ull_loader_state *from) {
  figures f;
  const ull_batch *batch;
  uint64_t opened = now_ns(CLOCK_MONOTONIC);
  ull_stream *stream = open_stream(b);
  ull_loader *loader = ull_stream_loader(stream);
  uint64_t began = now_ns(CLOCK_MONOTONIC), cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID);
  if (from != NULL && ull_loader_set_state(loader, from) != ULL_OK) stop();
  if (ull_loader_next(loader, &batch) != ULL_OK || batch == NULL) stop();
  f.wall_ns = now_ns(CLOCK_MONOTONIC) - began;
  f.cpu_ns = now_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
  f.open_ns = began - opened;
  ull_stream_close(stream);
  return f;
}

static void print(const char *name, const figures *f, int rounds) {
  printf("\"%s\": {\"wall_ns\": [", name);
  for (int r = 0; r < rounds; r++) printf("%s%" PRIu64, r > 0 ? ", " : "", f[r].wall_ns);
  printf("], \"cpu_ns\": [");
  for (int r = 0; r < rounds; r++) printf("%s%" PRIu64, r > 0 ? ", " : "", f[r].cpu_ns);
  printf("], \"open_ns\": [");
  for (int r = 0; r < rounds; r++) printf("%s%" PRIu64, r > 0 ? ", " : "", f[r].open_ns);
  printf("]}");
}

int main(int count, char **words) {
  static figures cold[MOST_ROUNDS], resumed[MOST_ROUNDS];
  bench b = {.count = 2};
  int rounds = count > 2 ? atoi(words[1]) : 0;
  if (rounds < 1 || rounds > MOST_ROUNDS || count - 3 > MOST_SETTINGS - 2) {
    fprintf(stderr, "first_batch ROUNDS SETTING=VALUE... SRC\n");
    return 1;
  }
  b.settings[0] = "prefetch=1";
  b.settings[1] = b.seed;
  for (int i = 2; i < count - 1; i++) b.settings[b.count++] = words[i];
  b.source = words[count - 1];
  for (int r = -1; r < rounds; r++) {
    int place = r < 0 ? 0 : r;
    snprintf(b.seed, sizeof b.seed, "seed=%d", place);
    ull_loader_state state = state_at(&b, 0.9);
    if (r % 2 == 0) cold[place] = measure(&b, NULL);
    resumed[place] = measure(&b, &state);
    if (r % 2 != 0) cold[place] = measure(&b, NULL);
  }
  printf("{");
  print("cold", cold, rounds);
  printf(", ");
  print("resumed", resumed, rounds);
  printf("}\n");
  return 0;
}
