/* PREFIX-pack.json: which pack this is, and how far it has come. Written whole after every shard,
 * so that a process may end at any moment: what it says is on the disk, is. */
#ifndef ULL_DATA_PACK_STATE_H
#define ULL_DATA_PACK_STATE_H

#include "base/sha256.h"
#include "base/vector.h"
#include "data/pack/output.h"
#include "data/source.h"
#include "ullage/pack.h"

/* What bytes follow from. */
typedef struct ull__pack_identity {
  char samples[ULL__SHA256_HEX]; /* of all keys */
  uint64_t sample_count;
  uint64_t shard_bytes, memory_bytes;
  int max_side, quality; /* 0: as they are */
} ull__pack_identity;

typedef struct ull__pack_shard {
  uint64_t bytes, samples;
} ull__pack_shard;

typedef struct ull__pack_state {
  ull__pack_identity identity;
  ull_on_bad on_bad; /* may change until a bad sample was met */
  bool complete;
  uint64_t next; /* the first sample that no whole shard reaches */
  uint64_t bad;
  ull_pack_result counts; /* of the samples before `next` */
  ULL__VECTOR(ull__pack_shard) shards;
} ull__pack_state;

/* Fills the identity. Asks the source for every sample's name. */
ull_status ull__pack_identify(const ull_source *source, const ull_pack_options *options,
                              ull__pack_identity *identity);

/* Takes up what is there for state->identity and state->on_bad, or begins. ULL_ERROR_MISMATCH:
 * something else is there, and is left alone. */
ull_status ull__pack_state_open(ull__pack_state *state, const ull__pack_output *output);

ull_status ull__pack_state_save(const ull__pack_state *state, const ull__pack_output *output);

void ull__pack_state_free(ull__pack_state *state);

#endif
