/* Means over all positions of a plane, summed in double. */
#include "kernels/cpu/loops/pooling.h"

#include "kernels/cpu/loops/vector.h"

/* Sum over positions of the lanes from `lane`, in float32 over short runs, then in double. */
INLINE vdouble sum_positions(const ull__global_pooling *p, const float *plane, int64_t lane) {
  vdouble total = {0};
  int64_t left = p->block - lane;
  for (int64_t from = 0; from < p->positions; from += 64) {
    vfloat sum = {0};
    for (int64_t i = from; i < smaller(from + 64, p->positions); i++) {
      sum += load_some(plane + i * p->block + lane, left);
    }
    total += to_double(sum);
  }
  return total;
}

static double sum_run(const float *x, int64_t count) {
  vdouble total = {0};
  for (int64_t i = 0; i < count; i += LANES) total += to_double(load_some(x + i, count - i));
  return sum_lanes(total);
}

static void mean_of_plane(const ull__global_pooling *p, const float *plane, int64_t channels,
                          float *y) {
  if (p->block == 1) {
    *y = (float)(sum_run(plane, p->positions) / (double)p->positions);
    return;
  }
  for (int64_t lane = 0; lane < channels; lane += LANES) {
    vdouble mean = sum_positions(p, plane, lane) / (double)p->positions;
    store_some(y + lane, __builtin_convertvector(mean, vfloat), channels - lane);
  }
}

ull_status ULL__ISA_NAME(ull__global_avg_pool)(const ull__launch_frame *launch) {
  const ull__global_pooling *p = launch->constants;
  const float *x = launch->operands[0];
  float *y = launch->operands[1];
  int64_t plane_elements = p->positions * p->block;
  PARALLEL_FOR(p->batch * p->blocks * plane_elements >= ENOUGH_ELEMENTS)
  for (int64_t plane = 0; plane < p->batch * p->blocks; plane++) {
    int64_t channel = plane % p->blocks * p->block;
    mean_of_plane(p, x + plane * plane_elements, smaller(p->block, p->channels - channel),
                  y + plane / p->blocks * p->channels + channel);
  }
  return ULL_OK;
}

static void spread_mean(const ull__global_pooling *p, const float *dy, int64_t channels,
                        float *plane) {
  vfloat count = splat((float)p->positions);
  if (p->block == 1) {
    vfloat value = splat(*dy) / count;
    for (int64_t i = 0; i < p->positions; i += LANES) {
      store_some(plane + i, value, p->positions - i);
    }
    return;
  }
  for (int64_t lane = 0; lane < p->block; lane += LANES) {
    vfloat value = {0};
    if (lane < channels) value = load_some(dy + lane, channels - lane) / count;
    for (int64_t i = 0; i < p->positions; i++) {
      store_some(plane + i * p->block + lane, value, p->block - lane);
    }
  }
}

ull_status ULL__ISA_NAME(ull__global_avg_pool_backward)(const ull__launch_frame *launch) {
  const ull__global_pooling *p = launch->constants;
  const float *dy = launch->operands[0];
  float *dx = launch->operands[1];
  int64_t plane_elements = p->positions * p->block;
  PARALLEL_FOR(p->batch * p->blocks * plane_elements >= ENOUGH_ELEMENTS)
  for (int64_t plane = 0; plane < p->batch * p->blocks; plane++) {
    int64_t channel = plane % p->blocks * p->block;
    spread_mean(p, dy + plane / p->blocks * p->channels + channel,
                smaller(p->block, p->channels - channel), dx + plane * plane_elements);
  }
  return ULL_OK;
}
