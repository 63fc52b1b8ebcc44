/* A line that wraps cannot be redrawn: parts are left out until it fits. The last column stays
 * free, where some terminals wrap already. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/cli.h"

#define LIVE_SECONDS 0.25
#define PLAIN_SECONDS 10.0

void live_begin(live_line *l, FILE *out) {
  const char *term = getenv("TERM"), *plain = getenv("NO_COLOR");
  *l = (live_line){.out = out, .shown = cli_now()};
  l->live = isatty(fileno(out)) && term != NULL && strcmp(term, "dumb") != 0;
  l->colour = l->live && !(plain != NULL && plain[0] != '\0');
}

bool live_is_due(live_line *l, bool at_once) {
  double now = cli_now();
  if (!at_once && now - l->shown < (l->live ? LIVE_SECONDS : PLAIN_SECONDS)) return false;
  l->shown = now;
  return true;
}

/* Columns that UTF-8 text of narrow characters takes. */
static size_t count_columns(const char *text) {
  size_t columns = 0;
  for (; *text; text++) columns += ((unsigned char)*text & 0xC0) != 0x80;
  return columns;
}

static size_t count_line(live_part *parts, int count) {
  size_t columns = 0;
  for (int i = 0; i < count; i++)
    if (parts[i][0]) columns += count_columns(parts[i]) + (columns > 0 ? 3 : 0);
  return columns;
}

static size_t terminal_columns(const live_line *l) {
  struct winsize size;
  if (!l->live || ioctl(fileno(l->out), TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
    return SIZE_MAX;
  return size.ws_col;
}

void live_show(live_line *l, live_part *parts, int count, const int *expendable, int strong) {
  size_t columns = terminal_columns(l);
  for (; *expendable >= 0 && count_line(parts, count) >= columns; expendable++)
    parts[*expendable][0] = '\0';
  const char *between = l->live ? "\r\033[K" : "";
  for (int i = 0; i < count; i++) {
    if (!parts[i][0]) continue;
    bool marked = l->colour && i == strong;
    fprintf(l->out, "%s%s%s%s", between, marked ? "\033[1m" : "", parts[i],
            marked ? "\033[0m" : "");
    between = " · ";
  }
  if (!l->live) fputc('\n', l->out);
  l->drawn = l->live;
  fflush(l->out);
}

void live_clear(live_line *l) {
  if (l->drawn) fputs("\r\033[K", l->out);
  l->drawn = false;
}

void live_keep(live_line *l) {
  if (l->drawn) fputc('\n', l->out);
  l->drawn = false;
  fflush(l->out);
}
