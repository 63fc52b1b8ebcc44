/* What a kind of source provides, and what all of them share. A new kind is a file with one
 * ull__source_kind and a line in the table of source.c. */
#ifndef ULL_DATA_SOURCE_H
#define ULL_DATA_SOURCE_H

#include "base/permutation.h"
#include "data/record.h"
#include "ullage/data.h"

typedef struct ull__source_kind {
  const char *scheme;   /* in front of the colon */
  const char *argument; /* what follows it, for help texts; NULL where nothing does */

  /* Fills arrays (ull__source_add_array), stored_count, resident_bytes, state. On failure `close`
   * is still called. */
  ull_status (*open)(ull_source *source, const char *argument, const ull_source_options *options);

  /* Copies one array of `count` samples as stored, from `first` on, without gaps. Thread safe. */
  ull_status (*read)(const ull_source *source, uint64_t first, uint64_t count, size_t array,
                     void *bytes);

  /* Where the encoded bytes of one stored sample's array are, for arrays whose content is not
   * elements; NULL where there are none. A thread holds the records of one sample at a time: more
   * may wait for ever where memory for them is bounded. Opens what has to be open; `record->path`
   * is filled in any case. Thread safe. ULL_ERROR_IO or ULL_ERROR_DATA name the file. */
  ull_status (*open_record)(const ull_source *source, uint64_t stored, size_t array,
                            ull__record *record);

  /* Gives back what open_record took beside the descriptor; NULL: nothing. */
  void (*close_record)(const ull_source *source, ull__record *record);

  /* The path, or another name that a person recognises, of a stored sample; NULL: its number. */
  void (*name_sample)(const ull_source *source, uint64_t stored, char *buffer, size_t bytes);

  /* The name of a class < class_count; NULL: classes have numbers alone. */
  void (*name_class)(const ull_source *source, uint64_t number, char *buffer, size_t bytes);

  /* The stored sample at a position of an epoch's order, for kinds that cannot reach every sample
   * at the same price (compressed archives); NULL: a permutation of all. `key` is the epoch's. */
  uint64_t (*order)(const ull_source *source, uint64_t key, uint64_t position);

  /* Statistics come from the training split, which the same text opens, whatever the split. */
  bool training_decides;

  void (*close)(ull_source *source); /* of `state`, which may be NULL */
} ull__source_kind;

/* Stored samples of one length, and which of them this split has. */
typedef struct ull__bucket {
  ull_bucket split;
  uint64_t stored_first, stored_samples;
  uint64_t held_first; /* with a held out part: sample i is held_order(held_first + i) */
  ull__permutation held_order;
} ull__bucket;

struct ull_source {
  const ull__source_kind *kind;
  char *text;
  ull_split split;
  uint64_t stored_count; /* in the files */
  uint64_t count;        /* of this split */
  uint64_t held_first;   /* with a held out part: sample i is held_order(held_first + i) */
  bool has_held_order;
  ull__permutation held_order;
  bool fixed;
  bool has_evaluation;  /* the text names a part for evaluation beside that for training */
  uint64_t class_count; /* that have names; 0 where none have */
  size_t array_count;
  ull_array_info arrays[ULL_DATA_MAX_ARRAYS];
  char *names[ULL_DATA_MAX_ARRAYS]; /* owned; arrays[i].name */
  size_t bucket_count;              /* 0: all samples have one shape */
  ull__bucket buckets[ULL_DATA_MAX_BUCKETS];
  char bucket_lengths[96];
  uint64_t resident_bytes;
  char note[192]; /* for ull_source_note */
  void *state;
};

/* Every array has one shape for all samples, and plan and loader count on it, but for kinds that
 * state buckets of lengths: for each a contiguous run of stored samples, whose arrays have its
 * length as their first extent; `arrays` describes the longest, and the ranges of elements are
 * stated. The longest one bounds every slot, an epoch's order deals batches of one bucket, and the
 * plan's family has a program for each. */

/* Appends a bucket behind the stored samples of the earlier ones; nothing where it is empty.
 * Lengths ascend. */
void ull__source_add_bucket(ull_source *source, int64_t length, uint64_t samples);

/* Appends an array; role follows from the name. Checks rank, extents and size, and that the name is
 * new. */
ull_status ull__source_add_array(ull_source *source, const char *name, ull_dtype dtype, int rank,
                                 const int64_t *shape);

/* Appends an array of pictures ([3, 0, 0]) or masks ([0, 0]; a target): extents are the binding's.
 */
ull_status ull__source_add_encoded(ull_source *source, const char *name, ull_array_content content);

/* Adds to resident_bytes, refusing what passes the limit. */
ull_status ull__source_hold(ull_source *source, const ull_source_options *options, const char *path,
                            uint64_t bytes);

/* Refuses a text that names no source, with what was probably meant; `list`: what there is. */
ull_status ull__source_refuse(const char *text, const char *list);

/* Length of the split's sample; 0 without buckets. */
int64_t ull__source_sample_length(const ull_source *source, uint64_t sample);

/* Bytes of an array of a sample of that length, as ull_bucket has it; 0: of all. */
uint64_t ull__source_bytes_of_length(const ull_source *source, size_t array, int64_t length);

/* The files' number of the split's sample. */
uint64_t ull__source_stored_index(const ull_source *source, uint64_t sample);

/* Ends what open_record began, the source's part and the record's. */
void ull__source_close_record(const ull_source *source, ull__record *record);

/* Calls `visit` with runs of consecutive stored samples of one array, in order, until it fails. */
typedef ull_status (*ull__visit_samples)(void *context, uint64_t first, uint64_t count,
                                         const void *bytes);
ull_status ull__source_scan(const ull_source *source, size_t array, ull__visit_samples visit,
                            void *context);

/* ---- of source_buckets.c, for source.c ---- */

uint64_t ull__bucket_stored_index(const ull_source *source, uint64_t sample);

/* Holds a part of every bucket out, by a permutation of `key`; returns the split's samples. */
uint64_t ull__buckets_hold_out(ull_source *source, double part, uint64_t key);

/* Compares every element of a binding's array with its range, where it has one. */
ull_status ull__source_check_binding(const ull_source *source, const ull_binding *binding);

extern const ull__source_kind ull__source_idx;
extern const ull__source_kind ull__source_npz;
extern const ull__source_kind ull__source_npy;
extern const ull__source_kind ull__source_synthetic;
extern const ull__source_kind ull__source_callback;
extern const ull__source_kind ull__source_of_text;
extern const ull__source_kind ull__source_of_tokens;
extern const ull__source_kind ull__source_cifar;
extern const ull__source_kind ull__source_csv;
extern const ull__source_kind ull__source_tsv;
extern const ull__source_kind ull__source_parquet;
extern const ull__source_kind ull__source_tar;
extern const ull__source_kind ull__source_tar_packed; /* what the former becomes where it must */
extern const ull__source_kind ull__source_folder;     /* its scheme is empty: a plain path */

/* What `auto` came to, for images of that many channels: the average of three for one. */
void ull__normalize_suit(ull_normalize *normalize, int64_t channels);

#endif
