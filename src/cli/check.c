/* ullage check: can it train, how big is it. */
#include "cli/cli.h"
#include "ullage/model.h"

int cli_check(command *c) {
  ull_model_report report;
  if (ull_model_check(c->config, &report) != ULL_OK) return cli_fail(c, NULL);
  fputs(report.text, c->report);
  if (c->json) puts(report.json);
  int code = report.trainable ? 0 : 1;
  ull_model_report_free(&report);
  return code;
}
