/* Cases of operators on rows of tokens: tables, attention, softmax, layer normalisation. */
#include "support/operator_cases.h"

static int64_t pick_length(subject *s) {
  return s->large ? 256 : subject_pick(s, 1, s->gradient ? 6 : 40);
}

/* ---- tables ---- */

/* Every other time the table is read twice, so that its gradient is a sum. */
static void build_embedding(subject *s) {
  const int64_t rows = subject_pick(s, 2, 30), n = subject_batch(s), t = pick_length(s);
  const int64_t c = s->large ? 256 : subject_channels(s);
  const ull__value_id ids = subject_integers(s, "ids", 0, rows - 1, DIMS(n, t));
  const ull__value_id w = subject_argument(s, ARGUMENT_WEIGHT, "w", NULL, DIMS(rows, c));
  ull__value_id y = subject_node(s, "embedding", INPUTS(ids, w), NULL, 0, NULL);
  if (s->case_index % 2) {
    const ull__value_id more = subject_integers(s, "more", 0, rows - 1, DIMS(n, t));
    const ull__value_id other = subject_node(s, "embedding", INPUTS(more, w), NULL, 0, NULL);
    y = subject_node(s, "add", INPUTS(y, other), NULL, 0, NULL);
  }
  subject_compare(s, y, NEAR_EQUAL, 0);
}

static void build_embedding_backward(subject *s) {
  const int64_t rows = subject_pick(s, 2, 30), n = subject_batch(s), t = pick_length(s);
  const int64_t c = s->large ? 256 : subject_channels(s);
  const ull__value_id ids = subject_integers(s, "ids", 0, rows - 1, DIMS(n, t));
  const ull__value_id dy = subject_argument(s, ARGUMENT_FIXED, "dy", NULL, DIMS(n, t, c));
  const bool has_base = s->case_index % 2 != 0;
  ull__value_id base = ULL__NONE;
  if (has_base) base = subject_argument(s, ARGUMENT_FIXED, "base", NULL, DIMS(rows, c));
  const ull__value_id inputs[] = {ids, dy, base};
  const ull__value_id dw = subject_node(s, "embedding_backward", inputs, has_base ? 3 : 2,
                                        SETTINGS(ULL__INT("rows", rows)), NULL);
  subject_compare(s, dw, NEAR_NORM, 1e-6);
}

static void build_shift_left(subject *s) {
  const int64_t n = subject_batch(s), t = pick_length(s);
  const ull__value_id ids = subject_integers(s, "ids", 0, 1000, DIMS(n, t));
  const ull__value_id y =
      subject_node(s, "shift_left", INPUTS(ids),
                   SETTINGS(ULL__INT("fill", s->case_index % 2 ? -1 : -100)), NULL);
  subject_compare(s, y, NEAR_EQUAL, 0);
}

static void build_add_positions(subject *s) {
  const int64_t n = subject_batch(s), t = pick_length(s), c = subject_channels(s);
  const int64_t rows = t + subject_pick(s, 0, 5);
  const ull__value_id x = subject_argument(s, ARGUMENT_DATA, "x", NULL, DIMS(n, t, c));
  const ull__value_id w = subject_argument(s, ARGUMENT_WEIGHT, "w", NULL, DIMS(rows, c));
  subject_compare(s, subject_node(s, "add_positions", INPUTS(x, w), NULL, 0, NULL), NEAR_EQUAL, 0);
}

static void build_positions_backward(subject *s) {
  const int64_t n = subject_batch(s), t = pick_length(s), c = subject_channels(s);
  const int64_t rows = t + subject_pick(s, 0, 5);
  const ull__value_id dy = subject_argument(s, ARGUMENT_FIXED, "dy", NULL, DIMS(n, t, c));
  const ull__value_id dw =
      subject_node(s, "positions_backward", INPUTS(dy), SETTINGS(ULL__INT("rows", rows)), NULL);
  subject_compare(s, dw, NEAR_ELEMENT, 1e-6);
}

/* ---- attention ---- */

typedef struct heads {
  int64_t n, t, c, heads, causal;
  double scale;
} heads;

static heads pick_heads(subject *s) {
  static const int64_t widths[] = {1, 3, 4, 8, 16, 17, 32, 64};
  heads h = {.n = subject_batch(s), .t = pick_length(s), .heads = subject_pick(s, 1, 3)};
  if (!s->gradient && s->case_index % 5 == 4) h.t = subject_pick(s, 60, 140); /* several tiles */
  if (s->large) h.heads = 8;
  h.c = h.heads * (s->large ? 64 : widths[subject_pick(s, 0, s->gradient ? 3 : 7)]);
  h.causal = s->case_index % 3 != 0;
  h.scale = s->case_index % 2 ? 0 : 0.3;
  return h;
}

/* Two cases of three have documents: numbers that repeat now and then, in any order. */
static ull__value_id pick_documents(subject *s, const heads *h) {
  if (s->large || s->case_index % 3 == 1) return ULL__NONE;
  return subject_integers(s, "documents", -1, h->t > 20 ? 0 : 1, DIMS(h->n, h->t));
}

static void attend(subject *s, const heads *h, ull__value_id qkv, ull__value_id documents,
                   ull__value_id *outputs) {
  const ull__value_id inputs[] = {qkv, documents};
  subject_node(s, "attention", inputs, documents == ULL__NONE ? 1 : 2,
               SETTINGS(ULL__INT("heads", h->heads), ULL__INT("causal", h->causal),
                        ULL__REAL("scale", h->scale)),
               outputs);
}

static void build_attention(subject *s) {
  const heads h = pick_heads(s);
  ull__value_id outputs[ULL__MAX_OUTPUTS];
  const ull__value_id qkv =
      subject_argument(s, ARGUMENT_DATA, "qkv", NULL, DIMS(h.n, h.t, 3 * h.c));
  attend(s, &h, qkv, pick_documents(s, &h), outputs);
  subject_compare(s, outputs[0], NEAR_NORM, 3e-6);
  if (!s->gradient) subject_compare(s, outputs[1], NEAR_NORM, 3e-6);
}

static void build_attention_backward(subject *s) {
  const heads h = pick_heads(s);
  ull__value_id outputs[ULL__MAX_OUTPUTS];
  const ull__value_id qkv =
      subject_argument(s, ARGUMENT_DATA, "qkv", NULL, DIMS(h.n, h.t, 3 * h.c));
  const ull__value_id dy = subject_argument(s, ARGUMENT_FIXED, "dy", NULL, DIMS(h.n, h.t, h.c));
  const ull__value_id documents = pick_documents(s, &h);
  attend(s, &h, qkv, documents, outputs);
  const ull__value_id inputs[] = {qkv, outputs[0], outputs[1], dy, documents};
  const ull__value_id dqkv =
      subject_node(s, "attention_backward", inputs, documents == ULL__NONE ? 4 : 5,
                   SETTINGS(ULL__INT("heads", h.heads), ULL__INT("causal", h.causal),
                            ULL__REAL("scale", h.scale)),
                   NULL);
  subject_compare(s, dqkv, NEAR_NORM, 1e-5);
}

/* ---- rows ---- */

static ull__value_id row_argument(subject *s, argument_kind kind, const char *name,
                                  const int64_t dims[3]) {
  return subject_argument(s, kind, name, NULL, 3, dims);
}

static void pick_rows(subject *s, int64_t least, int64_t dims[3]) {
  dims[0] = subject_batch(s);
  dims[1] = pick_length(s);
  dims[2] = s->large ? 768 : subject_channels(s) + subject_pick(s, least, s->gradient ? 5 : 50);
}

static void build_softmax(subject *s) {
  int64_t dims[3];
  pick_rows(s, 0, dims);
  const ull__value_id x = row_argument(s, ARGUMENT_DATA, "x", dims);
  subject_compare(s, subject_node(s, "softmax", &x, 1, NULL, 0, NULL), NEAR_ELEMENT, 2e-6);
}

static void build_softmax_backward(subject *s) {
  int64_t dims[3];
  pick_rows(s, 0, dims);
  const ull__value_id x = row_argument(s, ARGUMENT_DATA, "x", dims);
  const ull__value_id dy = row_argument(s, ARGUMENT_FIXED, "dy", dims);
  const ull__value_id y = subject_node(s, "softmax", &x, 1, NULL, 0, NULL);
  subject_compare(s, subject_node(s, "softmax_backward", INPUTS(dy, y), NULL, 0, NULL), NEAR_NORM,
                  1e-5);
}

static ull__value_id normalized(subject *s, const int64_t dims[3], ull__value_id x,
                                ull__value_id weight, ull__value_id *outputs) {
  const ull__value_id bias = subject_argument(s, ARGUMENT_WEIGHT, "bias", NULL, 1, &dims[2]);
  return subject_node(s, "layer_norm", INPUTS(x, weight, bias),
                      SETTINGS(ULL__REAL("eps", s->case_index % 2 ? 1e-5 : 1e-2)), outputs);
}

static void build_layer_norm(subject *s) {
  int64_t dims[3];
  pick_rows(s, 2, dims);
  const ull__value_id x = row_argument(s, ARGUMENT_DATA, "x", dims);
  const ull__value_id weight =
      subject_argument(s, ARGUMENT_WEIGHT, "weight", fill_positive, 1, &dims[2]);
  ull__value_id outputs[ULL__MAX_OUTPUTS];
  normalized(s, dims, x, weight, outputs);
  for (uint32_t o = 0; o < (s->gradient ? 1u : 3u); o++) {
    subject_compare(s, outputs[o], NEAR_NORM, 1e-5);
  }
}

static void build_layer_norm_backward(subject *s) {
  int64_t dims[3];
  pick_rows(s, 2, dims);
  const ull__value_id x = row_argument(s, ARGUMENT_DATA, "x", dims);
  const ull__value_id dy = row_argument(s, ARGUMENT_FIXED, "dy", dims);
  const ull__value_id weight =
      subject_argument(s, ARGUMENT_WEIGHT, "weight", fill_positive, 1, &dims[2]);
  ull__value_id outputs[ULL__MAX_OUTPUTS], gradients[ULL__MAX_OUTPUTS];
  normalized(s, dims, x, weight, outputs);
  subject_node(s, "layer_norm_backward", INPUTS(x, dy, outputs[1], outputs[2], weight), NULL, 0,
               gradients);
  for (uint32_t o = 0; o < 3; o++) subject_compare(s, gradients[o], NEAR_NORM, 1e-5);
}

const operator_case operator_cases_language[] = {
    {"embedding", build_embedding, true},
    {"embedding_backward", build_embedding_backward, false},
    {"shift_left", build_shift_left, false},
    {"add_positions", build_add_positions, true},
    {"positions_backward", build_positions_backward, false},
    {"attention", build_attention, true},
    {"attention_backward", build_attention_backward, false},
    {"softmax", build_softmax, true},
    {"softmax_backward", build_softmax_backward, false},
    {"layer_norm", build_layer_norm, true},
    {"layer_norm_backward", build_layer_norm_backward, false},
    {NULL, NULL, false},
};
