/* Sources: numbered sets of samples that all have the same named arrays (an image and its label, or
 * tokens and targets). docs/data.md says what each kind reads; ullage/data.h what becomes of it. */
#ifndef ULLAGE_SOURCE_H
#define ULLAGE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ullage/dtype.h"
#include "ullage/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ULL_DATA_MAX_RANK 7    /* dimensions of one sample's array, the batch not counted */
#define ULL_DATA_MAX_ARRAYS 64 /* arrays of a source, and bindings of a loader */
#define ULL_DATA_MAX_CHANNELS 16
#define ULL_DATA_MAX_BUCKETS 8 /* lengths that the samples of one source may have */

typedef struct ull_source ull_source;

typedef enum ull_split { ULL_SPLIT_TRAIN, ULL_SPLIT_EVAL } ull_split;

typedef enum ull_array_role {
  ULL_ARRAY_INPUT,
  ULL_ARRAY_TARGET, /* "target", "label" or "labels" */
} ull_array_role;

/* What was found out about one sample: its file, as far as the sample needed it. */
typedef enum ull_verdict {
  ULL_VERDICT_OK,
  ULL_VERDICT_REPAIRED,     /* usable; a rule was applied: orientation, CMYK, sniffed format */
  ULL_VERDICT_WARNED,       /* usable; something outside the pixels is wrong */
  ULL_VERDICT_DAMAGED,      /* decoded, but part of the content is lost */
  ULL_VERDICT_TRUNCATED,    /* the file ends early */
  ULL_VERDICT_UNSUPPORTED,  /* a form of picture that is not read: lossless, 12 bits, ... */
  ULL_VERDICT_NOT_AN_IMAGE, /* something else */
  ULL_VERDICT_EMPTY,        /* no bytes */
  ULL_VERDICT_TOO_BIG,      /* beyond the limit of pixels, or of memory for one picture */
  ULL_VERDICT_UNREADABLE,   /* missing, no permission, a failing disk */
  ULL_VERDICT_COUNT
} ull_verdict;

/* "ok", "repaired", "warned", "damaged", "truncated", "unsupported", "not_an_image", "empty",
 * "too_big", "unreadable"; never NULL. */
const char *ull_verdict_name(ull_verdict verdict);

/* Whether --on-bad applies: everything from damaged on. */
bool ull_verdict_is_bad(ull_verdict verdict);

/* How the elements of an array are kept. */
typedef enum ull_array_content {
  ULL_CONTENT_ELEMENTS, /* as they are, in the same shape for every sample */
  ULL_CONTENT_IMAGE,    /* an encoded picture of any size: [3, H, W] or [1, H, W] uint8, where the
                           binding chooses channels, H and W */
  ULL_CONTENT_MASK,     /* an encoded picture of class numbers, [H, W] uint8, which follows the
                           geometry of the sample's image */
} ull_array_content;

/* One array of every sample. The shape is one sample's, without the batch; of a picture or a mask,
 * extents that the binding chooses are 0, and so is sample_bytes. */
typedef struct ull_array_info {
  const char *name; /* borrowed until the source is closed */
  ull_dtype dtype;
  ull_array_role role;
  ull_array_content content;
  bool image; /* the shape is [channels, height, width], so that crop and flip mean something */
  int rank;
  int64_t shape[ULL_DATA_MAX_RANK];
  uint64_t sample_bytes;
  bool has_range; /* integers: every element lies in [minimum, maximum], which the source looks at
                     whenever it reads a sample, or is `ignored` */
  int64_t minimum, maximum;
  bool has_ignored; /* `ignored` stands where there is no target: the loss leaves it out */
  int64_t ignored;
} ull_array_info;

/* One array of the `synthetic` source. Floating point: standard normal. Integers and bool: uniform
 * in [minimum, maximum]. */
typedef struct ull_synthetic_array {
  const char *name;
  ull_dtype dtype;
  ull_array_role role;
  int rank;
  int64_t shape[ULL_DATA_MAX_RANK];
  int64_t minimum, maximum;
} ull_synthetic_array;

typedef struct ull_source_options {
  ull_split split;
  double val_split; /* above 0: this part of the training samples, chosen by a fixed permutation, is
                       held out: ULL_SPLIT_EVAL is that part, ULL_SPLIT_TRAIN the rest */
  uint64_t seed;    /* of `synthetic` */
  uint64_t resident_limit_bytes; /* refuse what would hold more in memory; 0 = no limit */
  bool verify; /* read everything once at open and compare checksums where the format has them */
  const ull_synthetic_array *synthetic; /* borrowed for the call; needed by `synthetic` alone */
  size_t synthetic_count;
  uint64_t synthetic_samples; /* usually the batch size: one fixed batch */
  int64_t sequence;           /* tokens of a sample of `text` and `tokens`; 0 = what SRC says */
  bool pack;                  /* join short documents into full sequences, as pack=1 in SRC does */
  const char *tokenizer; /* `text`: "bytes" or the path of a tokenizer.json; NULL = what SRC says,
                            else bytes; borrowed for the call */
  const char *buckets;   /* instead of `pack`: "4", that many lengths of sequences, chosen so that
                            least is filled up, or "64,128", the lengths themselves; what buckets= in
                            SRC says. NULL = none; borrowed for the call */
} ull_source_options;

/* Training split, no held out part, no limit, verification on. */
ull_source_options ull_source_options_default(void);

/* Opens SRC (docs/data.md has all of it):
 *
 * A folder. Its sub-folders are classes, numbered in the order of their names' bytes, all pictures
 * below them their samples: arrays `image` and `label` int64. `train/` and `val/` (or `valid/`,
 * `validation/`, `test/`) divide it where present; classes of `val/` are numbered as those of
 * `train/`. `images/` beside `masks/` are pairs of the same name: arrays `image` and `mask`. With
 * pictures alone there is `image` and nothing else. Nothing but names is read before it is needed.
 *
 * `tar:PATTERN`: shards in the manner of WebDataset, plain or packed (gzip, zstd): `image`, `mask`
 * and others by the names of their fields, `label` int64. `csv:FILE`, `tsv:FILE`: a list of
 * pictures (`image`, `mask` or `label` int64), or a table (`features` float32 [n], `categories`
 * int64 [m], `label` int64 or `target` float32); `parquet:PATTERN`: the same from Parquet, or
 * pictures that it holds, where its module is. `cifar:DIR`: `image` [3, 32, 32] uint8 and `label`
 * uint8. `text:FILE`, `tokens:FILE`: int64 [N] `input_ids`, `target`, `positions`, `documents`.
 * Options follow behind a question mark: "csv:FILE?target=clicked&hash=1000".
 *
 * `idx:DIR` (train-* for training, t10k-* for evaluation; plain or .gz; arrays `image` [1, H, W]
 * uint8 and `label` uint8), `npz:FILE`, `npy:DIR` (arrays with a common first dimension, C order,
 * little endian float16/32/64, uint8, int32, int64, bool), `callback:NAME` (data_callback.h),
 * `synthetic`. The source is the caller's; close it after every loader over it.
 *
 * ULL_ERROR_USAGE: no such kind of source. ULL_ERROR_DATA: missing, truncated, damaged or
 * contradictory files; the record names the file and what to do. ULL_ERROR_UNSUPPORTED: a layout or
 * dtype that Ullage does not read. ULL_ERROR_IO, ULL_ERROR_OUT_OF_MEMORY, ULL_ERROR_DOES_NOT_FIT
 * (resident_limit_bytes). */
ull_status ull_source_open(const char *text, const ull_source_options *options, ull_source **out);

/* NULL is allowed. */
void ull_source_close(ull_source *source);

uint64_t ull_source_sample_count(const ull_source *source);
size_t ull_source_array_count(const ull_source *source);

/* Borrowed until close. `array` < ull_source_array_count. */
const ull_array_info *ull_source_array(const ull_source *source, size_t array);

/* The samples of one length: a run of the source's. */
typedef struct ull_bucket {
  int64_t length; /* tokens: the first extent of every array of these samples */
  uint64_t first, samples;
} ull_bucket;

/* How many lengths the samples have; 0 where all have one shape, as those of most sources. With
 * buckets, every array has the length as its first extent, and ull_array_info describes the longest
 * one. Batches hold samples of one bucket. */
size_t ull_source_bucket_count(const ull_source *source);

/* Ascending lengths, one run behind the other, none empty. `bucket` < ull_source_bucket_count;
 * borrowed until close. */
const ull_bucket *ull_source_bucket(const ull_source *source, size_t bucket);

/* All lengths that documents were sorted by, those of empty buckets among them, as `buckets` of the
 * options takes them: for another source that is to have the same. "" without buckets. Borrowed
 * until close. */
const char *ull_source_bucket_lengths(const ull_source *source);

/* Index of the array of that name, or -1. */
int ull_source_find_array(const ull_source *source, const char *name);

/* The array that fills the model's input or target `name`: the one called `wanted` where that is
 * not NULL, else the one of the same name, else the only one of that role. ULL_ERROR_MISMATCH lists
 * what there is. */
ull_status ull_source_choose_array(const ull_source *source, const char *name, ull_array_role role,
                                   const char *wanted, size_t *array);

/* The SRC text it was opened with. */
const char *ull_source_text(const ull_source *source);

/* What a person should know about how samples were made, in a line ("12 documents packed into 3
 * sequences of 64, 1.2 % padding"); "" where there is nothing. Borrowed until close. */
const char *ull_source_note(const ull_source *source);

/* Bytes that the source holds in memory for as long as it is open (what had to be decompressed, and
 * its tables). */
uint64_t ull_source_resident_bytes(const ull_source *source);

/* Samples come in one order always: `synthetic` is one fixed batch, which is neither shuffled nor
 * augmented. */
bool ull_source_is_fixed(const ull_source *source);

/* Whether the same text opens other samples with ULL_SPLIT_EVAL, without val_split. */
bool ull_source_has_evaluation(const ull_source *source);

/* Classes that have names (folders, names in a CSV); 0 where labels are numbers alone. */
uint64_t ull_source_class_count(const ull_source *source);

/* The name of a class, or its number where it has none. Any bytes but 0. Returns `buffer`. */
const char *ull_source_class_name(const ull_source *source, uint64_t number, char *buffer,
                                  size_t buffer_bytes);

/* ULL_ERROR_MISMATCH where both have classes with names and a number of `evaluation` means another
 * class to `training`, or none: figures would be wrong in silence. */
ull_status ull_source_check_classes(const ull_source *training, const ull_source *evaluation);

/* Copies one array of one sample to `bytes` (at least sample_bytes, of which a sample of a shorter
 * bucket takes the first) and says what the sample is like; `verdict` may be NULL. Thread safe. A
 * failure has its verdict as well. */
ull_status ull_source_read(const ull_source *source, uint64_t sample, size_t array, void *bytes,
                           ull_verdict *verdict);

/* Smallest and largest element of an integer or bool array over all samples of the files; of hashed
 * columns of a table, what their buckets allow. Reads everything once where the source does not
 * know. */
ull_status ull_source_range(const ull_source *source, size_t array, int64_t *minimum,
                            int64_t *maximum);

/* ULL_ERROR_DATA naming the first sample with an element outside [minimum, maximum]. Reads
 * everything once. */
ull_status ull_source_check_range(const ull_source *source, size_t array, int64_t minimum,
                                  int64_t maximum);

/* The path, or another name that a person recognises, of a sample. Returns `buffer`. */
const char *ull_source_sample_name(const ull_source *source, uint64_t sample, char *buffer,
                                   size_t buffer_bytes);

#ifdef __cplusplus
}
#endif
#endif
