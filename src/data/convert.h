/* From the elements a source stores to the elements a model wants: dtype, window, mirror and
 * normalisation in one pass. */
#ifndef ULL_DATA_CONVERT_H
#define ULL_DATA_CONVERT_H

#include "base/half.h"
#include "ullage/data.h"

/* Whether elements can be computed in this dtype (16-bit floats are only read or copied). */
bool ull__dtype_is_convertible(ull_dtype dtype);

void ull__store_float(ull_dtype dtype, void *to, double value);
void ull__store_integer(ull_dtype dtype, void *to, int64_t value);

/* How one array becomes one binding; fixed for the life of a loader. */
typedef struct ull__conversion {
  ull_dtype from, to;
  uint64_t elements;
  bool copies; /* the bytes stay as they are and no window is taken */
  bool moves;  /* an image under crop or flip */
  ull_padding padding;
  int channels, height, width; /* one channel and one row where it is no image */
  float scale[ULL_DATA_MAX_CHANNELS], bias[ULL_DATA_MAX_CHANNELS];
  double wide_scale[ULL_DATA_MAX_CHANNELS], wide_bias[ULL_DATA_MAX_CHANNELS];
} ull__conversion;

/* Fails with ULL_ERROR_MISMATCH where the array cannot become what the binding asks. */
ull_status ull__conversion_create(const ull_array_info *info, const ull_binding *binding,
                                  const ull_augment *augment, ull__conversion *conversion);

/* The window and mirrors of one sample: output (y, x) comes from (y + down, x + right), mirrored
 * first. */
typedef struct ull__move {
  int down, right;
  bool flip;
  bool flip_vertical;
} ull__move;

/* Drawn from (key, epoch, sample) alone. */
ull__move ull__draw_move(const ull_augment *augment, uint64_t key, uint64_t epoch, uint64_t sample);

/* ULL_ERROR_DATA where an integer does not fit into the narrower dtype. */
ull_status ull__convert(const ull__conversion *conversion, ull__move move, const void *from,
                        void *to);

#endif
