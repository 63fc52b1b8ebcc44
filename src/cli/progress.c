/* Progress of a training, in one line. */
#include "cli/cli.h"

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
  *p = (progress){.trainer = trainer, .started = cli_now()};
  live_begin(&p->line, out);
}

static double smooth(double old, double new, bool first) {
  return first ? new : SMOOTHING *old + (1 - SMOOTHING) * new;
}

enum { EPOCH, STEP, LOSS, RATE, MEMORY, WAIT, LEFT, PARTS };

static const int expendable[] = {WAIT, MEMORY, RATE, EPOCH, LEFT, STEP, -1};

static void describe(const progress *p, const ull_step_metrics *m, live_part *parts) {
  ull_trainer_progress now = ull_trainer_get_progress(p->trainer);
  size_t size = sizeof parts[0];
  char used[32], planned[32], left[32], accuracy[32] = "";
  format_bytes(now.used_bytes, used, sizeof used);
  format_bytes(now.planned_bytes, planned, sizeof planned);
  double per_step = (cli_now() - p->started) / (double)(m->step - p->first_step + 1);
  format_seconds(per_step * (double)(now.total_steps - m->step), left, sizeof left);
  if (m->accuracy >= 0) snprintf(accuracy, sizeof accuracy, " · acc %5.1f %%", 100 * m->accuracy);
  snprintf(parts[EPOCH], size, "epoch %llu", (unsigned long long)m->epoch);
  snprintf(parts[STEP], size, "step %llu/%llu", (unsigned long long)m->step,
           (unsigned long long)now.total_steps);
  snprintf(parts[LOSS], size, "loss %.4f%s", m->loss, accuracy);
  snprintf(parts[RATE], size, "%.0f samples/s", p->smooth_rate);
  snprintf(parts[MEMORY], size, "mem %s of %s", used, planned);
  snprintf(parts[WAIT], size, "data wait %.0f %%", 100 * p->smooth_wait);
  snprintf(parts[LEFT], size, "%s left", left);
}

void progress_step(void *context, const ull_step_metrics *m) {
  progress *p = context;
  bool first = p->first_step == 0;
  if (first) p->first_step = m->step;
  double seconds = m->seconds > 0 ? m->seconds : 1e-9;
  p->smooth_rate = smooth(p->smooth_rate, (double)m->samples / seconds, first);
  p->smooth_wait = smooth(p->smooth_wait, m->data_wait_seconds / seconds, first);
  bool last = m->step == ull_trainer_get_progress(p->trainer).total_steps;
  if (!live_is_due(&p->line, first || last)) return;
  live_part parts[PARTS];
  describe(p, m, parts);
  live_show(&p->line, parts, PARTS, expendable, LOSS);
}

void progress_evaluation(void *context, uint64_t epoch, const ull_evaluation *e) {
  progress *p = context;
  FILE *out = p->line.out;
  bool colour = p->line.colour;
  live_keep(&p->line);
  fprintf(out, "epoch %llu · evaluation: loss %.4f", (unsigned long long)epoch, e->loss);
  if (e->accuracy >= 0)
    fprintf(out, " · accuracy %s%.2f %%%s", colour ? "\033[1;32m" : "", 100 * e->accuracy,
            colour ? "\033[0m" : "");
  fprintf(out, " on %llu samples (%.1f s)\n", (unsigned long long)e->samples, e->seconds);
  fflush(out);
}

void progress_end(progress *p) {
  live_keep(&p->line);
}
