/* One line of progress: redrawn on a terminal four times a second, written every ten seconds
 * elsewhere. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
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
  const char *plain = getenv("NO_COLOR");
  p->colour = p->live && !(plain && plain[0]);
  p->last_shown = p->started;
}

static double smooth(double old, double new, bool first) {
  return first ? new : SMOOTHING *old + (1 - SMOOTHING) * new;
}

enum { EPOCH, STEP, LOSS, RATE, MEMORY, WAIT, LEFT, PARTS };

/* What a narrow terminal goes without, first to last. A line that wraps cannot be redrawn. */
static const int expendable[] = {WAIT, MEMORY, RATE, EPOCH, LEFT, STEP};

typedef char progress_parts[PARTS][80];

static void describe(const progress *p, const ull_step_metrics *m, progress_parts parts) {
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

/* Columns that UTF-8 text of narrow characters takes. */
static size_t count_columns(const char *text) {
  size_t columns = 0;
  for (; *text; text++) columns += ((unsigned char)*text & 0xC0) != 0x80;
  return columns;
}

static size_t count_line(progress_parts parts) {
  size_t columns = 0;
  for (int i = 0; i < PARTS; i++)
    if (parts[i][0]) columns += count_columns(parts[i]) + (columns > 0 ? 3 : 0);
  return columns;
}

/* Drops parts until the line leaves the last column free, where some terminals wrap already. */
static void fit(progress_parts parts, size_t columns) {
  size_t count = sizeof expendable / sizeof expendable[0];
  for (size_t i = 0; i < count && count_line(parts) >= columns; i++) parts[expendable[i]][0] = 0;
}

static size_t terminal_columns(const progress *p) {
  struct winsize size;
  if (!p->live || ioctl(fileno(p->out), TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
    return SIZE_MAX;
  return size.ws_col;
}

static void show(progress *p, const ull_step_metrics *m) {
  progress_parts parts;
  describe(p, m, parts);
  fit(parts, terminal_columns(p));
  const char *between = p->live ? "\r\033[K" : "";
  for (int i = 0; i < PARTS; i++) {
    if (!parts[i][0]) continue;
    bool strong = p->colour && i == LOSS;
    fprintf(p->out, "%s%s%s%s", between, strong ? "\033[1m" : "", parts[i],
            strong ? "\033[0m" : "");
    between = " · ";
  }
  if (!p->live) fputc('\n', p->out);
  p->drawn = p->live;
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
  if (p->drawn) fputc('\n', p->out); /* the epoch's last line stays */
  p->drawn = false;
  fprintf(p->out, "epoch %llu · evaluation: loss %.4f", (unsigned long long)epoch, e->loss);
  if (e->accuracy >= 0)
    fprintf(p->out, " · accuracy %s%.2f %%%s", p->colour ? "\033[1;32m" : "", 100 * e->accuracy,
            p->colour ? "\033[0m" : "");
  fprintf(p->out, " on %llu samples (%.1f s)\n", (unsigned long long)e->samples, e->seconds);
  fflush(p->out);
}

void progress_end(progress *p) {
  if (p->drawn) fputc('\n', p->out);
  p->drawn = false;
  fflush(p->out);
}
