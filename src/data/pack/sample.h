/* One sample on its way into a shard: its key, and a member for each array of the source. */
#ifndef ULL_DATA_PACK_SAMPLE_H
#define ULL_DATA_PACK_SAMPLE_H

#include "data/pack/shrink.h"
#include "data/pack/tar_writer.h"
#include "data/source.h"
#include "ullage/pack.h"

enum { ULL__PACK_KEY = 256, ULL__PACK_SUFFIX = 96 };

/* Refuses sources whose arrays a shard cannot hold. */
ull_status ull__pack_check_source(const ull_source *source);

/* "000000123-name": the sample's number, then what its file is called, without ending, dots and
 * other bytes that mean something in a shard. */
void ull__pack_key(const ull_source *source, uint64_t sample, char key[ULL__PACK_KEY]);

typedef struct ull__pack_field {
  char suffix[ULL__PACK_SUFFIX]; /* "jpg", "mask.png", "cls", "depth.npy" */
  ull__record record;            /* open: the member is copied from it */
  bool open;
  uint8_t *bytes; /* else these; freed with the field */
  uint64_t count;
  bool picture;
  bool encoded; /* anew */
} ull__pack_field;

typedef struct ull__pack_sample {
  char key[ULL__PACK_KEY];
  ull__pack_field *fields; /* one for each array of the source */
  ull_verdict verdict;     /* the worst of its pictures' */
  const char *reason;      /* static */
  uint64_t bytes_in;
} ull__pack_sample;

/* Room for the fields of a source's samples. */
ull_status ull__pack_sample_create(const ull_source *source, ull__pack_sample *sample);
void ull__pack_sample_destroy(const ull_source *source, ull__pack_sample *sample);

/* Looks at one sample. A bad one is not a failure; one that cannot be read is, unless `may_skip`.
 * Between this and clear, files are open; memory of the source's is not held. */
ull_status ull__pack_sample_make(const ull_source *source, uint64_t number, bool may_skip,
                                 ull__pack_shrinker *shrinker, ull__pack_sample *sample);
void ull__pack_sample_clear(const ull_source *source, ull__pack_sample *sample);

/* What it takes in a shard, and putting it there. A file that is no longer as long as it was is
 * ULL_ERROR_DATA. */
uint64_t ull__pack_sample_bytes(const ull_source *source, const ull__pack_sample *sample);
ull_status ull__pack_sample_write(const ull_source *source, const ull__pack_sample *sample,
                                  ull__tar_writer *tar);

#endif
