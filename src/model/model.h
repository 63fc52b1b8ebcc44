/* A model: a forward graph with its loss, and how its parameters start.
 *
 * The graph's batch symbol is free. Its inputs of role INPUT are fed by name: the model's own
 * inputs ("image", "input_ids") and "target" where the loss needs one; `hyper`, `loss_weight` and
 * `rng` are added by later stages and not listed here. Outputs: "loss" always; "correct" (number of
 * right samples) for classifiers whose targets are class numbers.
 *
 * A model owns its graph and texts; immutable once made, readable from any thread. */
#ifndef ULL_MODEL_MODEL_H
#define ULL_MODEL_MODEL_H

#include "graph/graph.h"

typedef enum ull__initial_kind {
  ULL__INITIAL_ZEROS,
  ULL__INITIAL_ONES,
  ULL__INITIAL_NORMAL,  /* mean 0, deviation `scale` */
  ULL__INITIAL_UNIFORM, /* in [-scale, scale) */
} ull__initial_kind;

/* First bytes of a parameter or state, by value name. */
typedef struct ull__initial {
  const char *name;
  ull__initial_kind kind;
  double scale;
} ull__initial;

/* An input that data must fill. Integers lie in [0, upper), and so do the class numbers that shares
 * are made from. */
typedef struct ull__model_input {
  const char *name;
  ull_dtype dtype;
  ull__shape shape; /* batched */
  int64_t upper;    /* classes or vocabulary; 0 for other floating-point inputs than shares */
  bool has_ignored; /* `ignored` is allowed as well: a target that counts for nothing */
  int64_t ignored;
  bool is_target;
  bool is_shares; /* float32 [B, upper]: shares of classes, for batches that are mixed */
  bool is_image;  /* [B, C, H, W], to be augmented and normalised */
} ull__model_input;

typedef struct ull__model {
  const char *name; /* "zoo:resnet18?classes=10&image=64" with every key spelled out */
  ull__graph *graph;
  ull__initial *initials;
  uint32_t initial_count;
  ull__model_input *inputs;
  uint32_t input_count;
  int64_t classes;     /* 0 where it is no classifier */
  uint64_t parameters; /* elements trained */
} ull__model;

/* What flags say about a model whatever its origin; 0 = the model's own. */
typedef struct ull__model_options {
  int64_t classes;
  int64_t sequence;
  double label_smoothing;
  bool target_shares; /* a classifier's `target` is shares of classes, not class numbers */
} ull__model_options;

/* MODEL as INTERFACES has it. Unknown names list the known ones; an unknown or bad key names it and
 * its range. */
ull_status ull__model_open(const char *text, const ull__model_options *options, ull__model **out);
void ull__model_destroy(ull__model *model); /* NULL is allowed */

/* Fills the bytes of one parameter or state in plain order, keyed by seed and name: independent of
 * order and plan. */
ull_status ull__model_initialize(const ull__model *model, const char *name, uint64_t seed,
                                 ull_dtype dtype, const ull__shape *shape, void *bytes);

#endif
