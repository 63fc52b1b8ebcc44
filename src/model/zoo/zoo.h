/* The zoo: networks written down in C, chosen by `zoo:NAME?key=value&...`.
 *
 * A network is a row: its keys with bounds, and a function that builds the forward graph with a
 * ull__zoo_builder. Adding one is a file with its row here and a line in zoo.c. */
#ifndef ULL_MODEL_ZOO_ZOO_H
#define ULL_MODEL_ZOO_ZOO_H

#include "model/model.h"

#define ULL__ZOO_MOST_KEYS 8

/* A number given in the model's text. Whole unless `is_real`; `least` <= value <= `most`. */
typedef struct ull__zoo_key {
  const char *name;
  double standard, least, most;
  bool is_real;
} ull__zoo_key;

typedef struct ull__zoo_builder ull__zoo_builder;

typedef struct ull__zoo_row {
  const char *name;
  ull__zoo_key keys[ULL__ZOO_MOST_KEYS]; /* ends with a NULL name unless full */
  void (*build)(ull__zoo_builder *builder);
} ull__zoo_row;

/* The values of a row's keys, in its order. */
typedef struct ull__zoo_choice {
  const ull__zoo_row *row;
  double values[ULL__ZOO_MOST_KEYS];
  bool is_given[ULL__ZOO_MOST_KEYS];
} ull__zoo_choice;

/* NULL behind the last. */
const ull__zoo_row *ull__zoo_row_at(uint32_t index);

/* Reads what follows `zoo:`, then lays the options over it. */
ull_status ull__zoo_choose(const char *text, const ull__model_options *options,
                           ull__zoo_choice *out);

/* Index of a key in the row, or -1. */
int ull__zoo_key_index(const ull__zoo_row *row, const char *name);

/* "zoo:NAME?key=value&..." with every key; NULL with a record when memory is out. */
char *ull__zoo_choice_text(const ull__zoo_choice *choice);

/* Builds the model of what follows `zoo:`. */
ull_status ull__zoo_open(const char *text, const ull__model_options *options, ull__model **out);

extern const ull__zoo_row ull__zoo_mlp, ull__zoo_lenet, ull__zoo_resnet8, ull__zoo_resnet14,
    ull__zoo_resnet20, ull__zoo_small_resnet, ull__zoo_resnet18, ull__zoo_resnet34,
    ull__zoo_resnet50, ull__zoo_gpt2, ull__zoo_gpt2_tiny;

#endif
