/* Data: where samples come from, and how batches of them reach the trainer.
 *
 * A **source** is an indexed set of samples; every sample has the same named arrays (an image and
 * its label, or tokens and targets). A **loader** turns a source into a stream of batches: named
 * arrays shaped and typed as the model wants them, in an order and with augmentations that depend
 * on (seed, epoch, sample) alone, never on threads, ring depth or resume. Memory is known to the
 * byte before a loader exists and never grows.
 *
 *     ull_source_options source_options = ull_source_options_default();
 *     ull_source *source;
 *     ull_status status = ull_source_open("idx:/usr/share/mnist", &source_options, &source);
 *     ...
 *     ull_loader_options options = ull_loader_options_default(source);
 *     options.bindings = bindings;   options.binding_count = 2;   options.batch_size = 64;
 *     status = ull_loader_create(&options, &loader);
 *     const ull_batch *batch;
 *     while ((status = ull_loader_next(loader, &batch)) == ULL_OK && batch) {
 *       train_on(batch->arrays, batch->samples);
 *       ull_loader_release(loader, batch);
 *     }
 *     ull_loader_destroy(loader);
 *     ull_source_close(source);
 *
 * Threads, not processes. Nothing here polls or sleeps.
 */
#ifndef ULLAGE_DATA_H
#define ULLAGE_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ullage/dtype.h"
#include "ullage/source.h"
#include "ullage/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Normalisation and augmentation --------------------------------------------------------- */

/* out = (in * scale - mean[c]) / deviation[c], in float64 rounded to one multiplication and one
 * addition in float32. */
typedef struct ull_normalize {
  bool active; /* false: elements are converted and nothing else */
  bool automatic;
  int channels; /* 1 = the same for all */
  double scale; /* 1/255 for uint8, else 1 */
  double mean[ULL_DATA_MAX_CHANNELS];
  double deviation[ULL_DATA_MAX_CHANNELS];
} ull_normalize;

/* `auto`, `none` or `MEAN:STD`, each a number or a comma list with one number per channel, for
 * images scaled to [0, 1]. `auto`: uint8 images are scaled to [0, 1] and standardised with the mean
 * and deviation per channel of the training files (for `idx:` also when `source` is the evaluation
 * split); pictures of any size with ImageNet's, 0.485,0.456,0.406:0.229,0.224,0.225, since theirs
 * would take decoding everything; anything else is left alone. */
ull_status ull_normalize_parse(const char *text, const ull_source *source, size_t array,
                               ull_normalize *out);

/* One line for the header of a run: "x/255, mean 0.2860, std 0.3530 (auto)". Returns `buffer`. */
const char *ull_normalize_describe(const ull_normalize *normalize, char *buffer,
                                   size_t buffer_bytes);

typedef enum ull_padding { ULL_PADDING_ZERO, ULL_PADDING_REFLECT } ull_padding;

/* How an encoded picture of any size becomes [H, W]. */
typedef enum ull_framing {
  ULL_FRAMING_UNSET,       /* centre crop; with crop_pixels: stretch */
  ULL_FRAMING_STRETCH,     /* resized to W x H, whatever its ratio of sides */
  ULL_FRAMING_CENTRE_CROP, /* the short side becomes resize_side pixels, the middle is shown; where
                              that is smaller than W x H, zeros surround it */
  ULL_FRAMING_RANDOM_CROP, /* a window of random place, area (area_min to area_max of the picture's)
                              and ratio of sides (3/4 to 4/3), resized to W x H */
} ull_framing;

/* Random changes of training images. Each is drawn from (seed, epoch, sample) alone. Whatever the
 * order in which they were asked for, they are applied in this one:
 *
 *     framing, crop, flips   arrays with `image` set, and pictures; masks follow
 *     rotation               pictures; masks follow
 *     colour jitter, grayscale, RandAugment          pictures, on uint8 before normalisation
 *     normalisation
 *     erasing                pictures, after normalisation
 *     mixup or cutmix        the batch
 *
 * Definitions and rounding are torchvision's (RandomResizedCrop, RandomRotation, ColorJitter,
 * RandomGrayscale, RandAugment, RandomErasing) with Pillow's arithmetic. All zero: nothing. */
typedef struct ull_augment {
  int crop_pixels; /* a window of the image's own size at a random offset in the image padded by so
                      many pixels on each side; 0 = no crop */
  ull_padding padding;
  bool flip;          /* mirrored from left to right in half of the cases */
  bool flip_vertical; /* mirrored from top to bottom in half of the cases */
  ull_framing framing;
  double area_min, area_max; /* of the random crop */
  int resize_side;           /* of the centre crop, pixels; 0: larger of W and H * 256 / 224 */
  double rotate_degrees;     /* turned by up to so much either way; zeros come in */
  double brightness, contrast, saturation; /* factors from [max(0, 1 - x), 1 + x] */
  double hue;                              /* moved by up to so much of a full turn; at most 0.5 */
  double grayscale_probability;
  int operations;           /* of RandAugment, each of 14 drawn at random; 0 = none */
  int magnitude;            /* of RandAugment, 0 to 30 */
  double erase_probability; /* a rectangle of 2 to 33 % of the area becomes 0 */
  double mixup_alpha;       /* lambda from Beta(alpha, alpha); 0 = off */
  double cutmix_alpha;      /* where both are on, half of the batches get either */
} ull_augment;

/* `none`, or a comma list of
 *
 *     crop, crop:PIXELS, crop:PIXELS:zero|reflect        4 zeros by default
 *     flip, vflip
 *     random-resized-crop, random-resized-crop:MIN-MAX   0.08-1 by default; short: rrc
 *     resize, resize:SIDE                                and centre crop
 *     stretch
 *     rotate:DEGREES
 *     color-jitter:BRIGHTNESS:CONTRAST:SATURATION:HUE    what is left out at the end is 0
 *     grayscale, grayscale:PROBABILITY                   0.1 by default
 *     randaugment, randaugment:N:MAGNITUDE               2 and 9 by default
 *     erase, erase:PROBABILITY                           0.5 by default
 *     mixup, mixup:ALPHA                                 0.2 by default
 *     cutmix, cutmix:ALPHA                               1 by default
 *
 * ULL_ERROR_USAGE: anything else, or two framings that contradict each other. */
ull_status ull_augment_parse(const char *text, ull_augment *out);

/* "crop 4 (zero), flip" or "none". Returns `buffer`; 256 bytes hold every text. */
const char *ull_augment_describe(const ull_augment *augment, char *buffer, size_t buffer_bytes);

/* What a folder of photographs gets where nothing was asked: random resized crop and flip for
 * training, resize and centre crop for evaluation. */
ull_augment ull_augment_default_for_photos(bool training);

/* ---- Loader ---------------------------------------------------------------------------------- */

typedef struct ull_loader ull_loader;

/* One array of a batch: which array of the source fills it, and as what.
 *
 * A picture becomes [channels, height, width], or [height, width, channels] where `channels_last`:
 * 1 channel (grey) or 3 (red, green, blue), of float32, float16, bfloat16 or uint8. A mask becomes
 * [height, width] of uint8, int32 or int64, with the geometry of the sample's picture. A class
 * number (a target of one integer) bound as [classes] of float32 becomes shares of classes: 1 at
 * its class, or what mixup and cutmix make of it. */
typedef struct ull_binding {
  const char *name; /* as the model calls it; borrowed until the loader is destroyed */
  size_t array;     /* of the source */
  ull_dtype dtype;  /* integers widen and narrow (checked); integers and floats become floats */
  int rank; /* shape of one sample as the model wants it: as many elements as the source's */
  int64_t shape[ULL_DATA_MAX_RANK];
  ull_normalize normalize;
  bool has_range; /* integers: every element must lie in [minimum, maximum]; checked when the loader
                     is created */
  int64_t minimum, maximum;
  bool has_ignored; /* `ignored` may stand there too: a target that the loss leaves out */
  int64_t ignored;
  bool channels_last; /* of a picture */
} ull_binding;

/* The binding that takes an array as it is, under its own name. Of a picture: [3, 224, 224] and of
 * a mask [224, 224], uint8. */
ull_binding ull_binding_default(const ull_source *source, size_t array);

typedef enum ull_on_bad {
  ULL_ON_BAD_FAIL,    /* the batch with the bad sample is an error */
  ULL_ON_BAD_REPLACE, /* the next good sample in the epoch's order takes its place */
  ULL_ON_BAD_SKIP,    /* it is left out: its batch is smaller, and may be empty; but see refill */
} ull_on_bad;

/* max_bad: a tenth of the samples so far, and 100 at least. */
#define ULL_MAX_BAD_SHARE UINT64_MAX

/* standby: none. */
#define ULL_STANDBY_NONE (-1)

typedef struct ull_loader_options {
  const ull_source *source;    /* borrowed until the loader is destroyed */
  const ull_binding *bindings; /* borrowed for the call, but see name */
  size_t binding_count;
  uint64_t batch_size; /* of this rank */
  int workers;         /* threads; 0 = batches are filled by ull_loader_next */
  int prefetch;        /* slots of the ring, at least 1: one slot holds one batch */
  uint64_t seed;
  bool shuffle;
  bool drop_last;  /* false: the last batch of an epoch, of every bucket, may be smaller */
  uint64_t epochs; /* 0 = no end */
  ull_augment augment;
  ull_on_bad on_bad;
  uint64_t max_bad; /* more bad samples (replaced or left out) are an error, or ULL_MAX_BAD_SHARE */

  /* One block of ull_loader_bound_bytes bytes at 64-byte alignment for everything the loader ever
   * uses: from `memory` where that is set (at least so many bytes, the caller's until destroy),
   * else from `allocate`, else from the heap. */
  void *memory;
  uint64_t memory_bytes;
  void *(*allocate)(void *context, uint64_t bytes, uint64_t alignment);
  void (*deallocate)(void *context, void *memory, uint64_t bytes);
  void *context;
  bool
      ordinary_memory; /* what `memory` or `allocate` gives is private and anonymous, neither pinned
                          nor shared, as the heap's is: where libwebp holds bytes on the heap, as
                          many of the region for large pictures go back to the system meanwhile */

  /* Of `world_size` processes that share the stream this is number `rank`: a global batch is
   * batch_size * world_size samples and `rank` gets its contiguous part. Every rank has equally
   * many batches; of a last, short global batch the parts differ by one sample at most, and may be
   * empty. 0 and 1 = alone. */
  uint64_t rank, world_size;

  /* Threads that take work only while others are held up (a slow disk, a sample that takes long).
   * 0 = as many as suit the source; ULL_STANDBY_NONE. They count in memory like workers. */
  int standby;

  /* Memory for pictures. thread_bytes: of each thread, for ordinary ones; 0 = 1 MiB. large_bytes:
   * one region for those that need more (progressive, interlaced, very wide), which one thread at a
   * time uses; what needs more than this is ULL_VERDICT_TOO_BIG; 0 = 32 MiB. max_pixels: beyond it
   * a picture is ULL_VERDICT_TOO_BIG whatever it needs; 0 = 2^28. */
  uint64_t thread_bytes, large_bytes, max_pixels;

  /* Let no more workers run than the pace of ull_loader_next needs, as measured. Never changes the
   * stream. */
  bool adaptive;

  /* With ULL_ON_BAD_SKIP: batches keep their size. What was left out is made up for by the samples
   * that follow, so that an epoch has as many batches as its good samples make, the last one
   * smaller; where nothing is bad the stream is that of the other rules. Batches begin at any
   * position: their numbers rise, but not by one each time, and ull_loader_set_position counts as
   * if nothing was bad; a state is exact. ull_loader_wait waits for the first slot of a batch
   * alone. Takes two slots at least, and world_size 1: ranks would have different numbers of
   * batches, which none of them could know beforehand. */
  bool refill;
} ull_loader_options;

/* Two workers, four slots, batches of 64, shuffled, ragged last batch, endless, no augmentation,
 * bad samples fail. */
ull_loader_options ull_loader_options_default(const ull_source *source);

/* What a loader with these options takes, before it exists. */
typedef struct ull_loader_bound {
  uint64_t slot_bytes;    /* one batch: its arrays, sample numbers and verdicts */
  uint64_t scratch_bytes; /* of one thread */
  uint64_t control_bytes; /* bookkeeping; at most 32 KiB of it are places where samples were bad,
                             remembered where they are replaced */
  uint64_t total_bytes;   /* the block: prefetch slots + scratch of every filling thread + large
                             region + control */
  uint64_t source_bytes;  /* beside it, held by the source: ull_source_resident_bytes */
  uint64_t large_bytes;   /* the region for large pictures; 0 where there are no pictures */
  uint64_t threads;       /* that fill: workers and those standing by, or the caller's */
  uint64_t slots;
  uint64_t reader_bytes; /* beside the block, on the heap: the picture decoders of all threads */
} ull_loader_bound;

ull_status ull_loader_bound_bytes(const ull_loader_options *options, ull_loader_bound *out);

/* All of it: block, decoders and source. */
uint64_t ull_loader_bound_total(const ull_loader_bound *bound);

/* "3 slots of 73.5 MiB + 4 threads of 1.1 MiB + 32.0 MiB for large pictures + ...". Returns
 * `buffer`. */
const char *ull_loader_bound_describe(const ull_loader_bound *bound, char *buffer,
                                      size_t buffer_bytes);

/* Makes the block and the decoders fit into budget_bytes: a quarter of it is the region for large
 * pictures, whatever the number of threads; then lowers `prefetch` to 2, memory and number of
 * threads as far as needed. ULL_ERROR_DOES_NOT_FIT with the smallest budget that would do where two
 * slots and one worker are too much; the options are then unchanged. */
ull_status ull_loader_fit(ull_loader_options *options, uint64_t budget_bytes);

/* Workers and slots that suit source, batch size and usable cores, where the user said nothing. */
int ull_loader_suggest_workers(const ull_source *source);
int ull_loader_suggest_prefetch(const ull_source *source, uint64_t batch_size);

/* One array of a delivered batch: [samples, shape...] contiguous, at 64-byte alignment. */
typedef struct ull_batch_array {
  const char *name;
  ull_dtype dtype;
  int rank; /* with the batch */
  int64_t shape[ULL_DATA_MAX_RANK + 1];
  void *data;
  uint64_t bytes; /* of `samples` samples */
} ull_batch_array;

/* A batch on loan. All of it is borrowed until ull_loader_release. */
typedef struct ull_batch {
  const ull_batch_array *arrays; /* in the order of the bindings */
  size_t array_count;
  uint64_t samples;             /* batch_size; fewer in a last batch, or where some were skipped */
  uint64_t epoch;               /* from 0 */
  uint64_t batch;               /* within the epoch, from 0 */
  uint64_t step;                /* epoch * batches per epoch + batch */
  const uint64_t *sample_index; /* [samples] of the source */
  const uint8_t *verdict;       /* [samples] ull_verdict of the sample that was asked for first */
  uint64_t replaced;            /* samples of this batch that stand in for bad ones */
  uint64_t wait_ns;             /* how long ull_loader_next waited for it */
  const uint8_t *used_verdict;  /* [samples] ull_verdict of the sample that is there */
  uint64_t skipped;             /* bad samples left out of this batch */

  /* Mixup and cutmix: sample i is mix_lambda of itself and the rest of sample
   * (i + mix_distance) % samples. Labels bound as shares of classes have been mixed too; class
   * numbers have not. 1 and 0 where nothing is mixed. */
  double mix_lambda;
  uint64_t mix_distance;

  /* First extent of a sample in every array, where the source has buckets (source.h); 0 elsewhere.
   */
  int64_t length;
} ull_batch;

/* Checks ranges and shapes, takes the memory, starts the threads. They make batches from the first
 * ull_loader_next on, or from where a place is set, so that going on in the middle of an epoch
 * costs what beginning one does. On failure nothing is left behind. ULL_ERROR_INVALID: options that
 * contradict each other. ULL_ERROR_MISMATCH: a binding that the array cannot fill. ULL_ERROR_DATA:
 * an element out of range. ULL_ERROR_UNSUPPORTED: changes that only encoded pictures take, where
 * none are bound. ULL_ERROR_OUT_OF_MEMORY. */
ull_status ull_loader_create(const ull_loader_options *options, ull_loader **out);

/* Stops and joins the threads, whatever they are doing, and gives the memory back. Batches on loan
 * become invalid. NULL is allowed. */
void ull_loader_destroy(ull_loader *loader);

/* Lends the next batch, waiting for it where needed; *batch is NULL after the last epoch. A sample
 * that cannot be used makes the batch that holds it fail where on_bad is ULL_ON_BAD_FAIL: earlier
 * batches are delivered, the record names the sample's file and its verdict, and the loader stays
 * at that batch. ULL_ERROR_DATA: bad content, or more bad samples than max_bad: the batch in which
 * they become too many is not delivered. ULL_ERROR_IO: a file that cannot be read.
 * ULL_ERROR_INTERNAL: a thread died. ULL_ERROR_INVALID when all slots are on loan. One thread at a
 * time. */
ull_status ull_loader_next(ull_loader *loader, const ull_batch **batch);

/* Waits for the next batch, at most so long. Whether ull_loader_next would return at once: with a
 * batch, a failure, or the end. For callers that have something to look at in between, such as
 * signals. One thread at a time, the same as for ull_loader_next. */
bool ull_loader_wait(ull_loader *loader, uint64_t timeout_ns);

/* Gives a batch back; its slot is filled anew. In any order; a batch that is kept costs its slot
 * and nothing else. Any thread. */
void ull_loader_release(ull_loader *loader, const ull_batch *batch);

/* Where the stream is: the next batch that ull_loader_next will lend. */
typedef struct ull_loader_position {
  uint64_t epoch;
  uint64_t batch;
} ull_loader_position;

ull_loader_position ull_loader_get_position(const ull_loader *loader);

/* Continues from there, at once; batches on loan stay what they are. batch <
 * ull_loader_batches_per_epoch. */
ull_status ull_loader_set_position(ull_loader *loader, ull_loader_position position);

/* The stream's place in full: 56 bytes without padding or pointers that may be stored as they are.
 * It counts samples of the epoch over all ranks, so that a stream goes on with another batch size,
 * another number of ranks, threads or slots: the samples that follow are those that would have
 * followed. With buckets the global batch (batch_size * world_size) must stay the same. */
typedef struct ull_loader_state {
  uint32_t version; /* 1 */
  uint32_t reserved;
  uint64_t fingerprint; /* of seed, number of samples and shuffling; with buckets also of their
                           lengths, the global batch and drop_last */
  uint64_t seed;
  uint64_t epoch;
  uint64_t position; /* samples of the epoch already dealt, all ranks together; with buckets short
                        batches count as full ones */
  uint64_t bad;      /* bad samples this rank has met, for max_bad */
  uint64_t check;    /* of the fields above */
} ull_loader_state;

ull_loader_state ull_loader_get_state(const ull_loader *loader);

/* Continues from there, at once; batches on loan stay what they are. ULL_ERROR_MISMATCH: a state of
 * another stream. ULL_ERROR_INVALID: no state, or a damaged one. */
ull_status ull_loader_set_state(ull_loader *loader, const ull_loader_state *state);

uint64_t ull_loader_batches_per_epoch(const ull_loader *loader);

/* What loader threads do with their time. */
typedef enum ull_loader_stage {
  ULL_STAGE_OPEN,     /* finding and opening files */
  ULL_STAGE_READ,     /* copying their bytes */
  ULL_STAGE_DECODE,   /* pictures */
  ULL_STAGE_RESAMPLE, /* resizing, normalising, storing */
  ULL_STAGE_CONVERT,  /* elements: dtype, crop, flip */
  ULL_STAGE_FINISH,   /* whole batches: mixing, closing gaps */
  ULL_STAGE_QUEUE,    /* waiting for the region for large pictures */
  ULL_STAGE_IDLE,     /* waiting for a free slot */
  ULL_STAGE_COUNT
} ull_loader_stage;

/* "open", "read", "decode", "resample", "convert", "finish", "queue", "idle"; never NULL. */
const char *ull_loader_stage_name(ull_loader_stage stage);

/* Samples delivered, waiting, verdicts: totals since creation. */
typedef struct ull_loader_counts {
  uint64_t samples;
  uint64_t wait_ns; /* of ull_loader_next */
  uint64_t replaced;
  uint64_t verdicts[ULL_VERDICT_COUNT]; /* of the samples asked for */
  uint64_t skipped;
  uint64_t batches;
  uint64_t stage_ns[ULL_STAGE_COUNT]; /* of all threads together */
  uint64_t filled;                    /* samples that threads have finished, delivered or not */
  uint64_t stood_in;                  /* of them, by threads that stand by */
  uint64_t peak_bytes; /* the most that was really used of the bound at one time: slots, scratch,
                          region, decoders, control, source */
} ull_loader_counts;

ull_loader_counts ull_loader_count(const ull_loader *loader);

/* A bad sample that was met, once for each sample. */
typedef struct ull_bad_sample {
  uint64_t sample; /* of the source */
  ull_verdict verdict;
  uint64_t times;     /* met so often */
  const char *reason; /* static */
  char path[512];     /* cut where it is longer */
} ull_bad_sample;

/* Bad samples in the order in which the stream met them, from number `first` on, at most `room`;
 * returns how many were written. A loader remembers the first 64 and counts the rest. */
size_t ull_loader_bad_samples(const ull_loader *loader, size_t first, ull_bad_sample *out,
                              size_t room);

/* ---- Scan ------------------------------------------------------------------------------------ */

/* One file of a scan: a picture or mask of a sample, or all arrays of a sample without pictures. */
typedef struct ull_scanned {
  uint64_t file;   /* from 0, in the order of the samples */
  uint64_t sample; /* of the source */
  const char *path;
  ull_verdict verdict;
  const char *reason;     /* a few words, "" where there is nothing to say */
  int width, height;      /* upright; 0 where not known */
  uint64_t bytes;         /* encoded */
  uint64_t working_bytes; /* that decoding all of it took; of a picture too big, that it wants */
  uint64_t same_as; /* the first file with the same bytes; `file` itself where it is the first */
  int64_t label;    /* of the sample; -1 where it has none */
} ull_scanned;

typedef struct ull_scan_options {
  int workers;           /* threads; 0 = the usable cores */
  uint64_t memory_bytes; /* working memory for one picture, beyond which it is too big; 0 = 1 GiB */
  uint64_t max_pixels;   /* as a loader's */
  /* Called in the order of the files, on the calling thread, `scanned` borrowed for the call. A
   * failure ends the scan with that status. May be NULL. */
  ull_status (*file)(void *context, const ull_scanned *scanned);
  /* Called now and then with the samples done; may be NULL. */
  void (*progress)(void *context, uint64_t done, uint64_t all);
  void *context;
} ull_scan_options;

typedef struct ull_scan_report {
  uint64_t samples, files, bytes;
  uint64_t bad; /* files with a bad verdict */
  uint64_t verdicts[ULL_VERDICT_COUNT];
  uint64_t duplicates; /* files whose bytes an earlier one has */
  uint64_t pixels;     /* decoded */
  int least_width, most_width, least_height, most_height;
  double mean[3], deviation[3]; /* of pictures' pixels scaled to [0, 1], red, green, blue; good
                                   files alone. 0 where there are no pictures */
  uint64_t most_working_bytes;  /* the largest of all files */
  uint64_t loader_bytes;        /* the least --loader-memory with which no picture is too big */
  double decode_seconds;        /* of all threads together */
} ull_scan_report;

/* Reads and fully decodes every sample of the source. A sample that cannot be used is no failure
 * but counted. ULL_ERROR_OUT_OF_MEMORY, and what `file` returned. */
ull_status ull_source_scan(const ull_source *source, const ull_scan_options *options,
                           ull_scan_report *report);

#ifdef __cplusplus
}
#endif
#endif
