/* Trainings of a small classifier as a program that embeds the library makes them: through its
 * public headers, on samples of its own. */
#ifndef TESTS_SUPPORT_SMALL_TRAINING_H
#define TESTS_SUPPORT_SMALL_TRAINING_H

#include "ullage/train.h"

enum { SIDE = 8, PIXELS = SIDE * SIDE, CLASSES = 4, BATCH = 6, STEPS = 5, SAMPLES = STEPS * BATCH };
#define MODEL "zoo:mlp?image=8&hidden=24&classes=4"

/* Images whose class shows, and their classes. */
extern float images[SAMPLES][PIXELS];
extern int64_t targets[SAMPLES];
void make_samples(void);

/* The same samples as an NPZ file in the folder: "npz:PATH", static. */
const char *write_samples(const char *folder);

/* Ends the test with the message of what failed. */
void require(ull_status status);

typedef struct setting {
  const char *name, *value;
} setting;

/* The small network with these settings beside the usual ones (batches of BATCH in order, STEPS
 * steps, one thread, rate 0.05, seed 3); ends with a NULL name, NULL = none. */
ull_config *configure(const setting *more);

typedef struct session {
  ull_config *config;
  ull_trainer *trainer;
} session;

/* Configured, planned and started. */
session begin(const setting *more);
void end(session *s);

#endif
