/* ullage train. The first interrupt ends the run after the current step with its weights saved; the
 * second one ends the process at once. A reader of the output that goes away ends nothing. */
#include <signal.h>

#include "cli/cli.h"

static ull_trainer *interrupted_trainer;

static void on_signal(int number) {
  ull_trainer_stop(interrupted_trainer);
  signal(number, SIG_DFL);
}

/* A hang-up that nohup had ignored stays ignored. */
static void catch_signals(ull_trainer *trainer) {
  interrupted_trainer = trainer;
  signal(SIGINT, on_signal);
  signal(SIGTERM, on_signal);
  if (signal(SIGHUP, on_signal) == SIG_IGN) signal(SIGHUP, SIG_IGN);
}

static void release_signals(void) {
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  if (signal(SIGHUP, SIG_DFL) == SIG_IGN) signal(SIGHUP, SIG_IGN);
}

static int finish(command *c, ull_trainer *trainer, ull_status status) {
  fputs(ull_trainer_summary(trainer), c->report);
  const char *line = ull_trainer_result_json(trainer);
  if (status != ULL_OK) return cli_fail(c, line);
  if (c->json && line) puts(line);
  return 0;
}

static int run(command *c, ull_trainer *trainer) {
  progress p;
  signal(SIGPIPE, SIG_IGN);
  fputs(ull_trainer_header(trainer), c->report);
  const char *save = ull_config_text(c->config, "save");
  if (save && ull_trainer_save_plan(trainer, save) != ULL_OK) return cli_fail(c, NULL);
  const char *what = ull_config_text(c->config, "show");
  if (what) {
    const char *text = ull_trainer_show(trainer, what);
    if (!text) return cli_fail(c, NULL);
    fputs(text, c->report);
  }
  if (ull_trainer_start(trainer) != ULL_OK) return cli_fail(c, NULL);
  catch_signals(trainer);
  progress_begin(&p, trainer, c->report);
  ull_train_events events = {progress_step, progress_evaluation, &p};
  ull_status status = ull_trainer_run(trainer, &events);
  progress_end(&p);
  release_signals();
  return finish(c, trainer, status);
}

int cli_train(command *c) {
  ull_trainer *trainer = NULL;
  if (ull_trainer_create(c->config, &trainer) != ULL_OK) return cli_fail(c, NULL);
  int code;
  if (ull_trainer_fits(trainer)) {
    code = run(c, trainer);
  } else {
    ull_trainer_refuse(trainer);
    code = cli_fail(c, ull_trainer_plan_json(trainer));
  }
  ull_trainer_destroy(trainer);
  return code;
}
