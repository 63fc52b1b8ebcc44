/* Shards in the manner of WebDataset as a source: members whose names agree up to the first dot
 * behind the last slash are one sample, what follows the dot names its field. gather.c reads the
 * archives once, index.c makes the index of it, tar.c reads samples, windows.c those of packed
 * shards. */
#ifndef ULL_DATA_TAR_TAR_H
#define ULL_DATA_TAR_TAR_H

#include "base/hash_map.h"
#include "base/vector.h"
#include "data/index_file.h"
#include "data/npy.h"
#include "data/pattern.h"
#include "data/source.h"
#include "data/tar/stream.h"

enum { ULL__TAR_VERSION = 3, ULL__TAR_ARRAYS = 16, ULL__TAR_ARRAY_NAME = 64 };

/* Sections and numbers of the index. */
enum {
  ULL__TAR_SHARDS,
  ULL__TAR_SAMPLES, /* ull__tar_sample and a slot for each array but the label, one a sample */
  ULL__TAR_LABELS,  /* int64, one a sample, where there are labels */
  ULL__TAR_ARRAY_TABLE,
  ULL__TAR_TEXTS,
  ULL__TAR_WINDOWS, /* of packed shards */
  ULL__TAR_CLASSES, /* uint32 in the texts, where classes are folders */
};
enum {
  ULL__TAR_INCOMPLETE,     /* samples left out */
  ULL__TAR_INCOMPLETE_KEY, /* the first of them, in the texts */
  ULL__TAR_REGROUPED,      /* members found away from the rest of their sample */
  ULL__TAR_CUT_COUNT,      /* shards that end early */
  ULL__TAR_CUT_SHARD,      /* the first of them */
  ULL__TAR_CUT_AT,         /* where */
  ULL__TAR_UNREAD,         /* fields that are not read, in the texts */
  ULL__TAR_PACKED,         /* 1: read through windows */
  ULL__TAR_DOUBLED,        /* members that another one of the sample stands in for */
  ULL__TAR_DOUBLED_NAMES,  /* the first such two, in the texts */
};

typedef struct ull__tar_shard {
  ull__stamp stamp;
  uint32_t path; /* in the texts */
  uint32_t packing;
  uint64_t first_sample;
} ull__tar_shard;

typedef struct ull__tar_slot {
  uint32_t block; /* of the content, in the (unpacked) archive */
  uint32_t bytes;
  uint32_t field; /* what follows the key in the member's name, in the texts */
} ull__tar_slot;

typedef struct ull__tar_sample {
  uint32_t shard;
  uint32_t key; /* in the texts */
} ull__tar_sample;

typedef struct ull__tar_window {
  uint64_t first_sample, samples;
  uint64_t begin, bytes; /* in the unpacked archive */
  uint64_t shard;
} ull__tar_window;

typedef struct ull__tar_array {
  char name[ULL__TAR_ARRAY_NAME];
  uint32_t content; /* ull_array_content */
  uint32_t dtype;   /* of elements, which lie in an NPY member */
  int64_t rank;
  int64_t shape[ULL_DATA_MAX_RANK];
} ull__tar_array;

/* ---- gathering ---- */

typedef struct ull__tar_field {
  char name[ULL__TAR_ARRAY_NAME];
  uint32_t text; /* the name, in the texts */
  int array;     /* of `arrays`, or one of these */
  uint64_t samples;
} ull__tar_field;

enum { ULL__FIELD_CLS = -1, ULL__FIELD_JSON = -2, ULL__FIELD_UNREAD = -3 };

typedef struct ull__tar_group {
  uint32_t shard, key;
  bool has_label, complete;
  int64_t label;
} ull__tar_group;

typedef struct ull__tar_part {
  uint32_t group;
  uint32_t array;
  ull__tar_slot slot;
} ull__tar_part;

typedef struct ull__tar_gather {
  const char *what; /* the source's text, for messages */
  ULL__VECTOR(ull__tar_shard) shards;
  ULL__VECTOR(ull__tar_group) groups;
  ULL__VECTOR(ull__tar_part) parts;
  ull__index_texts texts;
  ULL__VECTOR(ull__tar_field) fields;
  ull__text_map field_numbers;
  ull__tar_array arrays[ULL__TAR_ARRAYS];
  uint64_t array_samples[ULL__TAR_ARRAYS];
  int array_count;
  uint64_t labels, regrouped, cut_count, cut_shard, cut_at;
  bool packed;
} ull__tar_gather;

/* Reads the headers of all shards. */
ull_status ull__tar_gather_shards(ull__tar_gather *gather, const ull__paths *paths);
void ull__tar_gather_free(ull__tar_gather *gather);
ull_status ull__tar_gather_text(ull__tar_gather *gather, const char *text, uint32_t *at);

/* The array that a field fills, with its name and content; ULL__FIELD_... for others. */
int ull__tar_field_content(const char *field, char name[ULL__TAR_ARRAY_NAME], uint32_t *content);

/* Whole number in ASCII between spaces. */
bool ull__tar_parse_integer(const char *text, size_t bytes, int64_t *out);

/* Makes the index of what was gathered. */
ull_status ull__tar_index(ull_source *source, const ull_source_options *options,
                          ull__tar_gather *gather, uint64_t window_bytes, const char *place,
                          ull__index *index);

/* ---- windows of packed shards ---- */

typedef struct ull__tar_windows ull__tar_windows;

/* Two buffers of the largest window and the state of one decompressor, counted as resident. `index`
 * is borrowed. */
ull_status ull__tar_windows_create(ull_source *source, const ull_source_options *options,
                                   const ull__index *index, ull__tar_windows **out);
void ull__tar_windows_destroy(ull__tar_windows *windows); /* NULL is allowed */

/* The window of a stored sample, loaded, held until ull__tar_window_release. Waits while both
 * buffers are in use: a thread holds one at a time, or two of the same window. `*bytes` less than
 * the window's where the shard has become shorter. */
ull_status ull__tar_window_hold(ull__tar_windows *windows, uint64_t stored, void **hold,
                                const ull__tar_window **window, const uint8_t **memory,
                                uint64_t *bytes);
void ull__tar_window_release(ull__tar_windows *windows, void *hold);

/* Shards in keyed order, the windows of a shard one after the other, the samples of a window in
 * keyed order. */
uint64_t ull__tar_windows_order(ull__tar_windows *windows, uint64_t key, uint64_t position);

#endif
