/* A source row goes through `across` as soon as it comes; an output row is finished with the last
 * source row that it needs. The ring holds as many rows as one output row can need. Filters with
 * more taps than that is worth (tall pictures made very small) add rows to the sums of the few
 * output rows that are open instead. Both give the same integers. */
#include "data/image/resample.h"

#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/isa.h"
#include "data/image/resample_window.h"
#include "data/loops/resample.h"

enum {
  RING_MOST = 32, /* rows */
  OPEN_ROWS = 4,  /* output rows that a source row can belong to, without the ring */
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

static ull_status add(plan *plan, uint64_t count, uint64_t size) {
  uint64_t bytes;
  ULL__TRY(ull__size_mul(count, size, "resampling", &bytes));
  ULL__TRY(ull__size_align(bytes, ULL__SCRATCH_ALIGNMENT, "resampling", &bytes));
  return ull__size_add(plan->bytes, bytes, "resampling", &plan->bytes);
}

static ull_status make_plan(const ull__resample_spec *spec, plan *plan) {
  ull__axis x = ull__resample_axis(&spec->x), y = ull__resample_axis(&spec->y);
  bool triangle = spec->filter == ULL__FILTER_TRIANGLE;
  *plan = (struct plan){.planes = spec->channels == 4 ? 3 : 1, .lines = spec->store.channels};
  plan->padded_width = (int)ull__align_up((uint64_t)spec->x.outputs, ULL__ACROSS_BLOCK);
  plan->plane = (int64_t)ull__align_up((uint64_t)spec->x.outputs, ULL__DOWN_PAD);
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
  ULL__TRY(ull__resample_check(spec));
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

/* The resized column that is shown at a place in memory order, or -1. */
static int shown_column(const ull__resampler *r, int place) {
  const ull__resample_spec *spec = &r->spec;
  int output = spec->store.x_stride < 0 ? spec->x.outputs - 1 - place : place;
  return ull__resample_shown(spec->padding, output + spec->x.shift, r->across_axis.outputs);
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
  for (int place = 0; place < spec->x.outputs; place++) {
    int output = shown_column(r, place);
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
  for (int place = 0; place < spec->x.outputs; place++) {
    int output = shown_column(r, place);
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
    r->loops->store_rgb(r->line, r->across.plane, r->spec.x.outputs, store_place(r, y, 0));
    return;
  }
  ull__row_store how = {.dtype = store->dtype, .stride = r->store_x};
  for (int c = 0; c < store->channels; c++) {
    r->loops->store(r->line + c * r->across.plane, r->spec.x.outputs, &how, store_place(r, y, c));
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
      r->loops->down(r->rows, offset, r->weights, taps, r->spec.x.outputs, scale, store->bias[c],
                     to);
    } else {
      r->loops->down_end(sums + offset, r->spec.x.outputs, scale, store->bias[c], to);
    }
  }
  store_line(r, y);
}

static void nearest_row(const ull__resampler *r, const uint8_t *pixels, int y) {
  const ull__pixel_store *store = &r->spec.store;
  float *to = line_of(r, y, 0);
  for (int x = 0; x < r->spec.x.outputs; x++) {
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
    for (int x = 0; x < r->spec.x.outputs; x++) to[x] = 0.0f * store->scale[c] + store->bias[c];
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
    int y = places[i] - spec->y.shift;
    if (y < 0 || y >= spec->y.outputs || (i > 0 && places[i] == output)) continue;
    if (i > 0 && ull__resample_shown(spec->padding, places[i], last + 1) != output) continue;
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
  ull__resample_range(r->spec.filter, &r->down_axis, r->next, &first, &count);
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
  int64_t origin = backwards ? (r->spec.x.outputs - 1) * store->x_stride : 0;
  r->store_x = backwards ? -store->x_stride : store->x_stride;
  r->store_origin = (uint8_t *)store->base + origin * (int64_t)ull_dtype_bytes(store->dtype);
}

static void set_outputs(ull__resampler *r) {
  const ull__resample_spec *spec = &r->spec;
  ull__resample_shown_range(spec->padding, &spec->y, &r->next, &r->end);
  r->opened = r->next;
  set_due(r);
  r->y = spec->pixels.y;
  for (int y = 0; y < spec->y.outputs; y++) {
    if (ull__resample_shown(spec->padding, y + spec->y.shift, r->down_axis.outputs) < 0)
      empty_row(r, y);
  }
}

ull_status ull__resample_begin(const ull__resample_spec *spec, ull__scratch *scratch,
                               ull__resampler **out) {
  plan plan;
  int32_t *first = NULL;
  int16_t *weights = NULL;
  ull__resampler *r;
  ULL__TRY(ull__resample_check(spec));
  ULL__TRY(make_plan(spec, &plan));
  ULL__TRY(take(scratch, sizeof *r, &r));
  *r = (ull__resampler){.spec = *spec, .loops = choose_loops(), .planes = plan.planes};
  r->across_axis = ull__resample_axis(&spec->x);
  r->down_axis = ull__resample_axis(&spec->y);
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
