/* The sub-commands of `ullage data`: one function each, in data_NAME.c, and a row in data.c. */
#ifndef ULL_CLI_DATA_H
#define ULL_CLI_DATA_H

#include "cli/cli.h"

/* `subject` is the word behind the sub-command, never NULL. Returns an exit code. */
int cli_data_decode(command *c, const char *subject);
int cli_data_bench(command *c, const char *subject);
int cli_data_scan(command *c, const char *subject);
int cli_data_pack(command *c, const char *subject);
int cli_data_show(command *c, const char *subject);

/* Processor time that the process has used, all threads together. */
double cli_data_cpu_seconds(void);

#endif
