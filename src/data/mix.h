/* Mixup and cutmix: every sample of a batch is mixed with another of the same batch, in place.
 *
 * All of it is drawn from (key, epoch, batch): one lambda and one distance for the batch. Sample i
 * is mixed with sample (i + distance) mod samples; the batch is in random order already, so that
 * this pairs at random, and no sample meets itself. A rank mixes its own part of a batch: with
 * other ranks, other samples meet.
 *
 *     mixup    lambda x_i + (1 - lambda) x_partner, elementwise
 *     cutmix   a rectangle of the partner, of 1 - lambda of the area before it is cut off at the
 *              edges; lambda is then what is left of x_i
 *
 * Zhang et al., "mixup: Beyond Empirical Risk Minimization", 2018; Yun et al., "CutMix", 2019; the
 * rectangle as torchvision has it. */
#ifndef ULL_DATA_MIX_H
#define ULL_DATA_MIX_H

#include "data/image/image.h"
#include "ullage/data.h"

typedef enum ull__mix_kind { ULL__MIX_NONE, ULL__MIX_BLEND, ULL__MIX_CUT } ull__mix_kind;

typedef struct ull__mix {
  ull__mix_kind kind;
  double lambda;     /* the share of a sample's own label */
  uint64_t distance; /* from a sample to its partner */
  ull__rect box;     /* of the partner's pixels */
} ull__mix;

/* For a batch of `samples` images of width x height; ULL__MIX_NONE where nothing is asked for, or
 * where there is no partner. */
ull__mix ull__mix_draw(const ull_augment *augment, uint64_t key, uint64_t epoch, uint64_t batch,
                       uint64_t samples, int width, int height);

static inline uint64_t ull__mix_partner(const ull__mix *mix, uint64_t samples, uint64_t sample) {
  uint64_t partner = sample + mix->distance;
  return partner >= samples ? partner - samples : partner;
}

/* An array of a batch: [samples, channels, height, width], or [samples, height, width, channels].
 */
typedef struct ull__mix_array {
  void *data;
  ull_dtype dtype; /* uint8, float32, float16 or bfloat16; other dtypes are only cut */
  uint64_t samples;
  int channels, height, width;
  bool channels_last;
} ull__mix_array;

/* Mixes the images of a batch in place; takes a few KiB of stack and no other memory. The box must
 * lie within height and width. */
void ull__mix_images(const ull__mix *mix, const ull__mix_array *array);

/* What the labels of a mixed batch become: soft [samples, classes] = lambda at the sample's class
 * plus 1 - lambda at its partner's. Plain one-hot rows for ULL__MIX_NONE. ULL_ERROR_DATA where a
 * label is outside [0, classes). */
ull_status ull__mix_labels(const ull__mix *mix, const int64_t *labels, uint64_t samples,
                           uint64_t classes, float *soft);

#endif
