/* ullage plan: where every byte would go, without training. */
#include "cli/cli.h"

static int show(command *c, ull_trainer *trainer) {
  const char *what = ull_config_text(c->config, "show");
  const char *text = ull_trainer_show(trainer, what ? what : "memory");
  if (!text) return cli_fail(c, NULL);
  if (!what) fputs(ull_trainer_header(trainer), c->report);
  fputs(text, c->report);
  return 0;
}

static int report(command *c, ull_trainer *trainer) {
  const char *save = ull_config_text(c->config, "save");
  if (!ull_trainer_fits(trainer)) {
    ull_trainer_refuse(trainer);
    return cli_fail(c, ull_trainer_plan_json(trainer));
  }
  if (save && ull_trainer_save_plan(trainer, save) != ULL_OK) return cli_fail(c, NULL);
  int code = c->json && !ull_config_has(c->config, "show") ? 0 : show(c, trainer);
  if (code == 0 && c->json) {
    const char *line = ull_trainer_plan_json(trainer);
    if (!line) return cli_fail(c, NULL);
    puts(line);
  }
  return code;
}

int cli_plan(command *c) {
  ull_trainer *trainer = NULL;
  if (ull_trainer_create(c->config, &trainer) != ULL_OK) return cli_fail(c, NULL);
  int code = report(c, trainer);
  ull_trainer_destroy(trainer);
  return code;
}
