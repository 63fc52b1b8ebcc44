/* Backward of self-attention, one head of one sample a task; the weights are computed again from
 * logsumexp, tile by tile.
 *
 *     P = exp(S - logsumexp)   dP = dY V^T   dS = P (dP - rowsum(dY Y)) scale
 *     dV = P^T dY   dK = dS^T Q   dQ = dS K
 *
 * Tiles of P and dS are held transposed, [panel of queries][key][PANEL_COLUMNS]: as they are, they
 * are panels of B for dQ^T = K^T dS^T and, read along rows, of A for dK and dV. Blocks of queries
 * are the outer loop; dK and dV grow in their place in dqkv, in that order. */
#include "base/error.h"
#include "kernels/cpu/loops/attention_panels.h"

enum { KEYS = ULL__ATTENTION_BACKWARD_KEYS, QUERIES = ULL__ATTENTION_BACKWARD_QUERIES };
enum { PANELS = QUERIES / PANEL_COLUMNS };
_Static_assert(QUERIES % PANEL_COLUMNS == 0, "whole panels");

typedef struct head {
  const ull__attention *a;
  const float *q, *y, *dy, *logsumexp;
  float *dq;
  int64_t stride, width;
  /* packed once a head: rows of keys and values, columns of keys */
  float *keys, *values, *key_columns;
  /* packed once a block of queries: columns across (scaled q, dy), rows across (q, dy) */
  float *queries, *gradients, *query_rows, *gradient_rows;
  float *weights, *slopes; /* tiles of P and dS */
  float *shifts, *deltas;  /* logsumexp and rowsum(dY Y) of the block's queries */
  float *dq_sums;          /* dQ^T, [panel][d][PANEL_COLUMNS] */
  float *run_room;
  runs documents;
} head;

/* The queries of a block and the keys of a tile. */
typedef struct tile {
  int64_t query, queries, key, keys;
} tile;

INLINE int64_t panel_size(const head *h) {
  return round_rows(h->a->size) * PANEL_COLUMNS;
}

/* ---- packing a block of queries ---- */

static void scale_panel(float *panel, int64_t count, float by) {
  vfloat scale = splat(by);
  for (int64_t i = 0; i < count; i += LANES) store(panel + i, load(panel + i) * scale);
}

static void pack_across(const float *from, int64_t stride, int64_t rows, int64_t size, float *to) {
  for (int64_t column = 0; column < size; column += PANEL_COLUMNS) {
    float *panel = to + column * QUERIES;
    pack_panel(from + column, 1, stride, smaller(PANEL_COLUMNS, size - column), rows, panel,
               PANEL_COLUMNS);
    memset(panel + rows * PANEL_COLUMNS, 0,
           (size_t)((QUERIES - rows) * PANEL_COLUMNS) * sizeof *panel);
  }
}

static float dot(const float *x, const float *y, int64_t count) {
  vfloat sum = {0};
  for (int64_t i = 0; i < count; i += LANES) {
    sum = multiply_add(load_some(x + i, count - i), load_some(y + i, count - i), sum);
  }
  return (float)sum_lanes(to_double(sum));
}

static void pack_block(const head *h, int64_t query, int64_t count) {
  const ull__attention *a = h->a;
  const float *q = h->q + query * h->stride, *dy = h->dy + query * h->width;
  for (int64_t at = 0; at < count; at += PANEL_COLUMNS) {
    int64_t columns = smaller(PANEL_COLUMNS, count - at);
    float *panel = h->queries + at * a->size;
    pack_panel(q + at * h->stride, h->stride, 1, columns, a->size, panel, PANEL_COLUMNS);
    scale_panel(panel, a->size * PANEL_COLUMNS, a->scale);
    pack_panel(dy + at * h->width, h->width, 1, columns, a->size, h->gradients + at * a->size,
               PANEL_COLUMNS);
  }
  pack_across(q, h->stride, count, a->size, h->query_rows);
  pack_across(dy, h->width, count, a->size, h->gradient_rows);
  for (int64_t i = 0; i < QUERIES; i++) {
    const float *y = h->y + (query + i) * h->width;
    h->shifts[i] = i < count ? h->logsumexp[query + i] : INFINITY;
    h->deltas[i] = i < count ? dot(dy + i * h->width, y, a->size) : 0;
  }
}

/* ---- a tile of P and dS ---- */

/* Rows of keys and of values from `key` on against panel `p`: one strip of P and one of dS. */
INLINE void find_strip(const head *h, const tile *t, int64_t p, int64_t at, int vectors) {
  int64_t size = h->a->size, key = t->key + at, query = t->query + p * PANEL_COLUMNS;
  float *weights = h->weights + (p * KEYS + at) * PANEL_COLUMNS;
  float *slopes = h->slopes + (p * KEYS + at) * PANEL_COLUMNS;
  bool masked = h->a->causal && key + PANEL_ROWS > query;
  bool mixed = h->documents.first != NULL;
  panel_sums sums;
  clear_sums(sums, vectors);
  multiply_panels(size, h->keys + key * size, 1, PANEL_ROWS, h->queries + p * PANEL_COLUMNS * size,
                  vectors, sums);
  for (int i = 0; i < PANEL_ROWS; i++) {
    for (int j = 0; j < vectors; j++) {
      vfloat shift = load(h->shifts + p * PANEL_COLUMNS + j * LANES);
      vfloat weight = element_exp(sums[i][j] - shift);
      if (masked) weight = choose(sees(key + i, query, j), weight, (vfloat){0});
      if (mixed) {
        weight = choose(shares_document(&h->documents, key + i, query, j), weight, (vfloat){0});
      }
      store(weights + i * PANEL_COLUMNS + j * LANES, weight);
    }
  }
  clear_sums(sums, vectors);
  multiply_panels(size, h->values + key * size, 1, PANEL_ROWS,
                  h->gradients + p * PANEL_COLUMNS * size, vectors, sums);
  vfloat scale = splat(h->a->scale);
  for (int i = 0; i < PANEL_ROWS; i++) {
    for (int j = 0; j < vectors; j++) {
      vfloat delta = load(h->deltas + p * PANEL_COLUMNS + j * LANES);
      vfloat weight = load(weights + i * PANEL_COLUMNS + j * LANES);
      store(slopes + i * PANEL_COLUMNS + j * LANES, weight * (sums[i][j] - delta) * scale);
    }
  }
}

static void find_tile(const head *h, const tile *t, int64_t first_panel, int64_t panels) {
  for (int64_t p = first_panel; p < panels; p++) {
    for (int64_t at = 0; at < t->keys; at += PANEL_ROWS) find_strip(h, t, p, at, PANEL_VECTORS);
  }
}

/* ---- products of a tile ---- */

static void add_dq(const head *h, const tile *t, int64_t p) {
  int64_t size = h->a->size, time = h->a->time;
  for (int64_t d = 0; d < size; d += PANEL_ROWS) {
    panel_sums sums;
    float *to = h->dq_sums + p * panel_size(h) + d * PANEL_COLUMNS;
    UNROLL(16) for (int i = 0; i < PANEL_ROWS; i++) {
      UNROLL(8) for (int j = 0; j < PANEL_VECTORS; j++) {
        sums[i][j] = load(to + i * PANEL_COLUMNS + j * LANES);
      }
    }
    multiply_panels(t->keys, h->key_columns + d * time + t->key * PANEL_ROWS, 1, PANEL_ROWS,
                    h->slopes + p * KEYS * PANEL_COLUMNS, PANEL_VECTORS, sums);
    UNROLL(16) for (int i = 0; i < PANEL_ROWS; i++) {
      UNROLL(8) for (int j = 0; j < PANEL_VECTORS; j++) {
        store(to + i * PANEL_COLUMNS + j * LANES, sums[i][j]);
      }
    }
  }
}

/* Adds the first `rows` x `columns` sums to rows `stride` apart. */
INLINE void add_sums(float *to, int64_t stride, int64_t rows, int64_t columns, int vectors,
                     panel_sums sums) {
  for (int i = 0; i < PANEL_ROWS; i++) {
    for (int j = 0; j < vectors; j++) {
      int64_t left = columns - j * LANES;
      float *at = to + i * stride + j * LANES;
      if (i < rows && left > 0) store_some(at, load_some(at, left) + sums[i][j], left);
    }
  }
}

/* to[key][d] += tile[key][query] right[query][d], for one panel of keys and one of d. */
INLINE void add_strip(const float *tile_rows, int64_t first_panel, int64_t panels,
                      const float *right, int vectors, panel_sums sums) {
  clear_sums(sums, vectors);
  for (int64_t p = first_panel; p < panels; p++) {
    multiply_panels(PANEL_COLUMNS, tile_rows + p * KEYS * PANEL_COLUMNS, PANEL_COLUMNS, 1,
                    right + p * PANEL_COLUMNS * PANEL_COLUMNS, vectors, sums);
  }
}

#define ADD_ROWS(name, vectors)                                                                    \
  static void name(const head *h, const tile *t, int64_t first_panel, int64_t panels, int64_t at,  \
                   int64_t d, const float *tile_start, const float *right, float *to) {            \
    panel_sums sums;                                                                               \
    add_strip(tile_start + at * PANEL_COLUMNS, first_panel, panels, right + d * QUERIES, vectors,  \
              sums);                                                                               \
    add_sums(to + (t->key + at) * h->stride + d, h->stride, t->keys - at, h->a->size - d, vectors, \
             sums);                                                                                \
  }
ADD_ROWS(add_one_vector, 1)
ADD_ROWS(add_two_vectors, 2)
ADD_ROWS(add_all_vectors, PANEL_VECTORS)

static void add_rows(const head *h, const tile *t, int64_t first_panel, int64_t panels,
                     const float *tile_start, const float *right, float *to) {
  for (int64_t d = 0; d < h->a->size; d += PANEL_COLUMNS) {
    int64_t left = h->a->size - d;
    for (int64_t at = 0; at < t->keys; at += PANEL_ROWS) {
      if (left <= LANES) {
        add_one_vector(h, t, first_panel, panels, at, d, tile_start, right, to);
      } else if (left <= 2 * LANES) {
        add_two_vectors(h, t, first_panel, panels, at, d, tile_start, right, to);
      } else {
        add_all_vectors(h, t, first_panel, panels, at, d, tile_start, right, to);
      }
    }
  }
}

/* ---- a head ---- */

static void run_block(const head *h, int64_t query, int64_t count) {
  const ull__attention *a = h->a;
  int64_t panels = divide_up(count, PANEL_COLUMNS);
  int64_t end = end_of_keys(a, &h->documents, query, count);
  pack_block(h, query, count);
  memset(h->dq_sums, 0, (size_t)(PANELS * panel_size(h)) * sizeof *h->dq_sums);
  for (int64_t key = first_key(&h->documents, query); key < end; key += KEYS) {
    tile t = {query, count, key, smaller(KEYS, end - key)};
    int64_t hidden = a->causal ? larger(key - query, 0) / PANEL_COLUMNS : 0;
    find_tile(h, &t, hidden, panels);
    for (int64_t p = hidden; p < panels; p++) add_dq(h, &t, p);
    add_rows(h, &t, hidden, panels, h->slopes, h->query_rows, h->dq + h->width);
    add_rows(h, &t, hidden, panels, h->weights, h->gradient_rows, h->dq + 2 * h->width);
  }
  for (int64_t p = 0; p < panels; p++) {
    int64_t at = p * PANEL_COLUMNS;
    transpose(h->dq_sums + p * panel_size(h), PANEL_COLUMNS, a->size,
              smaller(PANEL_COLUMNS, count - at), h->dq + (query + at) * h->stride, h->stride);
  }
}

static void run_head(const head *h) {
  const ull__attention *a = h->a;
  pack_rows(h->q + h->width, h->stride, a->time, a->size, h->keys);
  pack_columns(h->q + h->width, h->stride, a->time, a->size, h->key_columns);
  pack_rows(h->q + 2 * h->width, h->stride, a->time, a->size, h->values);
  for (int64_t row = 0; row < a->time; row++) {
    float *dk = h->dq + row * h->stride + h->width;
    memset(dk, 0, (size_t)a->size * sizeof *dk);
    memset(dk + h->width, 0, (size_t)a->size * sizeof *dk);
  }
  for (int64_t query = 0; query < a->time; query += QUERIES) {
    run_block(h, query, smaller(QUERIES, a->time - query));
  }
}

static void divide_scratch(head *h, float *scratch) {
  int64_t size = h->a->size, packed = (h->a->time + PANEL_ROWS) * (size + PANEL_ROWS);
  int64_t across = divide_up(size, PANEL_COLUMNS) * PANEL_COLUMNS * QUERIES;
  float **const parts[] = {&h->keys,      &h->values,     &h->key_columns,   &h->queries,
                           &h->gradients, &h->query_rows, &h->gradient_rows, &h->weights,
                           &h->slopes,    &h->shifts,     &h->deltas,        &h->dq_sums,
                           &h->run_room};
  const int64_t floats[] = {packed,
                            packed,
                            packed,
                            QUERIES * size,
                            QUERIES * size,
                            across,
                            across,
                            KEYS * QUERIES,
                            KEYS * QUERIES,
                            QUERIES,
                            QUERIES,
                            PANELS * panel_size(h),
                            0};
  for (size_t i = 0; i < sizeof floats / sizeof *floats; i++) {
    *parts[i] = scratch;
    scratch += floats[i];
  }
}

ull_status ULL__ISA_NAME(ull__attention_backward)(const ull__launch_frame *launch) {
  const ull__attention *a = launch->constants;
  const float *qkv = launch->operands[0], *y = launch->operands[1];
  const float *logsumexp = launch->operands[2], *dy = launch->operands[3];
  const int64_t *documents = a->has_documents ? launch->operands[4] : NULL;
  void *const *outputs = launch->operands + (a->has_documents ? 5 : 4);
  float *dqkv = outputs[0], *scratch = outputs[1];
  int64_t width = a->heads * a->size;
  PARALLEL_FOR(a->batch * a->heads > 1)
  for (int64_t task = 0; task < a->batch * a->heads; task++) {
    int64_t row = task / a->heads * a->time, column = task % a->heads * a->size;
    head h = {.a = a,
              .q = qkv + row * 3 * width + column,
              .y = y + row * width + column,
              .dy = dy + row * width + column,
              .logsumexp = logsumexp + task * a->time,
              .dq = dqkv + row * 3 * width + column,
              .stride = 3 * width,
              .width = width};
    divide_scratch(&h, scratch + THREAD_INDEX() * ull__attention_backward_scratch_floats(a));
    h.documents = find_runs(a, documents ? documents + row : NULL, h.run_room);
    run_head(&h);
  }
  return ULL_OK;
}
