/* Failures in words and as JSON. */
#include <jansson.h>
#include <stdlib.h>

#include "cli/cli.h"

void cli_put(FILE *out, const char *before, const char *text, const char *behind) {
  fputs(before, out);
  for (; *text != '\0'; text++) {
    unsigned char c = (unsigned char)*text;
    fputc(c < ' ' || c == 0x7F ? '?' : c, out);
  }
  fputs(behind, out);
}

static void print_words(const ull_error *e) {
  cli_put(stderr, "ullage: ", e->message, "\n");
  if (e->holder[0]) cli_put(stderr, "  held by: ", e->holder, "\n");
  if (e->change[0]) cli_put(stderr, "  try: ", e->change, "\n");
}

static uint64_t shortfall(const ull_error *e) {
  return e->wanted_bytes > e->available_bytes ? e->wanted_bytes - e->available_bytes : 0;
}

static void print_json(const ull_error *e, const char *more) {
  json_t *error = json_pack("{s:s, s:s, s:s, s:I, s:s}", "code", ull_status_name(e->status),
                            "message", e->message, "holder", e->holder, "shortfall_bytes",
                            (json_int_t)shortfall(e), "change", e->change);
  json_t *object = json_pack("{s:i, s:o}", "schema", 1, "error", error);
  json_t *rest = more ? json_loads(more, 0, NULL) : NULL;
  if (object && rest) json_object_update_missing(object, rest);
  char *line = object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
  if (line) puts(line);
  free(line);
  json_decref(rest);
  json_decref(object);
}

int cli_fail(const command *c, const char *more) {
  ull_error e = *ull_error_last();
  print_words(&e);
  if (c->json) print_json(&e, more);
  return ull_status_exit_code(e.status);
}

int cli_error(const command *c, ull_status status, const char *message, const char *change) {
  ull_error e = {.status = status};
  snprintf(e.message, sizeof e.message, "%s", message);
  snprintf(e.change, sizeof e.change, "%s", change);
  print_words(&e);
  if (c->json) print_json(&e, NULL);
  return ull_status_exit_code(e.status);
}
