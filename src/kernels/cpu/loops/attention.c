/* Self-attention, one head of one sample a task.
 *
 * Scores are held transposed, keys down and a panel of queries across: maxima, exponentials and
 * sums over keys are then element-wise over queries, and the weights are at once a panel of B for
 * the product with the values. Keys go by in tiles of ULL__ATTENTION_KEYS with a running maximum
 * and sum (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018; Dao et al.,
 * "FlashAttention", 2022). Keys after the panel's last query are skipped where attention is causal,
 * and keys before its first query's document where there are documents. */
#include <float.h>

#include "base/error.h"
#include "kernels/cpu/loops/attention_panels.h"

/* Rows of weights that are summed before they join the running sum. */
enum { SUM_ROWS = 64 };

typedef struct head {
  const ull__attention *a;
  const float *q; /* k and v follow, heads * size apart */
  float *y, *logsumexp;
  int64_t stride, width; /* rows of qkv, rows of y */
  runs documents;
  float *keys, *values; /* packed: rows of keys, columns of values */
  float *queries, *weights, *output;
} head;

/* What the softmax of a panel of queries has come to. */
typedef struct running {
  vfloat top[PANEL_VECTORS], sum[PANEL_VECTORS];
} running;

/* Scores of keys of other documents become -inf. */
INLINE void hide_documents(const head *h, int64_t query, int64_t queries, int64_t key,
                           int64_t count, int vectors) {
  for (int64_t at = 0; at < count; at++) {
    if (is_one_document(&h->documents, query, queries, key + at)) continue;
    for (int j = 0; j < vectors; j++) {
      float *score = h->weights + at * PANEL_COLUMNS + j * LANES;
      vint shared = shares_document(&h->documents, key + at, query, j);
      store(score, choose(shared, load(score), splat(-INFINITY)));
    }
  }
}

/* Scores of keys [key, key + count) and the panel of `queries` queries from `query`. */
INLINE void find_scores(const head *h, int64_t query, int64_t queries, int64_t key, int64_t count,
                        int vectors) {
  int64_t size = h->a->size;
  for (int64_t at = 0; at < count; at += PANEL_ROWS) {
    panel_sums sums;
    clear_sums(sums, vectors);
    multiply_panels(size, h->keys + (key + at) * size, 1, PANEL_ROWS, h->queries, vectors, sums);
    UNROLL(16) for (int i = 0; i < PANEL_ROWS; i++) {
      UNROLL(8) for (int j = 0; j < vectors; j++) {
        store(h->weights + (at + i) * PANEL_COLUMNS + j * LANES, sums[i][j]);
      }
    }
  }
  if (h->documents.first) hide_documents(h, query, queries, key, count, vectors);
  if (!h->a->causal) return;
  for (int64_t at = larger(query - key, 0); at < count; at++) {
    for (int j = 0; j < vectors; j++) {
      float *score = h->weights + at * PANEL_COLUMNS + j * LANES;
      store(score, choose(sees(key + at, query, j), load(score), splat(-INFINITY)));
    }
  }
}

/* Turns scores into weights and returns what earlier results are to be multiplied by. */
INLINE void find_weights(const head *h, int64_t count, int vectors, running *r, vfloat *factor) {
  vfloat top[PANEL_VECTORS];
  for (int j = 0; j < vectors; j++) top[j] = r->top[j];
  for (int64_t at = 0; at < count; at++) {
    for (int j = 0; j < vectors; j++) {
      top[j] = vector_max(load(h->weights + at * PANEL_COLUMNS + j * LANES), top[j]);
    }
  }
  for (int j = 0; j < vectors; j++) {
    factor[j] = element_exp(r->top[j] - top[j]);
    r->sum[j] *= factor[j];
    r->top[j] = top[j];
  }
  for (int64_t from = 0; from < count; from += SUM_ROWS) {
    vfloat sum[PANEL_VECTORS] = {{0}};
    for (int64_t at = from; at < smaller(from + SUM_ROWS, count); at++) {
      for (int j = 0; j < vectors; j++) {
        float *score = h->weights + at * PANEL_COLUMNS + j * LANES;
        vfloat weight = element_exp(load(score) - top[j]);
        sum[j] += weight;
        store(score, weight);
      }
    }
    for (int j = 0; j < vectors; j++) r->sum[j] += sum[j];
  }
}

/* output[d][query] = factor * output + values[key][d] weights[key][query] */
INLINE void add_values(const head *h, int64_t key, int64_t count, int vectors,
                       const vfloat *factor) {
  int64_t size = h->a->size, time = h->a->time;
  for (int64_t d = 0; d < size; d += PANEL_ROWS) {
    panel_sums sums;
    float *output = h->output + d * PANEL_COLUMNS;
    UNROLL(16) for (int i = 0; i < PANEL_ROWS; i++) {
      UNROLL(8) for (int j = 0; j < vectors; j++) {
        sums[i][j] = load(output + i * PANEL_COLUMNS + j * LANES) * factor[j];
      }
    }
    multiply_panels(count, h->values + d * time + key * PANEL_ROWS, 1, PANEL_ROWS, h->weights,
                    vectors, sums);
    UNROLL(16) for (int i = 0; i < PANEL_ROWS; i++) {
      UNROLL(8) for (int j = 0; j < vectors; j++) {
        store(output + i * PANEL_COLUMNS + j * LANES, sums[i][j]);
      }
    }
  }
}

/* Divides by the sums and writes the panel's rows of y and logsumexp. */
INLINE void finish_queries(const head *h, int64_t query, int64_t count, int vectors,
                           const running *r) {
  int64_t size = h->a->size;
  for (int64_t d = 0; d < size; d++) {
    for (int j = 0; j < vectors; j++) {
      float *output = h->output + d * PANEL_COLUMNS + j * LANES;
      store(output, load(output) / r->sum[j]);
    }
  }
  transpose(h->output, PANEL_COLUMNS, size, count, h->y + query * h->width, h->width);
  for (int64_t i = 0; i < count; i++) {
    double sum = (double)r->sum[i / LANES][i % LANES];
    h->logsumexp[query + i] = (float)((double)r->top[i / LANES][i % LANES] + log(sum));
  }
}

INLINE void attend(const head *h, int64_t query, int64_t count, int vectors) {
  const ull__attention *a = h->a;
  int64_t end = end_of_keys(a, &h->documents, query, count);
  /* A query may see no key of its first tile: a finite top keeps its weights at exp(-inf). */
  vfloat least = splat(h->documents.first ? -FLT_MAX : -INFINITY);
  running r;
  for (int j = 0; j < vectors; j++) {
    r.top[j] = least;
    r.sum[j] = (vfloat){0};
  }
  memset(h->output, 0, (size_t)(round_rows(a->size) * PANEL_COLUMNS) * sizeof *h->output);
  for (int64_t key = first_key(&h->documents, query); key < end; key += ULL__ATTENTION_KEYS) {
    int64_t tile = smaller(ULL__ATTENTION_KEYS, end - key);
    vfloat factor[PANEL_VECTORS];
    find_scores(h, query, count, key, tile, vectors);
    find_weights(h, tile, vectors, &r, factor);
    add_values(h, key, tile, vectors, factor);
  }
  finish_queries(h, query, count, vectors, &r);
}

static void attend_one(const head *h, int64_t query, int64_t count) {
  attend(h, query, count, 1);
}

static void attend_two(const head *h, int64_t query, int64_t count) {
  attend(h, query, count, 2);
}

static void attend_whole(const head *h, int64_t query, int64_t count) {
  attend(h, query, count, PANEL_VECTORS);
}

static void pack_queries(const head *h, int64_t query, int64_t count) {
  int64_t size = h->a->size;
  pack_panel(h->q + query * h->stride, h->stride, 1, count, size, h->queries, PANEL_COLUMNS);
  vfloat scale = splat(h->a->scale);
  for (int64_t i = 0; i < size * PANEL_COLUMNS; i += LANES) {
    store(h->queries + i, load(h->queries + i) * scale);
  }
}

static void run_head(const head *h) {
  const ull__attention *a = h->a;
  pack_rows(h->q + h->width, h->stride, a->time, a->size, h->keys);
  pack_columns(h->q + 2 * h->width, h->stride, a->time, a->size, h->values);
  for (int64_t query = 0; query < a->time; query += PANEL_COLUMNS) {
    int64_t count = smaller(PANEL_COLUMNS, a->time - query);
    pack_queries(h, query, count);
    if (count <= LANES) {
      attend_one(h, query, count);
    } else if (count <= 2 * LANES) {
      attend_two(h, query, count);
    } else {
      attend_whole(h, query, count);
    }
  }
}

ull_status ULL__ISA_NAME(ull__attention)(const ull__launch_frame *launch) {
  const ull__attention *a = launch->constants;
  void *const *outputs = launch->operands + (a->has_documents ? 2 : 1);
  const float *qkv = launch->operands[0];
  const int64_t *documents = a->has_documents ? launch->operands[1] : NULL;
  float *y = outputs[0], *logsumexp = outputs[1], *scratch = outputs[2];
  int64_t width = a->heads * a->size;
  PARALLEL_FOR(a->batch * a->heads > 1)
  for (int64_t task = 0; task < a->batch * a->heads; task++) {
    int64_t row = task / a->heads * a->time, column = task % a->heads * a->size;
    int64_t packed = (a->time + PANEL_ROWS) * (a->size + PANEL_ROWS);
    head h = {.a = a,
              .q = qkv + row * 3 * width + column,
              .y = y + row * width + column,
              .logsumexp = logsumexp + task * a->time,
              .stride = 3 * width,
              .width = width};
    h.keys = scratch + THREAD_INDEX() * ull__attention_scratch_floats(a);
    h.values = h.keys + packed;
    h.weights = h.values + packed;
    h.queries = h.weights + ULL__ATTENTION_KEYS * PANEL_COLUMNS;
    h.output = h.queries + a->size * PANEL_COLUMNS;
    h.documents = find_runs(a, documents ? documents + row : NULL,
                            h.output + round_rows(a->size) * PANEL_COLUMNS);
    run_head(&h);
  }
  return ULL_OK;
}
