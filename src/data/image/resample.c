/* A source row goes through `across` as soon as it comes; an output row is finished with the last
 * source row that it needs. The ring holds as many rows as one output row can need. Filters with
 * more taps than that is worth (tall pictures made very small) add rows to the sums of the few
 * output rows that are open instead. Both give the same integers. */
#include "data/image/resample.h"

#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/isa.h"
#include "data/image/taps.h"
#include "data/loops/resample.h"

enum {
  RING_MOST = 32, /* rows */
  OPEN_ROWS = 4,  /* output rows that a source row can belong to, without the ring */
  SIDE_MOST = 1 << 28,
  OUTPUT_MOST = 1 << 16,
};

struct ull__resampler {
  ull__resample_spec spec;
  const ull__resample_loops *loops;
  ull__axis across_axis, down_axis;
  ull__across across;
  ull__rect need;
  int planes;           /* of a row after `across` */
  int64_t row_elements; /* of all its planes */
  int ring_rows;
  int16_t *ring;
  int16_t *weights;     /* [ring_rows] of the output row that is being finished */
  const int16_t **rows; /* [ring_rows] */
  int32_t *sums;        /* [OPEN_ROWS][row_elements], NULL where the ring is enough */
  ull__tap_run open[OPEN_ROWS];
  int opened;            /* output rows before this one have been opened */
  float *line;           /* [store.channels][plane] */
  uint8_t *narrow;       /* a copy of a row that is shorter than a group of taps; or NULL */
  int y;                 /* of the next source row */
  int next, end;         /* resized rows still to finish */
  int due;               /* the last source row that `next` needs */
  int64_t store_x;       /* distance of pixels in memory order */
  uint8_t *store_origin; /* of the first in memory order */
};

static const ull__resample_loops *choose_loops(void) {
  typedef const ull__resample_loops *(*getter)(void);
  static const getter getters[] = ULL__ISA_TABLE(ull__resample_loops);
  return getters[ull__cpu_isa()]();
}

/* ---- geometry ---- */

static int resized_width(const ull__resample_spec *spec) {
  return spec->resized_width > 0 ? spec->resized_width : spec->width;
}

static int resized_height(const ull__resample_spec *spec) {
  return spec->resized_height > 0 ? spec->resized_height : spec->height;
}

static ull__axis x_axis(const ull__resample_spec *spec) {
  return ull__axis_make(spec->x0, spec->x1, spec->left, spec->right, resized_width(spec),
                        spec->mirror_x);
}

static ull__axis y_axis(const ull__resample_spec *spec) {
  return ull__axis_make(spec->y0, spec->y1, spec->top, spec->bottom, resized_height(spec),
                        spec->mirror_y);
}

/* The resized pixel that an output pixel shows, or -1. */
static int shown(ull_padding padding, int at, int extent) {
  if (at >= 0 && at < extent) return at;
  if (padding == ULL_PADDING_ZERO) return -1;
  at = at < 0 ? -at : 2 * (extent - 1) - at;
  return at >= 0 && at < extent ? at : -1;
}

/* Resized pixels that are shown: [*begin, *end); none where both are 0. */
static void shown_range(ull_padding padding, int shift, int outputs, int extent, int *begin,
                        int *end) {
  *begin = extent;
  *end = 0;
  for (int i = 0; i < outputs; i++) {
    int at = shown(padding, i + shift, extent);
    if (at < 0) continue;
    if (at < *begin) *begin = at;
    if (at >= *end) *end = at + 1;
  }
  if (*end == 0) *begin = 0;
}

static void range_of(const ull__resample_spec *spec, const ull__axis *axis, int output, int *first,
                     int *count) {
  if (spec->filter == ULL__FILTER_TRIANGLE) {
    ull__axis_range(axis, output, first, count);
  } else {
    *first = ull__axis_nearest(axis, output);
    *count = 1;
  }
}

static void needed(const ull__resample_spec *spec, const ull__axis *axis, int begin, int end,
                   int *first, int *count) {
  int last_first, last_count;
  range_of(spec, axis, begin, first, count);
  range_of(spec, axis, end > begin ? end - 1 : begin, &last_first, &last_count);
  *count = last_first + last_count - *first;
}

ull__rect ull__resample_region(const ull__resample_spec *spec) {
  ull__axis x = x_axis(spec), y = y_axis(spec);
  ull__rect rect;
  int begin, end;
  shown_range(spec->padding, spec->shift_x, spec->width, x.outputs, &begin, &end);
  needed(spec, &x, begin, end, &rect.x, &rect.width);
  shown_range(spec->padding, spec->shift_y, spec->height, y.outputs, &begin, &end);
  needed(spec, &y, begin, end, &rect.y, &rect.height);
  return rect;
}

static int divide_up(int a, int b) {
  return a / b + (a % b > 0);
}

void ull__resample_deliver(ull__resample_spec *spec, const ull__image_delivery *delivery) {
  double scale = 1.0 / delivery->reduction;
  spec->x0 *= scale;
  spec->x1 *= scale;
  spec->y0 *= scale;
  spec->y1 *= scale;
  spec->left *= scale;
  spec->right *= scale;
  spec->top *= scale;
  spec->bottom *= scale;
  spec->mirror_x = divide_up(spec->mirror_x, delivery->reduction);
  spec->mirror_y = divide_up(spec->mirror_y, delivery->reduction);
  spec->pixels = delivery->region;
}

/* ---- memory ---- */

typedef struct plan {
  int padded_width; /* outputs of `across` */
  int64_t plane, row_elements;
  int planes;
  int64_t across_taps, ring_rows;
  bool sums, narrow;
  int lines;
  uint64_t bytes;
} plan;

static ull_status refuse(const char *what) {
  return ULL__FAIL(ULL_ERROR_INVALID, "resampling: %s", what);
}

static bool is_side(int extent) {
  return extent > 0 && extent <= OUTPUT_MOST;
}

static ull_status check(const ull__resample_spec *spec) {
  bool nearest = spec->filter == ULL__FILTER_NEAREST;
  if (!is_side(spec->width) || !is_side(spec->height)) return refuse("no such output");
  if (spec->resized_width > SIDE_MOST || spec->resized_height > SIDE_MOST ||
      spec->resized_width < 0 || spec->resized_height < 0) {
    return refuse("no such resized picture");
  }
  if (!(spec->x1 > spec->x0) || !(spec->y1 > spec->y0) || !(spec->right > spec->left) ||
      !(spec->bottom > spec->top)) {
    return refuse("an empty window");
  }
  const double slack = 0.01;
  if (spec->x0 < spec->left - slack || spec->x1 > spec->right + slack ||
      spec->y0 < spec->top - slack || spec->y1 > spec->bottom + slack) {
    return refuse("a window beyond the picture");
  }
  if (spec->x1 - spec->x0 > SIDE_MOST || spec->y1 - spec->y0 > SIDE_MOST) {
    return refuse("the window is too large");
  }
  if (spec->channels != 1 && (spec->channels != 4 || nearest)) return refuse("source channels");
  if (spec->store.channels != 1 && (spec->store.channels != 3 || nearest)) {
    return refuse("output channels");
  }
  if (spec->channels == 4 && spec->store.channels != 3) return refuse("colour cannot become grey");
  switch (spec->store.dtype) {
  case ULL_UINT8:
  case ULL_FLOAT32:
  case ULL_FLOAT16:
  case ULL_BFLOAT16:
    return ULL_OK;
  case ULL_INT64:
  case ULL_INT32:
    return nearest ? ULL_OK : refuse("integers hold class numbers only");
  default:
    return refuse("no such output dtype");
  }
}

static ull_status add(plan *plan, uint64_t count, uint64_t size) {
  uint64_t bytes;
  ULL__TRY(ull__size_mul(count, size, "resampling", &bytes));
  ULL__TRY(ull__size_align(bytes, ULL__SCRATCH_ALIGNMENT, "resampling", &bytes));
  return ull__size_add(plan->bytes, bytes, "resampling", &plan->bytes);
}

static ull_status make_plan(const ull__resample_spec *spec, plan *plan) {
  ull__axis x = x_axis(spec), y = y_axis(spec);
  bool triangle = spec->filter == ULL__FILTER_TRIANGLE;
  *plan = (struct plan){.planes = spec->channels == 4 ? 3 : 1, .lines = spec->store.channels};
  plan->padded_width = (int)ull__align_up((uint64_t)spec->width, ULL__ACROSS_BLOCK);
  plan->plane = (int64_t)ull__align_up((uint64_t)spec->width, ULL__DOWN_PAD);
  plan->row_elements = plan->plane * plan->planes;
  ULL__TRY(add(plan, 1, sizeof(ull__resampler)));
  ULL__TRY(add(plan, (uint64_t)plan->padded_width, sizeof(int32_t)));
  ULL__TRY(add(plan, (uint64_t)(plan->plane * plan->lines), sizeof(float)));
  if (!triangle) return ULL_OK;
  int64_t taps = ull__axis_most_taps(&y);
  plan->across_taps = (int64_t)ull__align_up((uint64_t)ull__axis_most_taps(&x), ULL__ACROSS_TAPS);
  plan->sums = taps > RING_MOST;
  plan->ring_rows = plan->sums ? 2 : (int64_t)ull__align_up((uint64_t)taps, 2);
  ULL__TRY(add(plan, (uint64_t)plan->padded_width * (uint64_t)plan->across_taps, sizeof(int16_t)));
  ULL__TRY(add(plan, (uint64_t)(plan->ring_rows * plan->row_elements), sizeof(int16_t)));
  ULL__TRY(add(plan, (uint64_t)plan->ring_rows, sizeof(int16_t)));
  ULL__TRY(add(plan, (uint64_t)plan->ring_rows, sizeof(int16_t *)));
  if (plan->sums) ULL__TRY(add(plan, (uint64_t)(OPEN_ROWS * plan->row_elements), sizeof(int32_t)));
  return add(plan, (uint64_t)plan->across_taps, 4);
}

ull_status ull__resample_bytes(const ull__resample_spec *spec, uint64_t *bytes) {
  plan plan;
  ULL__TRY(check(spec));
  ULL__TRY(make_plan(spec, &plan));
  *bytes = plan.bytes + ULL__SCRATCH_ALIGNMENT;
  return ULL_OK;
}

static ull_status take(ull__scratch *scratch, uint64_t bytes, void *out) {
  void *memory = ull__scratch_take(scratch, bytes);
  if (memory == NULL) return refuse("the scratch is too small");
  memcpy(out, &memory, sizeof memory);
  return ULL_OK;
}

static ull_status place(ull__resampler *r, const plan *plan, ull__scratch *scratch, int32_t **first,
                        int16_t **weights) {
  uint64_t outputs = (uint64_t)plan->padded_width, row = (uint64_t)plan->row_elements;
  uint64_t ring_rows = (uint64_t)plan->ring_rows;
  ULL__TRY(take(scratch, outputs * sizeof(int32_t), first));
  ULL__TRY(take(scratch, (uint64_t)(plan->plane * plan->lines) * sizeof(float), &r->line));
  if (r->spec.filter != ULL__FILTER_TRIANGLE) return ULL_OK;
  ULL__TRY(take(scratch, outputs * (uint64_t)plan->across_taps * sizeof(int16_t), weights));
  ULL__TRY(take(scratch, ring_rows * row * sizeof(int16_t), &r->ring));
  ULL__TRY(take(scratch, ring_rows * sizeof(int16_t), &r->weights));
  ULL__TRY(take(scratch, ring_rows * sizeof(int16_t *), &r->rows));
  if (plan->sums) ULL__TRY(take(scratch, OPEN_ROWS * row * sizeof(int32_t), &r->sums));
  ULL__TRY(take(scratch, (uint64_t)plan->across_taps * 4, &r->narrow));
  memset(r->ring, 0, ring_rows * row * sizeof(int16_t));
  r->ring_rows = (int)plan->ring_rows;
  r->across.groups = (int)(plan->across_taps / ULL__ACROSS_TAPS);
  return ULL_OK;
}

/* ---- tables ---- */

/* The output column at a place in memory order. */
static int column_at(const ull__resample_spec *spec, int place) {
  return spec->store.x_stride < 0 ? spec->width - 1 - place : place;
}

static void fill_column(const ull__resampler *r, int place, int output, int32_t *first,
                        int16_t *weights) {
  int row_pixels = r->spec.pixels.width, taps = r->across.groups * ULL__ACROSS_TAPS;
  ull__tap_run run = ull__tap_run_begin(&r->across_axis, output);
  int begin = run.first - r->spec.pixels.x;
  int most = row_pixels > taps ? row_pixels - taps : 0, lead = begin > most ? begin - most : 0;
  first[place] = begin - lead;
  int16_t *block = weights + (int64_t)(place / 4) * 4 * taps + place % 4 * ULL__ACROSS_TAPS;
  for (int tap = lead; tap < lead + run.count; tap++) {
    block[tap / 4 * 16 + tap % 4] = ull__tap_run_next(&run);
  }
}

static void fill_columns(ull__resampler *r, const plan *plan, int32_t *first, int16_t *weights) {
  const ull__resample_spec *spec = &r->spec;
  memset(first, 0, (size_t)plan->padded_width * sizeof *first);
  memset(weights, 0, (size_t)(plan->padded_width * plan->across_taps) * sizeof *weights);
  for (int place = 0; place < spec->width; place++) {
    int output =
        shown(spec->padding, column_at(spec, place) + spec->shift_x, r->across_axis.outputs);
    if (output >= 0) fill_column(r, place, output, first, weights);
  }
  r->across.outputs = plan->padded_width;
  r->across.plane = plan->plane;
  r->across.first = first;
  r->across.weights = weights;
  if (spec->pixels.width >= plan->across_taps) {
    r->narrow = NULL;
  } else {
    memset(r->narrow, 0, (size_t)plan->across_taps * 4);
  }
}

static void fill_nearest_columns(ull__resampler *r, int32_t *first) {
  const ull__resample_spec *spec = &r->spec;
  for (int place = 0; place < spec->width; place++) {
    int output =
        shown(spec->padding, column_at(spec, place) + spec->shift_x, r->across_axis.outputs);
    first[place] = output < 0 ? -1 : ull__axis_nearest(&r->across_axis, output) - spec->pixels.x;
  }
  r->across.first = first;
}

/* ---- output rows ---- */

static void *store_place(const ull__resampler *r, int y, int channel) {
  const ull__pixel_store *store = &r->spec.store;
  int64_t element = y * store->y_stride + channel * store->c_stride;
  return r->store_origin + element * (int64_t)ull_dtype_bytes(store->dtype);
}

static bool stores_floats(const ull__resampler *r) {
  return r->spec.store.dtype == ULL_FLOAT32 && r->store_x == 1;
}

static bool stores_rgb(const ull__resampler *r) {
  const ull__pixel_store *store = &r->spec.store;
  return store->dtype == ULL_UINT8 && store->channels == 3 && store->c_stride == 1 &&
         r->store_x == 3;
}

/* Where the floats of a channel go first. */
static float *line_of(const ull__resampler *r, int y, int channel) {
  return stores_floats(r) ? store_place(r, y, channel) : r->line + channel * r->across.plane;
}

static void store_line(const ull__resampler *r, int y) {
  const ull__pixel_store *store = &r->spec.store;
  if (stores_floats(r)) return;
  if (stores_rgb(r)) {
    r->loops->store_rgb(r->line, r->across.plane, r->spec.width, store_place(r, y, 0));
    return;
  }
  ull__row_store how = {.dtype = store->dtype, .stride = r->store_x};
  for (int c = 0; c < store->channels; c++) {
    r->loops->store(r->line + c * r->across.plane, r->spec.width, &how, store_place(r, y, c));
  }
}

/* Gathers one resized row down into output row `y`. */
static void gather_row(const ull__resampler *r, int output, int taps, int y) {
  const ull__pixel_store *store = &r->spec.store;
  const int32_t *sums = r->sums == NULL ? NULL : r->sums + output % OPEN_ROWS * r->row_elements;
  for (int c = 0; c < store->channels; c++) {
    float scale = store->scale[c] * 0x1p-22f, *to = line_of(r, y, c);
    int64_t offset = r->planes == 1 ? 0 : c * r->across.plane;
    if (sums == NULL) {
      r->loops->down(r->rows, offset, r->weights, taps, r->spec.width, scale, store->bias[c], to);
    } else {
      r->loops->down_end(sums + offset, r->spec.width, scale, store->bias[c], to);
    }
  }
  store_line(r, y);
}

static void nearest_row(const ull__resampler *r, const uint8_t *pixels, int y) {
  const ull__pixel_store *store = &r->spec.store;
  float *to = line_of(r, y, 0);
  for (int x = 0; x < r->spec.width; x++) {
    int32_t from = pixels == NULL ? -1 : r->across.first[x];
    to[x] = (float)(from < 0 ? r->spec.fill : pixels[from]) * store->scale[0] + store->bias[0];
  }
  store_line(r, y);
}

static void empty_row(const ull__resampler *r, int y) {
  const ull__pixel_store *store = &r->spec.store;
  if (r->spec.filter == ULL__FILTER_NEAREST) {
    nearest_row(r, NULL, y);
    return;
  }
  for (int c = 0; c < store->channels; c++) {
    float *to = line_of(r, y, c);
    for (int x = 0; x < r->spec.width; x++) to[x] = 0.0f * store->scale[c] + store->bias[c];
  }
  store_line(r, y);
}

/* Makes everything that the output needs ready for `gather_row`; the number of taps, even. */
static int prepare_row(ull__resampler *r, int output) {
  if (r->sums != NULL) return 0;
  ull__tap_run run = ull__tap_run_begin(&r->down_axis, output);
  int count = run.count, slot = (run.first - r->need.y) % r->ring_rows;
  for (int tap = 0; tap < count; tap++) {
    r->rows[tap] = r->ring + slot * r->row_elements;
    r->weights[tap] = ull__tap_run_next(&run);
    if (++slot == r->ring_rows) slot = 0;
  }
  if (count % 2 == 0) return count;
  r->rows[count] = r->rows[count - 1];
  r->weights[count] = 0;
  return count + 1;
}

/* Writes a resized row to each output row that shows it: reflection shows rows twice. */
static void finish_row(ull__resampler *r, int output, const uint8_t *pixels) {
  const ull__resample_spec *spec = &r->spec;
  int last = r->down_axis.outputs - 1;
  const int places[3] = {output, -output, 2 * last - output};
  bool triangle = spec->filter == ULL__FILTER_TRIANGLE;
  int taps = triangle ? prepare_row(r, output) : 0;
  for (int i = 0; i < (spec->padding == ULL_PADDING_ZERO ? 1 : 3); i++) {
    int y = places[i] - spec->shift_y;
    if (y < 0 || y >= spec->height || (i > 0 && places[i] == output)) continue;
    if (i > 0 && shown(spec->padding, places[i], last + 1) != output) continue;
    if (triangle) {
      gather_row(r, output, taps, y);
    } else {
      nearest_row(r, pixels, y);
    }
  }
}

/* ---- the stream ---- */

static void set_due(ull__resampler *r) {
  int first, count;
  range_of(&r->spec, &r->down_axis, r->next, &first, &count);
  r->due = first + count - 1;
}

static ull_status check_pixels(ull__resampler *r) {
  const ull__rect *have = &r->spec.pixels, *need = &r->need;
  if (need->x >= have->x && need->y >= have->y && need->x + need->width <= have->x + have->width &&
      need->y + need->height <= have->y + have->height) {
    return ULL_OK;
  }
  return ULL__FAIL(
      ULL_ERROR_INVALID,
      "resampling needs pixels (%d, %d) to (%d, %d) and would get (%d, %d) to (%d, %d)", need->x,
      need->y, need->x + need->width, need->y + need->height, have->x, have->y,
      have->x + have->width, have->y + have->height);
}

static void set_store(ull__resampler *r) {
  const ull__pixel_store *store = &r->spec.store;
  bool backwards = store->x_stride < 0;
  int64_t origin = backwards ? (r->spec.width - 1) * store->x_stride : 0;
  r->store_x = backwards ? -store->x_stride : store->x_stride;
  r->store_origin = (uint8_t *)store->base + origin * (int64_t)ull_dtype_bytes(store->dtype);
}

static void set_outputs(ull__resampler *r) {
  const ull__resample_spec *spec = &r->spec;
  shown_range(spec->padding, spec->shift_y, spec->height, r->down_axis.outputs, &r->next, &r->end);
  r->opened = r->next;
  set_due(r);
  r->y = spec->pixels.y;
  for (int y = 0; y < spec->height; y++) {
    if (shown(spec->padding, y + spec->shift_y, r->down_axis.outputs) < 0) empty_row(r, y);
  }
}

ull_status ull__resample_begin(const ull__resample_spec *spec, ull__scratch *scratch,
                               ull__resampler **out) {
  plan plan;
  int32_t *first = NULL;
  int16_t *weights = NULL;
  ull__resampler *r;
  ULL__TRY(check(spec));
  ULL__TRY(make_plan(spec, &plan));
  ULL__TRY(take(scratch, sizeof *r, &r));
  *r = (ull__resampler){.spec = *spec, .loops = choose_loops(), .planes = plan.planes};
  r->across_axis = x_axis(spec);
  r->down_axis = y_axis(spec);
  r->row_elements = plan.row_elements;
  r->need = ull__resample_region(spec);
  ULL__TRY(check_pixels(r));
  ULL__TRY(place(r, &plan, scratch, &first, &weights));
  if (spec->filter == ULL__FILTER_TRIANGLE) {
    fill_columns(r, &plan, first, weights);
  } else {
    fill_nearest_columns(r, first);
  }
  set_store(r);
  set_outputs(r);
  *out = r;
  return ULL_OK;
}

static int16_t *gather_across(ull__resampler *r, const uint8_t *pixels) {
  int slot = r->sums == NULL ? (r->y - r->need.y) % r->ring_rows : 0;
  int16_t *to = r->ring + (int64_t)slot * r->row_elements;
  if (r->narrow != NULL) {
    memcpy(r->narrow, pixels, (size_t)r->spec.pixels.width * (size_t)r->spec.channels);
    pixels = r->narrow;
  }
  if (r->planes == 3) {
    r->loops->across_colour(&r->across, pixels, to);
  } else {
    r->loops->across_grey(&r->across, pixels, to);
  }
  return to;
}

/* Adds the row to the sums of every output row that it belongs to. */
static void add_row(ull__resampler *r, const int16_t *row) {
  int first, count;
  for (; r->opened < r->end; r->opened++) {
    ull__axis_range(&r->down_axis, r->opened, &first, &count);
    if (first > r->y) break;
    r->open[r->opened % OPEN_ROWS] = ull__tap_run_begin(&r->down_axis, r->opened);
    memset(r->sums + r->opened % OPEN_ROWS * r->row_elements, 0,
           (size_t)r->row_elements * sizeof *r->sums);
  }
  for (int output = r->next; output < r->opened; output++) {
    int16_t weight = ull__tap_run_next(&r->open[output % OPEN_ROWS]);
    r->loops->down_add(row, weight, r->row_elements,
                       r->sums + output % OPEN_ROWS * r->row_elements);
  }
}

ull_status ull__resample_row(void *context, int y, const uint8_t *pixels) {
  ull__resampler *r = context;
  (void)y;
  if (r->y >= r->need.y && r->next < r->end) {
    if (r->spec.filter == ULL__FILTER_TRIANGLE) {
      const int16_t *row = gather_across(r, pixels);
      if (r->sums != NULL) add_row(r, row);
    }
    while (r->next < r->end && r->due <= r->y) {
      finish_row(r, r->next, pixels);
      r->next++;
      set_due(r);
    }
  }
  r->y++;
  return ULL_OK;
}

/* ---- finished bytes ---- */

void ull__pixels_store(const uint8_t *pixels, int width, int height, const ull__pixel_store *store,
                       float *line) {
  const ull__resample_loops *loops = choose_loops();
  ull__row_store how = {.dtype = store->dtype, .stride = store->x_stride};
  int channels = store->channels;
  for (int64_t y = 0; y < height; y++) {
    const uint8_t *row = pixels + y * width * channels;
    for (int c = 0; c < channels; c++) {
      int64_t at = y * store->y_stride + c * store->c_stride;
      loops->scale_bytes(row + c, channels, width, store->scale[c], store->bias[c], line);
      loops->store(line, width, &how,
                   (uint8_t *)store->base + at * (int64_t)ull_dtype_bytes(store->dtype));
    }
  }
}
