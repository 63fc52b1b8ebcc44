/* First values of parameters and states.
 *
 * Element i of a tensor is a pure function of (seed, name, i): no order of filling, no plan and no
 * thread count can change it. Numbers are rounded to float32 first and to the wanted type then, so
 * that every precision starts from the same weights. */
#include <string.h>

#include "base/error.h"
#include "base/half.h"
#include "base/philox.h"
#include "model/model.h"

static const ull__initial *find_initial(const ull__model *model, const char *name) {
  for (uint32_t i = 0; i < model->initial_count; i++) {
    if (strcmp(model->initials[i].name, name) == 0) return &model->initials[i];
  }
  return NULL;
}

/* Elements [4 block, 4 block + 4). */
static void draw_four(const ull__initial *initial, uint64_t key, uint64_t block, float out[4]) {
  switch (initial->kind) {
  case ULL__INITIAL_ZEROS:
  case ULL__INITIAL_ONES:
    for (int i = 0; i < 4; i++) out[i] = initial->kind == ULL__INITIAL_ONES;
    break;
  case ULL__INITIAL_UNIFORM: {
    const ull__philox_block words = ull__philox(key, 0, block);
    for (int i = 0; i < 4; i++) {
      out[i] = (float)((2.0 * ull__philox_unit_float(words.word[i]) - 1.0) * initial->scale);
    }
    break;
  }
  case ULL__INITIAL_NORMAL:
    for (uint64_t half = 0; half < 2; half++) {
      double normal[2];
      ull__philox_normal(ull__philox(key, 0, 2 * block + half), normal);
      out[2 * half] = (float)(normal[0] * initial->scale);
      out[2 * half + 1] = (float)(normal[1] * initial->scale);
    }
    break;
  }
}

ull_status ull__model_initialize(const ull__model *model, const char *name, uint64_t seed,
                                 ull_dtype dtype, const ull__shape *shape, void *bytes) {
  const ull__initial *initial = find_initial(model, name);
  uint64_t count;
  if (initial == NULL) {
    return ULL__FAIL(ULL_ERROR_INVALID, "%s has no parameter or state %s", model->name, name);
  }
  if (!ull__dtype_is_float(dtype)) {
    return ULL__FAIL(ULL_ERROR_UNSUPPORTED, "%s: no first values of type %s", name,
                     ull_dtype_name(dtype));
  }
  ULL__TRY(ull__shape_count(shape, &count));
  const uint64_t key = ull__philox_key(ull__philox_key(seed, "initialize"), name);
  for (uint64_t first = 0; first < count; first += 4) {
    float four[4];
    draw_four(initial, key, first / 4, four);
    ull__from_float32(four, dtype, bytes, first, count - first < 4 ? count - first : 4);
  }
  return ULL_OK;
}
