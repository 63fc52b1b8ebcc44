/* One definition of every element's arithmetic: float32 results of 8-bit and float32 images are one
 * multiplication and one addition in float32, whatever the vector width; everything else goes
 * through double or int64_t.
 *
 * Without normalisation the factor is 1 and the summand -0, which leave every number as it is, -0
 * included. */
#include "data/convert.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/philox.h"

bool ull__dtype_is_convertible(ull_dtype dtype) {
  return (unsigned)dtype < ULL_DTYPE_COUNT && dtype != ULL_FLOAT16 && dtype != ULL_BFLOAT16;
}

static int64_t load_integer(ull_dtype dtype, const void *from) {
  int64_t wide;
  int32_t narrow;
  switch (dtype) {
  case ULL_INT64:
    memcpy(&wide, from, sizeof wide);
    return wide;
  case ULL_INT32:
    memcpy(&narrow, from, sizeof narrow);
    return narrow;
  case ULL_BOOL:
    return *(const uint8_t *)from != 0;
  default:
    return *(const uint8_t *)from;
  }
}

static double load_float(ull_dtype dtype, const void *from) {
  double wide;
  float single;
  uint16_t half;
  switch (dtype) {
  case ULL_FLOAT64:
    memcpy(&wide, from, sizeof wide);
    return wide;
  case ULL_FLOAT32:
    memcpy(&single, from, sizeof single);
    return (double)single;
  case ULL_FLOAT16:
    memcpy(&half, from, sizeof half);
    return (double)ull__half_to_float(half);
  default:
    return (double)load_integer(dtype, from);
  }
}

void ull__store_float(ull_dtype dtype, void *to, double value) {
  float single = (float)value;
  if (dtype == ULL_FLOAT64) {
    memcpy(to, &value, sizeof value);
  } else {
    memcpy(to, &single, sizeof single);
  }
}

void ull__store_integer(ull_dtype dtype, void *to, int64_t value) {
  int32_t narrow = (int32_t)value;
  switch (dtype) {
  case ULL_INT64:
    memcpy(to, &value, sizeof value);
    break;
  case ULL_INT32:
    memcpy(to, &narrow, sizeof narrow);
    break;
  case ULL_BOOL:
    *(uint8_t *)to = value != 0;
    break;
  default:
    *(uint8_t *)to = (uint8_t)value;
    break;
  }
}

enum { SIDE_MAX = 1 << 30 }; /* so that twice a side is an int */

static ull_status mismatch(const ull_array_info *info, const ull_binding *binding,
                           const char *why) {
  ULL__FAIL(ULL_ERROR_MISMATCH, "array '%s' (%s) cannot fill '%s' (%s): %s", info->name,
            ull_dtype_name(info->dtype), binding->name, ull_dtype_name(binding->dtype), why);
  return ull__error_holder("array '%s'", info->name);
}

static ull_status check_dtypes(const ull_array_info *info, const ull_binding *binding) {
  bool same = info->dtype == binding->dtype;
  if (!same && (!ull__dtype_is_convertible(binding->dtype) || info->dtype == ULL_BFLOAT16)) {
    return mismatch(info, binding, "there is no conversion between these dtypes");
  }
  if (ull__dtype_is_float(info->dtype) && !ull__dtype_is_float(binding->dtype)) {
    return mismatch(info, binding, "floats do not become integers");
  }
  if (!binding->normalize.active) return ULL_OK;
  bool narrow = binding->dtype == ULL_FLOAT16 || binding->dtype == ULL_BFLOAT16;
  if (!ull__dtype_is_float(binding->dtype) || narrow) {
    return mismatch(info, binding, "only float32 and float64 are normalised");
  }
  int channels = info->image ? (int)info->shape[0] : 1;
  bool fits = binding->normalize.channels == 1 || binding->normalize.channels == channels;
  return fits ? ULL_OK
              : mismatch(info, binding, "the normalisation has another number of channels");
}

static ull_status check_shape(const ull_array_info *info, const ull_binding *binding) {
  uint64_t elements = 1;
  for (int i = 0; i < binding->rank; i++) {
    if (binding->shape[i] <= 0) return mismatch(info, binding, "an extent is not positive");
    ULL__TRY(ull__size_mul(elements, (uint64_t)binding->shape[i], binding->name, &elements));
  }
  uint64_t present = info->sample_bytes / ull_dtype_bytes(info->dtype);
  if (elements == present) return ULL_OK;
  char why[96];
  snprintf(why, sizeof why, "%" PRIu64 " elements a sample are wanted, it has %" PRIu64, elements,
           present);
  return mismatch(info, binding, why);
}

static void set_arithmetic(const ull_normalize *normalize, ull__conversion *conversion) {
  for (int c = 0; c < conversion->channels; c++) {
    int from = normalize->channels == 1 ? 0 : c;
    double deviation = normalize->active ? normalize->deviation[from] : 1.0;
    conversion->wide_scale[c] = normalize->active ? normalize->scale / deviation : 1.0;
    conversion->wide_bias[c] = normalize->active ? -normalize->mean[from] / deviation : -0.0;
    conversion->scale[c] = (float)conversion->wide_scale[c];
    conversion->bias[c] = (float)conversion->wide_bias[c];
  }
}

static ull_status set_geometry(const ull_array_info *info, const ull_binding *binding,
                               const ull_augment *augment, ull__conversion *conversion) {
  conversion->channels = conversion->height = 1;
  if (!info->image) return ULL_OK;
  if (info->shape[1] > SIDE_MAX || info->shape[2] > SIDE_MAX) {
    return mismatch(info, binding, "an image is more than 2^30 pixels high or wide");
  }
  conversion->channels = (int)info->shape[0];
  conversion->height = (int)info->shape[1];
  conversion->width = (int)info->shape[2];
  conversion->moves = augment->crop_pixels > 0 || augment->flip || augment->flip_vertical;
  conversion->padding = augment->padding;
  bool reflects = augment->crop_pixels > 0 && augment->padding == ULL_PADDING_REFLECT;
  if (reflects &&
      (augment->crop_pixels >= info->shape[1] || augment->crop_pixels >= info->shape[2])) {
    return mismatch(info, binding, "the reflected border is as wide as the image");
  }
  if (conversion->moves && info->dtype == binding->dtype &&
      !ull__dtype_is_convertible(info->dtype)) {
    return mismatch(info, binding, "16-bit floats are not augmented");
  }
  return ULL_OK;
}

ull_status ull__conversion_create(const ull_array_info *info, const ull_binding *binding,
                                  const ull_augment *augment, ull__conversion *conversion) {
  if (binding->rank < 0 || binding->rank > ULL_DATA_MAX_RANK) {
    return mismatch(info, binding, "the rank is out of range");
  }
  ULL__TRY(check_dtypes(info, binding));
  ULL__TRY(check_shape(info, binding));
  *conversion = (ull__conversion){.from = info->dtype, .to = binding->dtype};
  conversion->elements = info->sample_bytes / ull_dtype_bytes(info->dtype);
  ULL__TRY(set_geometry(info, binding, augment, conversion));
  set_arithmetic(&binding->normalize, conversion);
  conversion->copies =
      info->dtype == binding->dtype && !binding->normalize.active && !conversion->moves;
  return ULL_OK;
}

static int draw_offset(uint32_t word, int pixels) {
  return (int)((uint64_t)word * (2 * (uint64_t)pixels + 1) >> 32) - pixels;
}

ull__move ull__draw_move(const ull_augment *augment, uint64_t key, uint64_t epoch,
                         uint64_t sample) {
  ull__philox_block block = ull__philox(key, epoch, sample);
  return (ull__move){
      .down = draw_offset(block.word[0], augment->crop_pixels),
      .right = draw_offset(block.word[1], augment->crop_pixels),
      .flip = augment->flip && (block.word[2] >> 31),
      .flip_vertical = augment->flip_vertical && (block.word[3] >> 31),
  };
}

/* The row or column that stands in for one outside [0, extent), or -1 for zeros. */
static int border(ull_padding padding, int at, int extent) {
  if (at >= 0 && at < extent) return at;
  if (padding == ULL_PADDING_ZERO) return -1;
  return at < 0 ? -at : 2 * (extent - 1) - at;
}

#define ROW(name, type)                                                                     \
  static void name(const type *restrict from, int step, int count, float scale, float bias, \
                   float *restrict to) {                                                    \
    if (step > 0) {                                                                         \
      for (int i = 0; i < count; i++) to[i] = (float)from[i] * scale + bias;                \
    } else {                                                                                \
      for (int i = 0; i < count; i++) to[i] = (float)from[-i] * scale + bias;               \
    }                                                                                       \
  }
ROW(convert_bytes, uint8_t)
ROW(convert_floats, float)
#undef ROW

static void convert_any(const ull__conversion *conversion, int channel, const uint8_t *from,
                        int step, int count, uint8_t *to) {
  uint32_t from_bytes = ull_dtype_bytes(conversion->from),
           to_bytes = ull_dtype_bytes(conversion->to);
  for (int i = 0; i < count; i++, to += to_bytes) {
    const uint8_t *at = from + (int64_t)i * step * (int64_t)from_bytes;
    if (ull__dtype_is_float(conversion->to)) {
      double value = load_float(conversion->from, at) * conversion->wide_scale[channel] +
                     conversion->wide_bias[channel];
      ull__store_float(conversion->to, to, value);
    } else {
      ull__store_integer(conversion->to, to, load_integer(conversion->from, at));
    }
  }
}

/* `count` elements from `from` on, forwards or backwards. */
static void convert_run(const ull__conversion *conversion, int channel, const uint8_t *from,
                        int step, int count, uint8_t *to) {
  float scale = conversion->scale[channel], bias = conversion->bias[channel];
  if (conversion->to == ULL_FLOAT32 && conversion->from == ULL_UINT8) {
    convert_bytes(from, step, count, scale, bias, (float *)to);
  } else if (conversion->to == ULL_FLOAT32 && conversion->from == ULL_FLOAT32) {
    convert_floats((const float *)from, step, count, scale, bias, (float *)to);
  } else {
    convert_any(conversion, channel, from, step, count, to);
  }
}

static void convert_border(const ull__conversion *conversion, int channel, const uint8_t *row,
                           int at, uint8_t *to) {
  static const uint8_t zero[8];
  int column = border(conversion->padding, at, conversion->width);
  const uint8_t *from =
      column < 0 ? zero : row + (uint64_t)column * ull_dtype_bytes(conversion->from);
  convert_run(conversion, channel, from, 1, 1, to);
}

/* Output columns whose source lies inside the row are [first, last). */
static void inside_columns(ull__move move, int width, int *first, int *last) {
  int left = move.right < 0 ? -move.right : 0, past = move.right > 0 ? move.right : 0;
  if (left > width) left = width;
  if (past > width - left) past = width - left;
  *first = move.flip ? past : left;
  *last = move.flip ? width - left : width - past;
}

static int source_column(ull__move move, int width, int x) {
  return (move.flip ? width - 1 - x : x) + move.right;
}

static void convert_row(const ull__conversion *conversion, ull__move move, int channel,
                        const uint8_t *row, uint8_t *to) {
  int width = conversion->width, first, last;
  uint32_t from_bytes = ull_dtype_bytes(conversion->from),
           to_bytes = ull_dtype_bytes(conversion->to);
  inside_columns(move, width, &first, &last);
  for (int x = 0; x < first; x++) {
    convert_border(conversion, channel, row, source_column(move, width, x),
                   to + (uint64_t)x * to_bytes);
  }
  if (last > first) {
    const uint8_t *from = row + (uint64_t)source_column(move, width, first) * from_bytes;
    convert_run(conversion, channel, from, move.flip ? -1 : 1, last - first,
                to + (uint64_t)first * to_bytes);
  }
  for (int x = last; x < width; x++) {
    convert_border(conversion, channel, row, source_column(move, width, x),
                   to + (uint64_t)x * to_bytes);
  }
}

static void convert_zero_row(const ull__conversion *conversion, int channel, uint8_t *to) {
  static const uint8_t zero[8];
  uint32_t to_bytes = ull_dtype_bytes(conversion->to);
  for (int x = 0; x < conversion->width; x++) {
    convert_run(conversion, channel, zero, 1, 1, to + (uint64_t)x * to_bytes);
  }
}

static void convert_moved(const ull__conversion *conversion, ull__move move, const uint8_t *from,
                          uint8_t *to) {
  uint64_t from_row = (uint64_t)conversion->width * ull_dtype_bytes(conversion->from);
  uint64_t to_row = (uint64_t)conversion->width * ull_dtype_bytes(conversion->to);
  for (int c = 0; c < conversion->channels; c++, from += from_row * (uint64_t)conversion->height) {
    for (int y = 0; y < conversion->height; y++, to += to_row) {
      int line = move.flip_vertical ? conversion->height - 1 - y : y;
      int row = border(conversion->padding, line + move.down, conversion->height);
      if (row < 0) {
        convert_zero_row(conversion, c, to);
      } else {
        convert_row(conversion, move, c, from + (uint64_t)row * from_row, to);
      }
    }
  }
}

static void convert_straight(const ull__conversion *conversion, const uint8_t *from, uint8_t *to) {
  enum { RUN = 1 << 30 };
  uint64_t channel_elements = conversion->elements / (uint64_t)conversion->channels;
  uint64_t from_bytes = ull_dtype_bytes(conversion->from),
           to_bytes = ull_dtype_bytes(conversion->to);
  for (int c = 0; c < conversion->channels; c++) {
    for (uint64_t left = channel_elements; left > 0;) {
      int count = left < RUN ? (int)left : RUN;
      convert_run(conversion, c, from, 1, count, to);
      from += (uint64_t)count * from_bytes;
      to += (uint64_t)count * to_bytes;
      left -= (uint64_t)count;
    }
  }
}

static ull_status check_narrowing(const ull__conversion *conversion, const uint8_t *from) {
  static const int64_t most[ULL_DTYPE_COUNT] = {
      [ULL_INT64] = INT64_MAX, [ULL_INT32] = INT32_MAX, [ULL_UINT8] = UINT8_MAX, [ULL_BOOL] = 1};
  static const int64_t least[ULL_DTYPE_COUNT] = {[ULL_INT64] = INT64_MIN, [ULL_INT32] = INT32_MIN};
  uint32_t bytes = ull_dtype_bytes(conversion->from);
  for (uint64_t i = 0; i < conversion->elements; i++) {
    int64_t value = load_integer(conversion->from, from + i * bytes);
    if (value >= least[conversion->to] && value <= most[conversion->to]) continue;
    return ULL__FAIL(ULL_ERROR_DATA, "element %" PRIu64 " is %" PRId64 ", which %s cannot hold", i,
                     value, ull_dtype_name(conversion->to));
  }
  return ULL_OK;
}

ull_status ull__convert(const ull__conversion *conversion, ull__move move, const void *from,
                        void *to) {
  bool integers = !ull__dtype_is_float(conversion->to);
  if (integers && ull_dtype_bytes(conversion->to) <= ull_dtype_bytes(conversion->from)) {
    ULL__TRY(check_narrowing(conversion, from));
  }
  if (conversion->moves) {
    convert_moved(conversion, move, from, to);
  } else {
    convert_straight(conversion, from, to);
  }
  return ULL_OK;
}
