/* `synthetic`: random samples that exist only when they are read. Element e of sample s of array a
 * is a function of (seed, name of the array, s, e), so nothing is stored and any thread may read
 * anything. */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/philox.h"
#include "data/convert.h"
#include "data/source.h"

typedef struct synthetic {
  uint64_t key[ULL_DATA_MAX_ARRAYS];
  int64_t minimum[ULL_DATA_MAX_ARRAYS];
  uint64_t extent[ULL_DATA_MAX_ARRAYS]; /* of the range of integers */
} synthetic;

/* What the integers of a dtype can hold. */
static void integer_limits(ull_dtype dtype, int64_t *least, int64_t *most) {
  bool narrow = dtype == ULL_UINT8 || dtype == ULL_BOOL;
  *least = narrow ? 0 : dtype == ULL_INT32 ? INT32_MIN : INT64_MIN;
  *most = dtype == ULL_BOOL ? 1 : dtype == ULL_UINT8 ? UINT8_MAX : INT32_MAX;
  if (dtype == ULL_INT64) *most = INT64_MAX;
}

static ull_status check_range(const ull_synthetic_array *array) {
  int64_t least, most;
  integer_limits(array->dtype, &least, &most);
  if (array->minimum <= array->maximum && array->minimum >= least && array->maximum <= most) {
    return ULL_OK;
  }
  ULL__FAIL(ULL_ERROR_INVALID, "synthetic: %s from %" PRId64 " to %" PRId64 " is not a range of %s",
            array->name, array->minimum, array->maximum, ull_dtype_name(array->dtype));
  return ull__error_holder("array '%s'", array->name);
}

static ull_status add_array(ull_source *source, const ull_synthetic_array *array, uint64_t seed) {
  synthetic *state = source->state;
  size_t index = source->array_count;
  if (!ull__dtype_is_convertible(array->dtype)) {
    ULL__FAIL(ULL_ERROR_UNSUPPORTED, "synthetic: '%s' is %s", array->name,
              ull_dtype_name(array->dtype));
    return ull__error_holder("array '%s'", array->name);
  }
  if (!ull__dtype_is_float(array->dtype)) ULL__TRY(check_range(array));
  ULL__TRY(ull__source_add_array(source, array->name, array->dtype, array->rank, array->shape));
  source->arrays[index].role = array->role;
  source->arrays[index].image &= array->role == ULL_ARRAY_INPUT;
  state->key[index] = ull__philox_key(seed, array->name);
  state->minimum[index] = array->minimum;
  state->extent[index] = (uint64_t)array->maximum - (uint64_t)array->minimum + 1;
  return ULL_OK;
}

static ull_status open_synthetic(ull_source *source, const char *argument,
                                 const ull_source_options *options) {
  (void)argument;
  if (options->synthetic_count == 0 || options->synthetic_samples == 0) {
    ULL__FAIL(ULL_ERROR_INVALID, "synthetic: no arrays or no samples are described");
    return ull__error_change("give a source of files; synthetic is for train, plan and data bench");
  }
  source->state = ull__alloc(1, sizeof(synthetic));
  if (source->state == NULL) return ull_error_last()->status;
  source->resident_bytes = sizeof(synthetic) + sizeof *source;
  source->stored_count = options->synthetic_samples;
  source->fixed = true;
  for (size_t i = 0; i < options->synthetic_count; i++) {
    ULL__TRY(add_array(source, &options->synthetic[i], options->seed));
  }
  return ULL_OK;
}

/* Mean 0 and variance 1, close to a normal distribution: the sum of a word's four bytes. A batch is
 * made anew every step, so that Box and Muller's way would cost a small network more than training.
 */
static double bell(uint32_t word) {
  uint32_t sum = (word & 255) + (word >> 8 & 255) + (word >> 16 & 255) + (word >> 24);
  return ((double)sum - 510.0) / 147.80054127;
}

static void fill_bell(ull_dtype dtype, uint64_t key, uint64_t sample, uint64_t count, uint8_t *to) {
  uint32_t bytes = ull_dtype_bytes(dtype);
  for (uint64_t i = 0; i < count; i += 4) {
    ull__philox_block block = ull__philox(key, sample, i / 4);
    for (uint64_t k = 0; k < 4 && i + k < count; k++) {
      ull__store_float(dtype, to + (i + k) * bytes, bell(block.word[k]));
    }
  }
}

static int64_t draw_integer(uint64_t key, uint64_t sample, uint64_t element, int64_t minimum,
                            uint64_t extent) {
  ull__philox_block block = ull__philox(key, sample, element);
  uint64_t any = (uint64_t)block.word[0] << 32 | block.word[1];
  uint64_t offset = extent ? ull__philox_bounded(block.word[0], block.word[1], extent) : any;
  return (int64_t)((uint64_t)minimum + offset);
}

static void fill_integers(const synthetic *state, size_t array, ull_dtype dtype, uint64_t sample,
                          uint64_t count, uint8_t *to) {
  uint32_t bytes = ull_dtype_bytes(dtype);
  for (uint64_t i = 0; i < count; i++) {
    int64_t value =
        draw_integer(state->key[array], sample, i, state->minimum[array], state->extent[array]);
    ull__store_integer(dtype, to + i * bytes, value);
  }
}

static ull_status read_synthetic(const ull_source *source, uint64_t first, uint64_t count,
                                 size_t array, void *bytes) {
  const synthetic *state = source->state;
  const ull_array_info *info = &source->arrays[array];
  uint64_t elements = info->sample_bytes / ull_dtype_bytes(info->dtype);
  for (uint64_t i = 0; i < count; i++) {
    uint8_t *to = (uint8_t *)bytes + i * info->sample_bytes;
    if (ull__dtype_is_float(info->dtype)) {
      fill_bell(info->dtype, state->key[array], first + i, elements, to);
    } else {
      fill_integers(state, array, info->dtype, first + i, elements, to);
    }
  }
  return ULL_OK;
}

static void close_synthetic(ull_source *source) {
  ull__free(source->state);
  source->state = NULL;
}

const ull__source_kind ull__source_synthetic = {
    .scheme = "synthetic",
    .open = open_synthetic,
    .read = read_synthetic,
    .close = close_synthetic,
};
