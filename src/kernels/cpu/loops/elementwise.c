/* Chains of element-wise steps, run tile by tile through the first-level cache.
 *
 * A tile is at most TILE elements. Every step reads operands that are tensors, the results of
 * earlier steps (one tile each), or channel operands spread out to a pattern, and writes its tile;
 * the last step writes the output. An operand is a pointer and a mask on the element's index in the
 * tile: all ones for what has an element each, PATTERN - 1 for a pattern that repeats. Elements are
 * read before the same elements are written, so the output may take any full operand's storage. */
#include "kernels/cpu/loops/elementwise.h"

#include "base/error.h"
#include "kernels/cpu/loops/elements.h"
#include "kernels/cpu/loops/random.h"

enum { TILE = 512, PATTERN = 16 };

typedef struct operand {
  const float *data;
  int64_t mask;
  bool same; /* every vector of the tile reads the same numbers */
} operand;

/* Where a tile lies: `count` elements from element `start` of the memory, in group `group`. */
typedef struct tile {
  int64_t group, offset, start, count;
} tile;

typedef struct step_frame {
  const ull__chain *chain;
  const ull__element_step *step;
  const operand *in; /* the step's operands */
  const int64_t *rng;
  const tile *tile;
} step_frame;

#define AT(k) read_operand(&frame->in[k], i, left)

INLINE vfloat read_operand(const operand *in, int64_t i, int64_t left) {
  const float *from = in->data + (i & in->mask);
  return left >= LANES ? load(from) : load_part(from, left);
}

#define CASE(code, expression)                                     \
  case code: {                                                     \
    int64_t i = 0, left = LANES;                                   \
    for (; i + LANES <= n; i += LANES) store(out + i, expression); \
    left = n - i;                                                  \
    if (left > 0) store_part(out + i, expression, left);           \
    return;                                                        \
  }

/* ---- random masks ---- */

typedef struct mask_source {
  const ull__chain *chain;
  const int64_t *rng;
  uint64_t key;
  uint32_t threshold;
} mask_source;

/* Logical place of memory element `m`: its sample and its index there. Padding maps to elements
 * beyond the channel count, whose values are zero anyway. */
INLINE void find_element(const ull__chain *chain, int64_t m, int64_t *sample, int64_t *element) {
  *sample = m / chain->sample_memory;
  int64_t rest = m % chain->sample_memory;
  if (chain->spatial > 0) {
    int64_t block_elements = chain->spatial * chain->block;
    int64_t block = rest / block_elements, within = rest % block_elements;
    int64_t channel = block * chain->block + within % chain->block;
    rest = channel * chain->spatial + within / chain->block;
  }
  *element = rest;
}

/* Keeps (all ones) or drops (zero) LANES elements, each from a block of its own. */
static vint mask_scattered(const mask_source *source, int64_t m) {
  uint32_t stream_low[LANES], stream_high[LANES], low[LANES], high[LANES], word[LANES];
  for (int lane = 0; lane < LANES; lane++) {
    int64_t sample, element;
    find_element(source->chain, m + lane, &sample, &element);
    uint64_t stream = ull__dropout_stream(source->rng, (uint64_t)sample);
    stream_low[lane] = (uint32_t)stream;
    stream_high[lane] = (uint32_t)(stream >> 32);
    low[lane] = (uint32_t)((uint64_t)element >> 2);
    high[lane] = (uint32_t)((uint64_t)element >> 34);
    word[lane] = (uint32_t)element & 3;
  }
  vuint a, b, c, d;
  memcpy(&a, stream_low, sizeof a);
  memcpy(&b, stream_high, sizeof b);
  memcpy(&c, low, sizeof c);
  memcpy(&d, high, sizeof d);
  philox_vector blocks = philox_blocks(source->key, a, b, c, d);
  vint keep;
  for (int lane = 0; lane < LANES; lane++) {
    keep[lane] = blocks.word[word[lane]][lane] >= source->threshold ? -1 : 0;
  }
  return keep;
}

/* Lane 4q + j: j * LANES / 4 + q. */
INLINE vuint block_order(void) {
  uint32_t lanes[LANES];
  for (uint32_t lane = 0; lane < LANES; lane++) lanes[lane] = lane % 4 * (LANES / 4) + lane / 4;
  vuint order;
  memcpy(&order, lanes, sizeof order);
  return order;
}

/* Words of 4 * LANES consecutive elements of one sample, the first a multiple of 4. Lane 4q + j
 * computes the block from which part q of the j-th vector of words comes, see store_words. */
static void words_in_row(const mask_source *source, int64_t sample, int64_t element,
                         uint32_t *words) {
  uint64_t stream = ull__dropout_stream(source->rng, (uint64_t)sample);
  uint64_t first = (uint64_t)element >> 2;
  vuint zero = {0}, order = block_order(), low = order + (uint32_t)first;
  vuint high = (uint32_t)(first >> 32) - (vuint)(low < order);
  philox_vector blocks = philox_blocks(source->key, zero + (uint32_t)stream,
                                       zero + (uint32_t)(stream >> 32), low, high);
  store_words(&blocks, words);
}

/* Words of `count` elements of one sample. `words` has room for 4 * LANES more. */
static void words_of_run(const mask_source *source, int64_t sample, int64_t element, int64_t count,
                         uint32_t *words) {
  int64_t skip = element & 3, done = 0;
  if (skip != 0) {
    uint32_t buffer[4 * LANES];
    words_in_row(source, sample, element - skip, buffer);
    done = 4 * LANES - skip;
    memcpy(words, buffer + skip, (size_t)done * sizeof *words);
  }
  for (; done < count; done += 4 * LANES) {
    words_in_row(source, sample, element + done, words + done);
  }
}

static void run_dropout_plain(const step_frame *frame, const mask_source *source, float *out) {
  uint32_t words[TILE + 4 * LANES];
  int64_t n = frame->tile->count, elements = frame->chain->sample_elements;
  for (int64_t done = 0; done < n;) {
    int64_t at = frame->tile->start + done, count = smaller(n - done, elements - at % elements);
    words_of_run(source, at / elements, at % elements, count, words + done);
    done += count;
  }
  vfloat kept = splat((float)(1.0 - frame->step->immediate));
  for (int64_t i = 0; i < n; i += LANES) {
    int64_t left = n - i;
    vuint word;
    memcpy(&word, words + i, sizeof word);
    vint keep = (vint)(word >= source->threshold);
    store_some(out + i, (vfloat)(keep & (vint)(AT(0) / kept)), left);
  }
}

static void run_dropout(const step_frame *frame, float *out) {
  double p = frame->step->immediate;
  mask_source source = {frame->chain, frame->rng,
                        ull__dropout_key(frame->rng, frame->step->identity),
                        ull__dropout_threshold(p)};
  if (frame->chain->spatial == 0) {
    run_dropout_plain(frame, &source, out);
    return;
  }
  vfloat kept = splat((float)(1.0 - p));
  for (int64_t i = 0; i < frame->tile->count; i += LANES) {
    int64_t left = frame->tile->count - i;
    vint keep = mask_scattered(&source, frame->tile->start + i);
    store_some(out + i, (vfloat)(keep & (vint)(AT(0) / kept)), left);
  }
}

/* ---- steps ---- */

/* Channels that fill a vector, or repeat in it, stay in registers. */
static void run_normalize_same(const step_frame *frame, float *out) {
  const operand *in = frame->in;
  int64_t n = frame->tile->count, i = 0;
  vfloat mean = load(in[1].data), invstd = load(in[2].data);
  vfloat weight = load(in[3].data), bias = load(in[4].data);
  for (; i + LANES <= n; i += LANES) {
    store(out + i, element_normalize(read_operand(in, i, LANES), mean, invstd, weight, bias));
  }
  if (i == n) return;
  vfloat last = element_normalize(read_operand(in, i, n - i), mean, invstd, weight, bias);
  store_part(out + i, last, n - i);
}

static bool same_channels(const step_frame *frame) {
  const operand *in = frame->in;
  return in[1].same && in[2].same && in[3].same && in[4].same;
}

static void run_step(const step_frame *frame, float *out) {
  int64_t n = frame->tile->count;
  vfloat immediate = splat((float)frame->step->immediate);
  if (frame->step->code == ULL__ELEMENT_NORMALIZE && same_channels(frame)) {
    run_normalize_same(frame, out);
    return;
  }
  switch ((ull__element_code)frame->step->code) {
    CASE(ULL__ELEMENT_COPY, AT(0))
    CASE(ULL__ELEMENT_ADD, AT(0) + AT(1))
    CASE(ULL__ELEMENT_MUL, AT(0) * AT(1))
    CASE(ULL__ELEMENT_SCALE, AT(0) * immediate)
    CASE(ULL__ELEMENT_BIAS, AT(0) + AT(1))
    CASE(ULL__ELEMENT_NORMALIZE, element_normalize(AT(0), AT(1), AT(2), AT(3), AT(4)))
    CASE(ULL__ELEMENT_RELU, element_relu(AT(0)))
    CASE(ULL__ELEMENT_RELU_BACKWARD, element_relu_backward(AT(0), AT(1)))
    CASE(ULL__ELEMENT_TANH, element_tanh(AT(0)))
    CASE(ULL__ELEMENT_TANH_BACKWARD, element_tanh_backward(AT(0), AT(1)))
    CASE(ULL__ELEMENT_SIGMOID, element_sigmoid(AT(0)))
    CASE(ULL__ELEMENT_SIGMOID_BACKWARD, element_sigmoid_backward(AT(0), AT(1)))
    CASE(ULL__ELEMENT_GELU_TANH, element_gelu_tanh(AT(0)))
    CASE(ULL__ELEMENT_GELU_TANH_BACKWARD, element_gelu_tanh_backward(AT(0), AT(1)))
    CASE(ULL__ELEMENT_GELU_ERF, element_gelu_erf(AT(0)))
    CASE(ULL__ELEMENT_GELU_ERF_BACKWARD, element_gelu_erf_backward(AT(0), AT(1)))
  case ULL__ELEMENT_DROPOUT:
    run_dropout(frame, out);
    return;
  default:
    return;
  }
}

/* ---- tiles ---- */

/* Tiles of one group: whole periods of short channel rows, whole vectors of anything else. */
static int64_t tile_length(const ull__chain *chain) {
  if (chain->lanes < 2 || chain->lanes > TILE / 2) {
    int64_t pieces = divide_up(chain->span, TILE);
    return divide_up(divide_up(chain->span, pieces), 16) * 16;
  }
  return TILE / chain->lanes * chain->lanes;
}

static bool repeats_in_pattern(const ull__chain *chain) {
  return PATTERN % chain->lanes == 0;
}

/* Spreads a channel operand for one tile. Blocks, which may be padded, are short enough to repeat;
 * other rows are whole: short ones are repeated, long ones read where they lie. */
static operand spread_channels(const ull__chain *chain, const tile *t, const float *values,
                               float *pattern) {
  int64_t first = t->group % chain->group_cycle * chain->lanes;
  int64_t valid = smaller(chain->lanes, chain->channels - first);
  if (repeats_in_pattern(chain)) {
    for (int64_t i = 0; i < PATTERN; i += chain->lanes) {
      memset(pattern + i, 0, (size_t)chain->lanes * sizeof *pattern);
      memcpy(pattern + i, values + first, (size_t)valid * sizeof *pattern);
    }
    return (operand){pattern, PATTERN - 1, chain->lanes <= LANES};
  }
  if (chain->lanes == chain->span) return (operand){values + t->offset, -1, false};
  for (int64_t i = 0; i < t->count; i += chain->lanes) {
    memcpy(pattern + i, values, (size_t)chain->lanes * sizeof *pattern);
  }
  return (operand){pattern, -1, false};
}

typedef struct tile_store {
  float results[ULL__MAX_ELEMENT_STEPS][TILE];
} tile_store;

static operand find_operand(const ull__chain *chain, const ull__launch_frame *launch, const tile *t,
                            uint8_t index, tile_store *store, float *short_pattern) {
  if (index >= chain->input_count)
    return (operand){store->results[index - chain->input_count], -1, false};
  const float *data = launch->operands[index];
  if (chain->operand_kinds[index] == ULL__CHAIN_FULL) return (operand){data + t->start, -1, false};
  if (chain->operand_kinds[index] == ULL__CHAIN_RANDOM) return (operand){NULL, -1, false};
  return spread_channels(chain, t, data, short_pattern);
}

static void run_tile(const ull__chain *chain, const ull__launch_frame *launch, const tile *t,
                     tile_store *store) {
  float *output = (float *)launch->operands[chain->input_count] + t->start;
  for (uint32_t s = 0; s < chain->step_count; s++) {
    const ull__element_step *step = &chain->steps[s];
    operand in[6];
    float patterns[6][TILE];
    const int64_t *rng = NULL;
    for (uint32_t k = 0; k < step->operand_count; k++) {
      uint8_t index = step->operands[k];
      in[k] = find_operand(chain, launch, t, index, store, patterns[k]);
      if (in[k].data == NULL) rng = launch->operands[index];
    }
    step_frame frame = {chain, step, in, rng, t};
    run_step(&frame, s + 1 == chain->step_count ? output : store->results[s]);
  }
}

ull_status ULL__ISA_NAME(ull__run_chain)(const ull__launch_frame *launch) {
  const ull__chain *chain = launch->constants;
  int64_t length = tile_length(chain);
  int64_t pieces = divide_up(chain->span, length), tiles = chain->groups * pieces;
  PARALLEL_FOR(tiles * length >= ENOUGH_ELEMENTS)
  for (int64_t index = 0; index < tiles; index++) {
    tile_store store;
    tile t = {.group = index / pieces, .offset = index % pieces * length};
    t.start = t.group * chain->span + t.offset;
    t.count = smaller(length, chain->span - t.offset);
    run_tile(chain, launch, &t, &store);
  }
  return ULL_OK;
}

/* ---- masks of one bit ---- */

ull_status ULL__ISA_NAME(ull__relu_mask)(const ull__launch_frame *launch) {
  const ull__flat *flat = launch->constants;
  const float *y = launch->operands[0];
  uint8_t *bits = launch->operands[1];
  int64_t bytes = divide_up(flat->elements, 8);
  PARALLEL_FOR(flat->elements >= ENOUGH_ELEMENTS)
  for (int64_t byte = 0; byte < bytes; byte++) {
    int64_t count = smaller(8, flat->elements - 8 * byte);
    uint32_t value = 0;
    for (int64_t bit = 0; bit < count; bit++) value |= (uint32_t)(y[8 * byte + bit] > 0) << bit;
    bits[byte] = (uint8_t)value;
  }
  return ULL_OK;
}

ull_status ULL__ISA_NAME(ull__relu_backward_mask)(const ull__launch_frame *launch) {
  const ull__flat *flat = launch->constants;
  const uint32_t *dy = launch->operands[0];
  const uint8_t *bits = launch->operands[1];
  uint32_t *dz = launch->operands[2];
  int64_t bytes = divide_up(flat->elements, 8);
  PARALLEL_FOR(flat->elements >= ENOUGH_ELEMENTS)
  for (int64_t byte = 0; byte < bytes; byte++) {
    int64_t count = smaller(8, flat->elements - 8 * byte);
    uint32_t value = bits[byte];
    for (int64_t bit = 0; bit < count; bit++) {
      dz[8 * byte + bit] = dy[8 * byte + bit] & (0u - (value >> bit & 1u));
    }
  }
  return ULL_OK;
}

/* ---- positions: y[b, t, :] = x[b, t, :] + w[t, :] ---- */

ull_status ULL__ISA_NAME(ull__add_positions)(const ull__launch_frame *launch) {
  const ull__positions *p = launch->constants;
  const float *x = launch->operands[0], *w = launch->operands[1];
  float *y = launch->operands[2];
  PARALLEL_FOR(p->batch * p->time * p->channels >= ENOUGH_ELEMENTS)
  for (int64_t row = 0; row < p->batch * p->time; row++) {
    const float *from = x + row * p->channels, *add = w + row % p->time * p->channels;
    for (int64_t c = 0; c < p->channels; c++) y[row * p->channels + c] = from[c] + add[c];
  }
  return ULL_OK;
}

ull_status ULL__ISA_NAME(ull__positions_backward)(const ull__launch_frame *launch) {
  const ull__positions *p = launch->constants;
  const float *dy = launch->operands[0];
  float *dw = launch->operands[1];
  int64_t sample = p->time * p->channels;
  PARALLEL_FOR(p->batch * sample >= ENOUGH_ELEMENTS)
  for (int64_t row = 0; row < p->rows; row++) {
    float *sum = dw + row * p->channels;
    for (int64_t c = 0; c < p->channels; c += LANES) {
      int64_t left = p->channels - c;
      vdouble total = {0};
      for (int64_t b = 0; row < p->time && b < p->batch; b++) {
        total += to_double(load_some(dy + b * sample + row * p->channels + c, left));
      }
      store_some(sum + c, __builtin_convertvector(total, vfloat), left);
    }
  }
  return ULL_OK;
}
