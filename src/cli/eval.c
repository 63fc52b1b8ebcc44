/* ullage eval: loss and accuracy of a model, or of a run with the weights it wrote.
 *
 * A run's folder stands for its resolved configuration and its weights; flags go over both. */
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"

static int evaluate(command *c, ull_trainer *trainer) {
  ull_evaluation e;
  if (!ull_trainer_fits(trainer)) {
    ull_trainer_refuse(trainer);
    return cli_fail(c, ull_trainer_plan_json(trainer));
  }
  if (ull_trainer_start(trainer) != ULL_OK || ull_trainer_evaluate(trainer, &e) != ULL_OK)
    return cli_fail(c, NULL);
  fprintf(c->report, "loss %.4f", e.loss);
  if (e.accuracy >= 0) fprintf(c->report, " · accuracy %.2f %%", 100 * e.accuracy);
  fprintf(c->report, " · %llu samples in %.1f s\n", (unsigned long long)e.samples, e.seconds);
  if (!c->json) return 0;
  printf("{\"schema\":1,\"loss\":%.17g,", e.loss);
  if (e.accuracy >= 0)
    printf("\"accuracy\":%.17g,", e.accuracy);
  else
    printf("\"accuracy\":null,");
  printf("\"samples\":%llu}\n", (unsigned long long)e.samples);
  return 0;
}

static bool is_folder(const char *path) {
  struct stat about;
  return path && stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

static ull_status set_weights(ull_config *config, const char *folder) {
  char path[1200];
  if (ull_config_has(config, "init")) return ULL_OK;
  snprintf(path, sizeof path, "%.1100s/weights.safetensors", folder);
  return ull_config_set(config, "init", path);
}

/* Everything that was said on the command line, the folder itself excepted. */
static ull_status copy_flags(const ull_config *from, ull_config *to) {
  const char *name;
  for (size_t o = 0; (name = ull_config_option_name(ULL_COMMAND_EVAL, o)) != NULL; o++) {
    if (strcmp(name, "model") == 0 || ull_config_source_of(from, name) == ULL_CONFIG_DEFAULT)
      continue;
    for (size_t i = 0; i < ull_config_count(from, name); i++) {
      ull_status status = ull_config_set(to, name, ull_config_item(from, name, i));
      if (status != ULL_OK) return status;
    }
  }
  return ULL_OK;
}

/* The configuration of a run, with the command line over it. */
static ull_status read_run(const command *c, const char *folder, ull_config **out) {
  char path[1200];
  ull_config *config = NULL;
  ull_status status = ull_config_create(ULL_COMMAND_EVAL, &config);
  snprintf(path, sizeof path, "%.1100s/config.json", folder);
  if (status == ULL_OK) status = ull_config_load_file(config, path);
  if (status == ULL_OK) status = copy_flags(c->config, config);
  if (status == ULL_OK) status = set_weights(config, folder);
  if (status != ULL_OK) {
    ull_config_destroy(config);
    return status;
  }
  *out = config;
  return ULL_OK;
}

static int create_and_evaluate(command *c, const ull_config *config) {
  ull_trainer *trainer = NULL;
  if (ull_trainer_create(config, &trainer) != ULL_OK) return cli_fail(c, NULL);
  int code = evaluate(c, trainer);
  ull_trainer_destroy(trainer);
  return code;
}

int cli_eval(command *c) {
  const char *model = ull_config_text(c->config, "model");
  ull_config *run = NULL;
  if (!is_folder(model)) return create_and_evaluate(c, c->config);
  if (read_run(c, model, &run) != ULL_OK) return cli_fail(c, NULL);
  int code = create_and_evaluate(c, run);
  ull_config_destroy(run);
  return code;
}
