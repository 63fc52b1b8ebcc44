/* What the commands share. The command line sees public headers alone, which proves them complete.
 */
#ifndef ULL_CLI_CLI_H
#define ULL_CLI_CLI_H

#include <stdbool.h>
#include <stdio.h>

#include "ullage/config.h"
#include "ullage/status.h"
#include "ullage/train.h"

/* One command: reads its configuration, prints, and returns an exit code. */
typedef struct command {
  ull_config *config;
  bool json;
  FILE *report; /* for people: stdout, or stderr where stdout carries JSON */
} command;

int cli_probe(command *c);
int cli_check(command *c);
int cli_plan(command *c);
int cli_train(command *c);
int cli_eval(command *c);
int cli_data(command *c);

/* Prints the thread's error record, for people on stderr or as JSON on stdout beside the keys of
 * `more` (the text of a JSON object; NULL = none), and returns its exit code. */
int cli_fail(const command *c, const char *more);

/* The same for a failure of the command's own, and what to do about it. */
int cli_error(const command *c, ull_status status, const char *message, const char *change);

/* The line that redraws itself on a terminal and is a plain line now and then in a pipe. */
typedef struct progress {
  ull_trainer *trainer;
  FILE *out;
  bool live, colour, drawn; /* drawn: the cursor is behind an unfinished line */
  double started, last_shown;
  double smooth_rate, smooth_wait;
  uint64_t first_step;
} progress;

void progress_begin(progress *p, ull_trainer *trainer, FILE *out);
void progress_step(void *context, const ull_step_metrics *metrics);
void progress_evaluation(void *context, uint64_t epoch, const ull_evaluation *evaluation);
void progress_end(progress *p);

/* Seconds of a clock that only goes forward. */
double cli_now(void);

#endif
