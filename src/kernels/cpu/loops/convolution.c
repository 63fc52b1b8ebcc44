/* Three passes over tiles of positions: gather windows, multiply, put the result where it belongs.
 * Sums are in the order of tiles, and within one as our product sums: no bit depends on the team.
 */
#include "kernels/cpu/loops/convolution.h"

#include <string.h>

#include "kernels/cpu/loops/gemm.h"
#include "kernels/cpu/loops/vector.h"

#define GEMM_TEAM ULL__ISA_NAME(ull__gemm_team)

/* Positions [first, first + count) of one group, and where its parts lie in the workspace. */
typedef struct tile {
  const ull__convolution *c;
  int64_t group, first, count;
  float *windows; /* [window, count] */
  float *side;    /* [outputs, count]: y or dy of the tile in plain order */
  float *scratch;
} tile;

static tile first_tile(const ull__convolution *c, float *workspace) {
  tile t = {.c = c, .windows = workspace};
  t.side = t.windows + ull__convolution_window(c) * c->tile;
  t.scratch = t.side + c->outputs * c->tile;
  return t;
}

static int64_t position_count(const ull__convolution *c) {
  return c->batch * c->out_height * c->out_width;
}

static void set_first(tile *t, int64_t first) {
  int64_t left = position_count(t->c) - first;
  t->first = first;
  t->count = left < t->c->tile ? left : t->c->tile;
}

static int64_t channel_offset(const ull__geometry *g, int64_t channel) {
  int64_t block = (int64_t)g->block;
  return channel / block * (int64_t)g->block_stride + channel % block;
}

/* A run of positions in one output row: [at, at + length) of the tile are columns j, j + 1, ... */
typedef struct run {
  int64_t at, length, n, i, j;
} run;

static run run_at(const tile *t, int64_t at) {
  const ull__convolution *c = t->c;
  int64_t position = t->first + at, plane = c->out_height * c->out_width;
  run r = {.at = at, .n = position / plane, .i = position % plane / c->out_width};
  r.j = position % c->out_width;
  r.length = smaller(c->out_width - r.j, t->count - at);
  return r;
}

/* The part of a run that meets x, and where: the rest meets padding. */
typedef struct meeting {
  int64_t begin, end; /* in the run */
  int64_t offset;     /* in a channel of x, of `begin` */
  int64_t stride;
} meeting;

static int64_t clamp(int64_t value, int64_t low, int64_t high) {
  return larger(low, smaller(value, high));
}

static meeting meet(const ull__convolution *c, const run *r, int64_t row, int64_t column) {
  int64_t y = r->i * c->stride_h - c->pad_h + row * c->dilation_h;
  int64_t shift = c->pad_w - column * c->dilation_w; /* x = j * stride - shift */
  if (y < 0 || y >= c->height) return (meeting){0};
  int64_t first = shift <= 0 ? 0 : divide_up(shift, c->stride_w);
  int64_t last = c->width + shift <= 0 ? 0 : divide_up(c->width + shift, c->stride_w);
  meeting m = {.begin = clamp(first - r->j, 0, r->length),
               .stride = c->stride_w * (int64_t)c->x.spatial_stride};
  m.end = clamp(last - r->j, m.begin, r->length);
  int64_t x = (r->j + m.begin) * c->stride_w - shift;
  m.offset = r->n * (int64_t)c->x.batch_stride + (y * c->width + x) * (int64_t)c->x.spatial_stride;
  return m;
}

/* ---- gathering and scattering ---- */

static void copy_strided(const float *from, int64_t from_stride, float *to, int64_t to_stride,
                         int64_t count) {
  if (from_stride == 1 && to_stride == 1) {
    memcpy(to, from, (size_t)count * sizeof *to);
    return;
  }
  for (int64_t i = 0; i < count; i++) to[i * to_stride] = from[i * from_stride];
}

static void gather_window_row(const tile *t, const float *x, int64_t k) {
  const ull__convolution *c = t->c;
  int64_t area = c->kernel_h * c->kernel_w, at = k % area;
  const float *from = x + channel_offset(&c->x, t->group * c->inputs + k / area);
  float *row = t->windows + k * t->count;
  for (run r = run_at(t, 0);; r = run_at(t, r.at + r.length)) {
    meeting m = meet(c, &r, at / c->kernel_w, at % c->kernel_w);
    float *to = row + r.at;
    for (int64_t i = 0; i < m.begin; i++) to[i] = 0;
    if (m.end > m.begin) copy_strided(from + m.offset, m.stride, to + m.begin, 1, m.end - m.begin);
    for (int64_t i = m.end; i < r.length; i++) to[i] = 0;
    if (r.at + r.length == t->count) return;
  }
}

static void gather_windows(const tile *t, const float *x) {
  int64_t rows = ull__convolution_window(t->c);
  PARALLEL_FOR(rows * t->count > ENOUGH_ELEMENTS)
  for (int64_t k = 0; k < rows; k++) gather_window_row(t, x, k);
}

static void add_window_row(const tile *t, float *to, const float *row, int64_t at) {
  const ull__convolution *c = t->c;
  for (run r = run_at(t, 0);; r = run_at(t, r.at + r.length)) {
    meeting m = meet(c, &r, at / c->kernel_w, at % c->kernel_w);
    const float *from = row + r.at;
    for (int64_t i = m.begin; i < m.end; i++) to[m.offset + (i - m.begin) * m.stride] += from[i];
    if (r.at + r.length == t->count) return;
  }
}

/* All rows of one channel, so that no two threads add to one element. */
static void add_channel_windows(const tile *t, float *dx, int64_t channel) {
  const ull__convolution *c = t->c;
  int64_t area = c->kernel_h * c->kernel_w;
  float *to = dx + channel_offset(&c->x, t->group * c->inputs + channel);
  for (int64_t at = 0; at < area; at++) {
    add_window_row(t, to, t->windows + (channel * area + at) * t->count, at);
  }
}

static void add_windows(const tile *t, float *dx) {
  PARALLEL_FOR(ull__convolution_window(t->c) * t->count > ENOUGH_ELEMENTS)
  for (int64_t channel = 0; channel < t->c->inputs; channel++) add_channel_windows(t, dx, channel);
}

/* Positions of the tile from `at` on that lie in one sample, and the offset of the first in a
 * channel of y. */
static int64_t sample_run(const tile *t, int64_t at, int64_t *offset) {
  const ull__convolution *c = t->c;
  int64_t plane = c->out_height * c->out_width, position = t->first + at;
  *offset = position / plane * (int64_t)c->y.batch_stride +
            position % plane * (int64_t)c->y.spatial_stride;
  return smaller(plane - position % plane, t->count - at);
}

static void gather_side(const tile *t, const float *dy) {
  const ull__convolution *c = t->c;
  PARALLEL_FOR(c->outputs * t->count > ENOUGH_ELEMENTS)
  for (int64_t o = 0; o < c->outputs; o++) {
    const float *from = dy + channel_offset(&c->y, t->group * c->outputs + o);
    for (int64_t at = 0, length, offset; at < t->count; at += length) {
      length = sample_run(t, at, &offset);
      copy_strided(from + offset, (int64_t)c->y.spatial_stride, t->side + o * t->count + at, 1,
                   length);
    }
  }
}

static void scatter_side(const tile *t, const float *bias, float *y) {
  const ull__convolution *c = t->c;
  PARALLEL_FOR(c->outputs * t->count > ENOUGH_ELEMENTS)
  for (int64_t o = 0; o < c->outputs; o++) {
    int64_t channel = t->group * c->outputs + o;
    float *to = y + channel_offset(&c->y, channel), *side = t->side + o * t->count;
    for (int64_t i = 0; bias != NULL && i < t->count; i++) side[i] += bias[channel];
    for (int64_t at = 0, length, offset; at < t->count; at += length) {
      length = sample_run(t, at, &offset);
      copy_strided(side + at, 1, to + offset, (int64_t)c->y.spatial_stride, length);
    }
  }
}

/* ---- the passes ---- */

static const float *group_weight(const tile *t, const float *w) {
  return w + t->group * t->c->outputs * ull__convolution_window(t->c);
}

static void forward_tile(const tile *t, const float *x, const float *w, const float *bias,
                         float *y) {
  int64_t window = ull__convolution_window(t->c);
  gather_windows(t, x);
  GEMM_TEAM(&(ull__gemm){.m = t->c->outputs,
                         .n = t->count,
                         .k = window,
                         .a = group_weight(t, w),
                         .a_row = window,
                         .a_column = 1,
                         .b = t->windows,
                         .b_row = t->count,
                         .b_column = 1,
                         .c = t->side,
                         .c_row = t->count,
                         .scratch = t->scratch});
  scatter_side(t, bias, y);
}

ull_status ULL__ISA_NAME(ull__convolution)(const ull__launch_frame *launch) {
  const ull__convolution *c = launch->constants;
  const float *bias = c->has_bias ? launch->operands[2] : NULL;
  float *y = launch->operands[c->operands];
  tile t = first_tile(c, launch->operands[c->operands + 1]);
  if (c->y.block_count * c->y.block > c->y.channels) memset(y, 0, c->y_bytes);
  for (t.group = 0; t.group < c->groups; t.group++) {
    for (int64_t first = 0; first < position_count(c); first += c->tile) {
      set_first(&t, first);
      forward_tile(&t, launch->operands[0], launch->operands[1], bias, y);
    }
  }
  return ULL_OK;
}

static void backward_input_tile(const tile *t, const float *dy, const float *w, float *dx) {
  int64_t window = ull__convolution_window(t->c);
  gather_side(t, dy);
  GEMM_TEAM(&(ull__gemm){.m = window,
                         .n = t->count,
                         .k = t->c->outputs,
                         .a = group_weight(t, w),
                         .a_row = 1,
                         .a_column = window,
                         .b = t->side,
                         .b_row = t->count,
                         .b_column = 1,
                         .c = t->windows,
                         .c_row = t->count,
                         .scratch = t->scratch});
  add_windows(t, dx);
}

ull_status ULL__ISA_NAME(ull__convolution_backward_input)(const ull__launch_frame *launch) {
  const ull__convolution *c = launch->constants;
  tile t = first_tile(c, launch->operands[3]);
  memset(launch->operands[2], 0, c->x_bytes);
  for (t.group = 0; t.group < c->groups; t.group++) {
    for (int64_t first = 0; first < position_count(c); first += c->tile) {
      set_first(&t, first);
      backward_input_tile(&t, launch->operands[0], launch->operands[1], launch->operands[2]);
    }
  }
  return ULL_OK;
}

static void backward_weight_tile(const tile *t, const float *x, const float *dy, float *dw) {
  int64_t window = ull__convolution_window(t->c);
  gather_windows(t, x);
  gather_side(t, dy);
  GEMM_TEAM(&(ull__gemm){.m = t->c->outputs,
                         .n = window,
                         .k = t->count,
                         .a = t->side,
                         .a_row = t->count,
                         .a_column = 1,
                         .b = t->windows,
                         .b_row = 1,
                         .b_column = t->count,
                         .c = dw + t->group * t->c->outputs * window,
                         .c_row = window,
                         .add = t->first > 0,
                         .scratch = t->scratch});
}

ull_status ULL__ISA_NAME(ull__convolution_backward_weight)(const ull__launch_frame *launch) {
  const ull__convolution *c = launch->constants;
  tile t = first_tile(c, launch->operands[3]);
  for (t.group = 0; t.group < c->groups; t.group++) {
    for (int64_t first = 0; first < position_count(c); first += c->tile) {
      set_first(&t, first);
      backward_weight_tile(&t, launch->operands[0], launch->operands[1], launch->operands[2]);
    }
  }
  return ULL_OK;
}
