/* ullage data: looks at data without training. The first word chooses what is done, the second is
 * what it is done to. */
#include "cli/data.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#define LOADER                                                                               \
  "|augment|normalize|workers|prefetch|loader-memory|on-bad|max-bad|mode|size|dtype|layout|" \
  "shuffle|drop-last|rank|world-size|batch-size|epochs|seed|"

static const struct subcommand {
  const char *name;
  const char *subject; /* what the second word names */
  const char *flags;   /* that it reads, each between bars, beside those of every command */
  int (*run)(command *c, const char *subject);
} subcommands[] = {
    /* clang-format off */
    {"bench", "SRC", LOADER "start-batch|batches|samples|", cli_data_bench},
    {"scan", "SRC", "|workers|loader-memory|files|", cli_data_scan},
    {"decode", "FILE", "|loader-memory|crop|orientation|out|", cli_data_decode},
    {"pack", "SRC", "|workers|loader-memory|on-bad|max-bad|shard-size|max-side|quality|out|",
     cli_data_pack},
    {"show", "SRC", LOADER "n|out|", cli_data_show},
    /* clang-format on */
};

enum { SUBCOMMANDS = sizeof subcommands / sizeof subcommands[0] };

double cli_data_cpu_seconds(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

static int refuse(const command *c, const char *message) {
  char known[256] = "ullage data";
  for (int i = 0; i < SUBCOMMANDS; i++) {
    size_t used = strlen(known);
    snprintf(known + used, sizeof known - used, "%s %s", i > 0 ? " |" : "", subcommands[i].name);
  }
  return cli_error(c, ULL_ERROR_USAGE, message, known);
}

/* A flag that changes nothing is a mistake, though no harm is done. Files may be for several. */
static void warn_of_unread(const command *c, const struct subcommand *chosen) {
  const char *name;
  for (size_t i = 0; (name = ull_config_option_name(ULL_COMMAND_DATA, i)) != NULL; i++) {
    char word[64];
    snprintf(word, sizeof word, "|%s|", name);
    bool read = strstr("|config|json|help|", word) != NULL || strstr(chosen->flags, word) != NULL;
    if (!read && ull_config_source_of(c->config, name) == ULL_CONFIG_FLAG)
      fprintf(stderr, "ullage: warning: data %s takes no notice of --%s\n", chosen->name, name);
  }
}

/* Only a benchmark has a use for several. */
static int refuse_several_workers(const command *c, const struct subcommand *chosen) {
  const char *workers = ull_config_text(c->config, "workers");
  if (chosen->run == cli_data_bench || workers == NULL || strchr(workers, ',') == NULL) return 0;
  char message[128];
  snprintf(message, sizeof message, "data %s takes one number of --workers", chosen->name);
  return cli_error(c, ULL_ERROR_USAGE, message, "--workers 2");
}

static int run_subcommand(command *c, const struct subcommand *chosen) {
  warn_of_unread(c, chosen);
  int code = refuse_several_workers(c, chosen);
  if (code != 0) return code;
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
