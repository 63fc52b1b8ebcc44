/* GPT-2 as Hugging Face's GPT2LMHeadModel: its names, its weights stored [in, out], its loss (each
 * position predicts the next token). The head is the token embedding, and its logits exist only
 * chunk by chunk with the loss. With dropout=p, embeddings and both branches of a block are
 * dropped; attention probabilities are not.
 *
 * With packed=1 a sequence may hold several documents: `positions` and `documents` come in beside
 * the tokens, rows attend within their document, and `target` is an input, so that tokens can be
 * left out of the loss. */
#include <math.h>
#include <stdio.h>

#include "model/zoo/builder.h"

enum { IGNORED_TARGET = -100 };

typedef struct gpt2 {
  int64_t layers, heads, width, vocab, positions, sequence;
  double dropout;
  bool packed;
  ull__value_id rng;       /* where there is dropout */
  ull__value_id documents; /* where sequences are packed */
} gpt2;

/* Bytes and the end of text. */
enum { BYTE_VOCABULARY = 257 };

static gpt2 read_sizes(ull__zoo_builder *builder) {
  gpt2 g = {.layers = ull__zoo_int(builder, "layers"),
            .heads = ull__zoo_int(builder, "heads"),
            .width = ull__zoo_int(builder, "width"),
            .vocab = ull__zoo_int(builder, "vocab"),
            .positions = ull__zoo_int(builder, "positions"),
            .sequence = ull__zoo_int(builder, "seq"),
            .dropout = ull__zoo_real(builder, "dropout"),
            .packed = ull__zoo_int(builder, "packed") != 0,
            .rng = ULL__NONE,
            .documents = ULL__NONE};
  if (g.width % g.heads != 0) {
    ull__zoo_refuse(builder, "heads", "width=%lld is no multiple of it", (long long)g.width);
  }
  if (g.packed && g.vocab == BYTE_VOCABULARY - 1 && !ull__zoo_is_given(builder, "vocab")) {
    g.vocab = BYTE_VOCABULARY;
    ull__zoo_set(builder, "vocab", (double)g.vocab);
  }
  if (g.sequence > g.positions && !ull__zoo_is_given(builder, "seq")) {
    g.sequence = g.positions;
    ull__zoo_set(builder, "seq", (double)g.sequence);
  }
  if (g.sequence > g.positions) {
    ull__zoo_refuse(builder, "seq", "the model has positions=%lld", (long long)g.positions);
  }
  return g;
}

static ull__value_id add_rng(ull__zoo_builder *builder) {
  const int64_t words = 4;
  const ull__shape shape = ull__shape_of(1, &words);
  ull__value_id id = ULL__NONE;
  if (builder->status != ULL_OK) return ULL__NONE;
  builder->status =
      ull__graph_add_source(builder->graph, ULL__ROLE_INPUT, "rng", ULL_INT64, &shape, &id);
  return id;
}

static ull__value_id add_dropout(ull__zoo_builder *builder, const gpt2 *g, ull__value_id x,
                                 const char *name) {
  const ull__attribute_setting p = ULL__REAL("p", g->dropout);
  const ull__value_id inputs[] = {x, g->rng};
  if (g->dropout == 0) return x;
  return ull__zoo_node(builder, "dropout", name, inputs, 2, &p, 1);
}

/* Hugging Face's Conv1D. */
static ull__value_id add_linear(ull__zoo_builder *builder, ull__value_id x, const char *name,
                                int64_t in, int64_t out, double deviation) {
  const ull__attribute_setting transposed = ULL__INT("transposed", 1);
  const int64_t dims[] = {in, out};
  const ull__shape weight = ull__shape_of(2, dims), bias = ull__shape_of(1, &out);
  ull__value_id inputs[3] = {x, ULL__NONE, ULL__NONE};
  inputs[1] = ull__zoo_tensor(builder, ULL__ROLE_PARAMETER, name, "weight", &weight,
                              ULL__INITIAL_NORMAL, deviation);
  inputs[2] =
      ull__zoo_tensor(builder, ULL__ROLE_PARAMETER, name, "bias", &bias, ULL__INITIAL_ZEROS, 0);
  return ull__zoo_node(builder, "linear", name, inputs, 3, &transposed, 1);
}

static ull__value_id add_table(ull__zoo_builder *builder, const char *name, int64_t rows,
                               int64_t width) {
  const int64_t dims[] = {rows, width};
  const ull__shape shape = ull__shape_of(2, dims);
  return ull__zoo_tensor(builder, ULL__ROLE_PARAMETER, name, "weight", &shape, ULL__INITIAL_NORMAL,
                         0.02);
}

static ull__value_id add_attention(ull__zoo_builder *builder, const gpt2 *g, ull__value_id x) {
  const ull__attribute_setting settings[] = {ULL__INT("heads", g->heads), ULL__INT("causal", 1)};
  x = ull__zoo_layer_norm(builder, x, "ln_1");
  x = add_linear(builder, x, "attn.c_attn", g->width, 3 * g->width, 0.02);
  const ull__value_id inputs[] = {x, g->documents};
  x = ull__zoo_node(builder, "attention", "attn", inputs, g->packed ? 2 : 1, settings, 2);
  x = add_linear(builder, x, "attn.c_proj", g->width, g->width, 0.02 / sqrt(2.0 * g->layers));
  return add_dropout(builder, g, x, "attn.resid_dropout");
}

static ull__value_id add_feed_forward(ull__zoo_builder *builder, const gpt2 *g, ull__value_id x) {
  const ull__attribute_setting tanh_form = ULL__INT("approximate", 1);
  x = ull__zoo_layer_norm(builder, x, "ln_2");
  x = add_linear(builder, x, "mlp.c_fc", g->width, 4 * g->width, 0.02);
  x = ull__zoo_node(builder, "gelu", "mlp.act", &x, 1, &tanh_form, 1);
  x = add_linear(builder, x, "mlp.c_proj", 4 * g->width, g->width, 0.02 / sqrt(2.0 * g->layers));
  return add_dropout(builder, g, x, "mlp.dropout");
}

static ull__value_id add_blocks(ull__zoo_builder *builder, const gpt2 *g, ull__value_id x) {
  for (int64_t layer = 0; layer < g->layers; layer++) {
    ull__zoo_enter(builder, "transformer.h.%lld", (long long)layer);
    x = ull__zoo_add(builder, x, add_attention(builder, g, x), "attn.add");
    x = ull__zoo_add(builder, x, add_feed_forward(builder, g, x), "mlp.add");
  }
  return x;
}

/* [B, T] int64 in [0, upper). */
static ull__value_id add_rows(ull__zoo_builder *builder, const gpt2 *g, const char *name,
                              int64_t upper) {
  const ull__model_input input = {.name = name,
                                  .dtype = ULL_INT64,
                                  .shape = ull__shape_batched(1, &g->sequence),
                                  .upper = upper};
  return ull__zoo_input(builder, &input);
}

static ull__value_id add_target(ull__zoo_builder *builder, const gpt2 *g, ull__value_id ids) {
  const ull__attribute_setting fill = ULL__INT("fill", IGNORED_TARGET);
  if (!g->packed) return ull__zoo_node(builder, "shift_left", "labels", &ids, 1, &fill, 1);
  const ull__model_input input = {.name = "target",
                                  .dtype = ULL_INT64,
                                  .shape = ull__shape_batched(1, &g->sequence),
                                  .upper = g->vocab,
                                  .is_target = true,
                                  .has_ignored = true,
                                  .ignored = IGNORED_TARGET};
  return ull__zoo_input(builder, &input);
}

static void add_loss(ull__zoo_builder *builder, const gpt2 *g, ull__value_id ids, ull__value_id x,
                     ull__value_id table) {
  const ull__attribute_setting ignore = ULL__INT("ignore_index", IGNORED_TARGET);
  ull__zoo_enter(builder, "%s", "");
  const ull__value_id target = add_target(builder, g, ids);
  const ull__value_id inputs[] = {x, table, target};
  const ull__value_id loss =
      ull__zoo_node(builder, "linear_cross_entropy", "lm_head", inputs, 3, &ignore, 1);
  if (builder->status != ULL_OK) return;
  builder->status = ull__graph_add_output(builder->graph, "loss", loss);
}

static ull__value_id add_positions(ull__zoo_builder *builder, const gpt2 *g, ull__value_id x,
                                   ull__value_id positions) {
  const ull__value_id table = add_table(builder, "wpe", g->positions, g->width);
  const ull__value_id sum[] = {x, table}, rows[] = {positions, table};
  if (!g->packed) return ull__zoo_node(builder, "add_positions", "wpe", sum, 2, NULL, 0);
  const ull__value_id at = ull__zoo_node(builder, "embedding", "wpe", rows, 2, NULL, 0);
  return ull__zoo_add(builder, x, at, "embed.add");
}

static void build_gpt2(ull__zoo_builder *builder) {
  gpt2 g = read_sizes(builder);
  ull__value_id positions = ULL__NONE;
  const ull__value_id ids = add_rows(builder, &g, "input_ids", g.vocab);
  if (g.packed) {
    positions = add_rows(builder, &g, "positions", g.positions);
    g.documents = add_rows(builder, &g, "documents", 0);
  }
  if (g.dropout > 0) g.rng = add_rng(builder);
  ull__zoo_enter(builder, "transformer");
  const ull__value_id tokens = add_table(builder, "wte", g.vocab, g.width);
  ull__value_id x =
      ull__zoo_node(builder, "embedding", "wte", (ull__value_id[]){ids, tokens}, 2, NULL, 0);
  x = add_positions(builder, &g, x, positions);
  x = add_blocks(builder, &g, add_dropout(builder, &g, x, "drop"));
  ull__zoo_enter(builder, "transformer");
  add_loss(builder, &g, ids, ull__zoo_layer_norm(builder, x, "ln_f"), tokens);
}

/* clang-format off */
#define GPT2_KEYS(layers_, heads_, width_, vocab_, positions_, seq_) \
  {{"layers", layers_, 1, 1024, false},                              \
   {"heads", heads_, 1, 65536, false},                               \
   {"width", width_, 1, 0x1p24, false},                              \
   {"vocab", vocab_, 1, 0x1p31, false},                              \
   {"positions", positions_, 1, 0x1p31, false},                      \
   {"seq", seq_, 2, 0x1p31, false},                                  \
   {"dropout", 0, 0, 0.999, true},                                   \
   {"packed", 0, 0, 1, false}}
/* clang-format on */

const ull__zoo_row ull__zoo_gpt2 = {
    .name = "gpt2", .keys = GPT2_KEYS(12, 12, 768, 50257, 1024, 1024), .build = build_gpt2};
const ull__zoo_row ull__zoo_gpt2_tiny = {
    .name = "gpt2_tiny", .keys = GPT2_KEYS(2, 4, 64, 256, 64, 32), .build = build_gpt2};
