/* Ullage inside another program: trains a small classifier on buffers of its own.
 *
 *     cmake --build build/release --target examples && build/release/examples/embed
 *
 * The program asks for the plan first, so it knows every byte before the first step, and a plan
 * that does not fit is an answer and not a crash. */
#include <stdint.h>
#include <stdio.h>

#include "ullage/train.h"

enum { BATCH = 32, INPUTS = 16, STEPS = 200 };

static float points[BATCH][INPUTS]; /* what the model calls `image`: [B, 1, 4, 4] */
static int64_t classes[BATCH];      /* and `target`: [B] */

/* Stands for the program's own data: class k has its bright inputs in row k. */
static void make_batch(unsigned step) {
  for (unsigned i = 0; i < BATCH; i++) {
    classes[i] = (i + step) % 4;
    for (unsigned k = 0; k < INPUTS; k++) {
      unsigned noise = (step * 7919u + i * 104729u + k * 1299709u) % 1000u;
      points[i][k] = (float)noise / 1000.0f + (k / 4 == (unsigned)classes[i] ? 0.5f : 0.0f);
    }
  }
}

static int fail(void) {
  const ull_error *error = ull_error_last();
  fprintf(stderr, "%s\n", error->message);
  if (error->change[0]) fprintf(stderr, "try: %s\n", error->change);
  return ull_status_exit_code(error->status);
}

static int train(ull_trainer *trainer) {
  const ull_array arrays[] = {{"image", ULL_FLOAT32, points, sizeof points},
                              {"target", ULL_INT64, classes, sizeof classes}};
  ull_step_metrics metrics = {0};
  if (ull_trainer_start(trainer) != ULL_OK) return fail(); /* here the memory is taken, all of it */
  for (unsigned step = 0; step < STEPS; step++) {
    make_batch(step);
    if (ull_trainer_step(trainer, arrays, 2, &metrics) != ULL_OK) return fail();
    if (step % 50 == 0) printf("step %3u  loss %.4f\n", step + 1, metrics.loss);
  }
  printf("loss %.4f, accuracy %.0f %%\n", metrics.loss, 100 * metrics.accuracy);
  return metrics.accuracy > 0.9 ? 0 : 1;
}

int main(int argc, char **argv) {
  const char *settings[][2] = {{"model", "zoo:mlp?image=4&hidden=32&classes=4"},
                               {"lr", "0.1"},
                               {"batch-size", "32"},
                               {"steps", "200"},
                               {"memory", argc > 1 ? argv[1] : "256MiB"}};
  ull_config *config = NULL; /* the same names as the flags of `ullage train` */
  ull_trainer *trainer = NULL;
  if (ull_config_create(ULL_COMMAND_TRAIN, &config) != ULL_OK) return fail();
  for (unsigned i = 0; i < sizeof settings / sizeof *settings; i++)
    if (ull_config_set(config, settings[i][0], settings[i][1]) != ULL_OK) return fail();
  if (ull_trainer_create(config, &trainer) != ULL_OK) return fail(); /* plans, takes nothing */
  fputs(ull_trainer_header(trainer), stdout);
  int code = train(trainer);
  ull_trainer_destroy(trainer);
  ull_config_destroy(config);
  return code;
}
