/* ullage data: looks at data without training. The first word chooses what is done, the second is
 * what it is done to. */
#include "cli/data.h"

#include <stdio.h>
#include <string.h>

static const struct subcommand {
  const char *name;
  const char *subject; /* what the second word names */
  int (*run)(command *c, const char *subject);
} subcommands[] = {
    /* clang-format off */
    {"bench", "SRC", cli_data_bench},
    {"scan", "SRC", cli_data_scan},
    {"decode", "FILE", cli_data_decode},
    {"pack", "SRC", cli_data_pack},
    {"show", "SRC", cli_data_show},
    /* clang-format on */
};

enum { SUBCOMMANDS = sizeof subcommands / sizeof subcommands[0] };

static int refuse(const command *c, const char *message) {
  char known[256] = "ullage data";
  for (int i = 0; i < SUBCOMMANDS; i++) {
    size_t used = strlen(known);
    snprintf(known + used, sizeof known - used, "%s %s", i > 0 ? " |" : "", subcommands[i].name);
  }
  return cli_error(c, ULL_ERROR_USAGE, message, known);
}

static int run_subcommand(command *c, const struct subcommand *chosen) {
  if (ull_config_positional_count(c->config) > 1)
    return chosen->run(c, ull_config_positional(c->config, 1));
  char message[128], change[128];
  snprintf(message, sizeof message, "data %s needs %s", chosen->name, chosen->subject);
  snprintf(change, sizeof change, "ullage data %s %s", chosen->name, chosen->subject);
  return cli_error(c, ULL_ERROR_USAGE, message, change);
}

int cli_data(command *c) {
  if (ull_config_positional_count(c->config) == 0) return refuse(c, "data needs a sub-command");
  const char *name = ull_config_positional(c->config, 0);
  for (int i = 0; i < SUBCOMMANDS; i++)
    if (strcmp(name, subcommands[i].name) == 0) return run_subcommand(c, &subcommands[i]);
  char message[256];
  snprintf(message, sizeof message, "data has no sub-command '%.100s'", name);
  return refuse(c, message);
}
