/* Packing: samples of any source with pictures written as WebDataset shards, plain tar files that
 * are read in order at the speed of the disk, by Ullage (`tar:GLOB`) and by anything else.
 *
 *     ull_pack_options options = ull_pack_options_default();
 *     options.prefix = "packed/train";
 *     ull_pack_result result;
 *     if (ull_pack(source, &options, &result) == ULL_OK)
 *       printf("%llu samples in %llu shards", result.samples, result.shards);
 *
 * Sample i of the source becomes the members KEY.jpg (or .png, .webp), KEY.cls (the class' number
 * as text) and KEY.mask.png of one shard, in the source's order. KEY is i in nine digits, a dash
 * and what the file was called. Files:
 *
 *     PREFIX-000000.tar ...   whole shards; one in the making is called PREFIX-000000.tar.part
 *     PREFIX-pack.json        what was done so far and with which options
 *     classes.txt             beside them: one name a line, in the order of the numbers
 *
 * An interrupted pack, however it ended, is continued behind its last whole shard by the same call,
 * and the bytes of every file are those of an uninterrupted one, for any number of workers. */
#ifndef ULLAGE_PACK_H
#define ULLAGE_PACK_H

#include <stdbool.h>
#include <stdint.h>

#include "ullage/data.h"
#include "ullage/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How far a pack is. Counts include what earlier calls did. */
typedef struct ull_pack_progress {
  uint64_t done, total; /* samples looked at, and of the source */
  uint64_t bytes_in;    /* encoded pictures and masks of the source */
  uint64_t bytes_out;   /* of whole shards, and of the one in the making */
  uint64_t shards;      /* whole */
  uint64_t bad;
} ull_pack_progress;

typedef struct ull_pack_options {
  const char *prefix; /* path in front of "-000000.tar"; its folder is made where missing */

  /* A shard is ended before the sample that would make it larger; one sample is never divided.
   * 0 = 256 MiB. */
  uint64_t shard_bytes;

  /* Pictures whose shorter side is longer than this are turned upright, resized with antialiasing
   * so that it is this long (the longer side is cut to a whole number of pixels), and encoded as
   * JPEG; their masks are resized by nearest neighbour to the same size and stay PNG. All others
   * are copied byte for byte. 0 = no limit. */
  int max_side;

  /* Of JPEGs that are written, 1 to 100. 0 = 90, and pictures small enough are copied. Above 0 they
   * are encoded anew as well, where that makes them smaller. */
  int quality;

  int workers; /* threads that read, check and encode; 0 = usable cores */

  /* Bytes for decoding and encoding, shared by all workers. A picture that needs more alone is
   * ULL_VERDICT_TOO_BIG. 0 = 512 MiB. */
  uint64_t memory_bytes;

  /* Every picture is decoded once, so that its verdict is known. ULL_ON_BAD_SKIP: a bad sample is
   * left out. ULL_ON_BAD_REPLACE: it is packed as it is, so that samples keep their numbers and a
   * loader replaces it as it would have. ULL_ON_BAD_FAIL: it is an error. */
  ull_on_bad on_bad;
  uint64_t max_bad; /* more bad samples are an error; UINT64_MAX: any number */

  /* Called on the calling thread after every sample; NULL: nothing. False ends the pack with
   * ULL_ERROR_STOPPED; a later call continues it. */
  bool (*progress)(void *context, const ull_pack_progress *progress);
  void *context;
} ull_pack_options;

/* No prefix, 256 MiB, copies, bad samples packed as they are, any number of them. */
ull_pack_options ull_pack_options_default(void);

/* Counts of the whole pack, earlier calls included. */
typedef struct ull_pack_result {
  uint64_t samples; /* in the shards */
  uint64_t skipped; /* bad ones left out */
  uint64_t shards;
  uint64_t bytes_in;                    /* encoded pictures and masks of the source */
  uint64_t bytes_out;                   /* of all shards */
  uint64_t copied, encoded;             /* pictures and masks */
  uint64_t verdicts[ULL_VERDICT_COUNT]; /* of samples; the worst of a sample's pictures */
  uint64_t resumed_samples;             /* that earlier calls had dealt with */
  char first_bad[512];                  /* the first bad sample's path and why, "" for none */
} ull_pack_result;

/* Packs. *result is filled in any case. ULL_ERROR_UNSUPPORTED: the source has no pictures, or an
 * array that shards cannot hold. ULL_ERROR_MISMATCH: the prefix has a pack of other options or
 * samples, or shards of unknown origin. ULL_ERROR_DATA: a bad sample, or too many. ULL_ERROR_IO:
 * files that cannot be read or written (a full disk); whole shards stay. ULL_ERROR_BUSY: another
 * process packs into the same folder. ULL_ERROR_STOPPED, ULL_ERROR_OUT_OF_MEMORY. */
ull_status ull_pack(const ull_source *source, const ull_pack_options *options,
                    ull_pack_result *result);

#ifdef __cplusplus
}
#endif
#endif
