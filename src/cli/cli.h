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

/* Prints a text that may hold names of files: what would move a terminal's cursor becomes '?'. */
void cli_put(FILE *out, const char *before, const char *text, const char *behind);

/* Opens a file that a flag names. Standard output, by whatever name, is taken as it is, and
 * c->report becomes standard error. NULL with the failure told and its exit code in *code. */
FILE *cli_create(command *c, const char *path, int *code);

/* Closes it. `code`, or where that is 0 and not everything arrived, the exit code of that, told. */
int cli_finish(const command *c, FILE *file, const char *path, int code);

/* The line that redraws itself on a terminal and is a plain line now and then elsewhere. */
typedef struct live_line {
  FILE *out;
  bool live, colour, drawn; /* drawn: the cursor is behind an unfinished line */
  double shown;
} live_line;

typedef char live_part[80];

void live_begin(live_line *l, FILE *out);

/* Whether it is time for the next one; `at_once`: whatever the time. */
bool live_is_due(live_line *l, bool at_once);

/* Parts with dots between; empty ones are left out. `expendable`: numbers of the parts that a
 * narrow terminal goes without, first to last, and -1. `strong`: the part that stands out, or -1.
 */
void live_show(live_line *l, live_part *parts, int count, const int *expendable, int strong);

void live_clear(live_line *l); /* the line goes */
void live_keep(live_line *l);  /* the line stays, and the next one begins */

/* Progress of a training. */
typedef struct progress {
  ull_trainer *trainer;
  live_line line;
  double started;
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
