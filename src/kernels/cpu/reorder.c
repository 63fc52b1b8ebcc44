/* Our own reorder walks all elements by geometry, for the types oneDNN does not move; padding of
 * the destination becomes zero. */
#include "kernels/cpu/reorder.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "kernels/cpu/onednn.h"

typedef struct reorder_constants {
  ull__geometry from, to;
  uint64_t to_bytes;
  uint32_t element_bytes;
  bool to_padded;
} reorder_constants;

static void move_element(char *to, const char *from, uint32_t bytes) {
  switch (bytes) {
  case 1:
    *to = *from;
    break;
  case 2:
    memcpy(to, from, 2);
    break;
  case 4:
    memcpy(to, from, 4);
    break;
  default:
    memcpy(to, from, 8);
  }
}

static void move_row(const reorder_constants *c, uint64_t n, uint64_t channel, const char *from,
                     char *to) {
  const ull__geometry *f = &c->from, *t = &c->to;
  uint64_t at_from =
      n * f->batch_stride + channel / f->block * f->block_stride + channel % f->block;
  uint64_t at_to = n * t->batch_stride + channel / t->block * t->block_stride + channel % t->block;
  for (uint64_t s = 0; s < f->spatial; s++) {
    move_element(to + at_to * c->element_bytes, from + at_from * c->element_bytes,
                 c->element_bytes);
    at_from += f->spatial_stride;
    at_to += t->spatial_stride;
  }
}

static ull_status run_reorder(const ull__launch_frame *frame) {
  const reorder_constants *c = frame->constants;
  if (c->to_padded) memset(frame->operands[1], 0, c->to_bytes);
  for (uint64_t n = 0; n < c->from.batch; n++) {
    for (uint64_t channel = 0; channel < c->from.channels; channel++) {
      move_row(c, n, channel, frame->operands[0], frame->operands[1]);
    }
  }
  return ULL_OK;
}

static ull_status choose_loop(ull__cpu *cpu, ull_dtype dtype, const ull__shape *shape,
                              const ull__layout *from, const ull__layout *to, ull__kernel *kernel) {
  reorder_constants *c = ull__cpu_constants(cpu, sizeof *c);
  if (c == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  ULL__TRY(ull__layout_geometry(from, shape, &c->from));
  ULL__TRY(ull__layout_geometry(to, shape, &c->to));
  ULL__TRY(ull__layout_bytes(to, dtype, shape, &c->to_bytes));
  c->element_bytes = ull_dtype_bytes(dtype);
  c->to_padded = ull__layout_is_padded(to, dtype, shape);
  *kernel = (ull__kernel){.entry = run_reorder, .constants = c};
  kernel->seconds = ull__cpu_seconds(cpu, 0, 2.0 * (double)c->to_bytes, 0.1);
  snprintf(kernel->implementation, sizeof kernel->implementation, "cpu:reorder");
  return ULL_OK;
}

ull_status ull__cpu_reorder(ull__cpu *cpu, ull_dtype dtype, const ull__shape *shape,
                            const ull__layout *from, const ull__layout *to, ull__kernel *kernel) {
  memset(kernel, 0, sizeof *kernel);
  if (dtype == ULL_FLOAT32 && shape->rank > 0) {
    return ull__onednn_reorder(cpu, dtype, shape, from, to, kernel);
  }
  return choose_loop(cpu, dtype, shape, from, to, kernel);
}
