/* One line of progress: redrawn on a terminal four times a second, written every ten seconds
 * elsewhere. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

#define LIVE_SECONDS 0.25
#define PLAIN_SECONDS 10.0
#define SMOOTHING 0.9

static void format_bytes(uint64_t bytes, char *text, size_t size) {
  if (bytes >= (uint64_t)1 << 30)
    snprintf(text, size, "%.2f GiB", (double)bytes / 1073741824.0);
  else
    snprintf(text, size, "%.1f MiB", (double)bytes / 1048576.0);
}

static void format_seconds(double seconds, char *text, size_t size) {
  unsigned long s = seconds > 0 ? (unsigned long)(seconds + 0.5) : 0;
  if (s >= 3600)
    snprintf(text, size, "%luh%02lum", s / 3600, s / 60 % 60);
  else if (s >= 60)
    snprintf(text, size, "%lum%02lus", s / 60, s % 60);
  else
    snprintf(text, size, "%lus", s);
}

void progress_begin(progress *p, ull_trainer *trainer, FILE *out) {
  *p = (progress){.trainer = trainer, .out = out, .started = cli_now()};
  const char *term = getenv("TERM");
  p->live = isatty(fileno(out)) && term && strcmp(term, "dumb") != 0;
  p->colour = p->live && !getenv("NO_COLOR");
  p->last_shown = p->started;
}

static double smooth(double old, double new, bool first) {
  return first ? new : SMOOTHING *old + (1 - SMOOTHING) * new;
}

static void show(progress *p, const ull_step_metrics *m) {
  ull_trainer_progress now = ull_trainer_get_progress(p->trainer);
  char used[32], planned[32], left[32], accuracy[32] = "";
  format_bytes(now.used_bytes, used, sizeof used);
  format_bytes(now.planned_bytes, planned, sizeof planned);
  double per_step = (cli_now() - p->started) / (double)(m->step - p->first_step + 1);
  format_seconds(per_step * (double)(now.total_steps - m->step), left, sizeof left);
  if (m->accuracy >= 0) snprintf(accuracy, sizeof accuracy, " · acc %5.1f %%", 100 * m->accuracy);
  fprintf(p->out,
          "%sepoch %llu · step %llu/%llu · %sloss %.4f%s%s · %.0f samples/s · mem %s of %s · data "
          "wait %.0f %% · %s left%s",
          p->live ? "\r\033[K" : "", (unsigned long long)m->epoch, (unsigned long long)m->step,
          (unsigned long long)now.total_steps, p->colour ? "\033[1m" : "", m->loss, accuracy,
          p->colour ? "\033[0m" : "", p->smooth_rate, used, planned, 100 * p->smooth_wait, left,
          p->live ? "" : "\n");
  fflush(p->out);
}

void progress_step(void *context, const ull_step_metrics *m) {
  progress *p = context;
  bool first = p->first_step == 0;
  if (first) p->first_step = m->step;
  double seconds = m->seconds > 0 ? m->seconds : 1e-9;
  p->smooth_rate = smooth(p->smooth_rate, (double)m->samples / seconds, first);
  p->smooth_wait = smooth(p->smooth_wait, m->data_wait_seconds / seconds, first);
  double now = cli_now();
  bool last = m->step == ull_trainer_get_progress(p->trainer).total_steps;
  if (!first && !last && now - p->last_shown < (p->live ? LIVE_SECONDS : PLAIN_SECONDS)) return;
  p->last_shown = now;
  show(p, m);
}

void progress_evaluation(void *context, uint64_t epoch, const ull_evaluation *e) {
  progress *p = context;
  if (p->live) fputs("\r\033[K", p->out);
  fprintf(p->out, "epoch %llu · evaluation: loss %.4f", (unsigned long long)epoch, e->loss);
  if (e->accuracy >= 0)
    fprintf(p->out, " · accuracy %s%.2f %%%s", p->colour ? "\033[1;32m" : "", 100 * e->accuracy,
            p->colour ? "\033[0m" : "");
  fprintf(p->out, " on %llu samples (%.1f s)\n", (unsigned long long)e->samples, e->seconds);
  fflush(p->out);
}

void progress_end(progress *p) {
  if (p->live) fputc('\n', p->out);
  fflush(p->out);
}
