/* A family of two programs made by hand, with kernels of its own: what the executor is tested on.
 *
 * train: h = 2x; y = h + w; loss = y + c; w -= y, m += y      eval: loss = x + w */
#ifndef ULL_TESTS_HAND_FAMILY_H
#define ULL_TESTS_HAND_FAMILY_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run/executor.h"

enum { N = 25, VALUE_BYTES = N * sizeof(float), WORKSPACE_BYTES = 40, PAGE = 4096 };
enum { IMAGE_ELEMENTS = 12 };

typedef struct kernel_constants {
  float factor;
  int stray;       /* also writes this element of the first output; outside it */
  bool is_partial; /* leaves the last element of its output as it is */
  bool fails;
  atomic_uint prepared;
} kernel_constants;

enum { B_X, B_H, B_Y, B_WORKSPACE, B_LOSS, B_W, B_M, B_C, B_IMAGE, B_LOADER, B_RUNTIME, B_COUNT };

typedef struct fixture {
  ull__layout channels_last;
  kernel_constants scale, plain;
  ull__graph *graphs[2];
  ull__lowered lowered[2];
  ull__lowered_value values[2][16];
  ull__lowered_node nodes[2][8];
  ull__buffer buffers[2][B_COUNT];
  ull__instruction instructions[2][8];
  uint32_t operands[2][8][6];
  uint64_t bytes[2][8][6];
  uint32_t waits[1];
  ull__program programs[2];
  ull__program_output outputs[2];
  ull__persistent persistents[4];
  ull__family family;
  ull__device *device;
  ull__executor *executor;
  float constant[N];
  float x[N];
} fixture;

/* Opens the device ("cpu" or "sim:...") and makes both programs for it; no executor yet. */
fixture *make(const char *device);

/* Creates the executor, sets every w to 1 and x as the input of both programs. */
void start(fixture *f, bool poison);

void finish(fixture *f);

/* Runs a check on a fresh fixture on cpu and sim, with poison and without. */
void in_every_mode(void (*check)(fixture *));

void check_value(fixture *f, const char *name, int i, float expected);
float read_loss(fixture *f, uint32_t program, int i);

/* output = a + b; where there is a workspace, by way of it */
ull_status run_add(const ull__launch_frame *frame);

ull_status refuse_to_prepare(const void *constants);

#endif
