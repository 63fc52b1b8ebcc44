/* The configuration of a command: every flag that Ullage knows, from the command line, a file, or a
 * program.
 *
 *     ull_config *config;
 *     ull_config_create(ULL_COMMAND_TRAIN, &config);
 *     ull_config_parse(config, argc - 2, argv + 2);
 *     uint64_t batch_size = (uint64_t)ull_config_integer(config, "batch-size");
 *     ull_config_destroy(config);
 *
 * One table of options stands behind parsing, checking, help, config files and the resolved
 * configuration. Names are written without dashes in front: "batch-size". What a command line says
 * goes over what a file says, which goes over the default; inside one source the last of a repeated
 * flag wins, except for options that may be repeated (their values add up). Each value is checked
 * when it is set; failures are ULL_ERROR_USAGE (or ULL_ERROR_OVERFLOW for a number that is too
 * large) with the flag as holder and, for an unknown flag, the nearest known one as change.
 *
 * Thread safety: one thread at a time for each config; getters of a config that is no longer
 * changed may be called from any thread. Texts are borrowed until the option is set again or the
 * config is destroyed.
 */
#ifndef ULLAGE_CONFIG_H
#define ULLAGE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ullage/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* name in C, as typed, what follows it, most positional arguments, what it does */
#define ULL_COMMAND_MAP(XX)                                                                      \
  XX(PROBE, "probe", "[MODEL]", 1, "measure this machine: cores, memory tiers, links, rates")    \
  XX(CHECK, "check", "MODEL", 1, "say whether a model can be trained, and how big it is")        \
  XX(PLAN, "plan", "MODEL", 1, "show where every byte of a training would go, without training") \
  XX(TRAIN, "train", "MODEL --data SRC", 1, "train a model inside a memory budget")              \
  XX(EVAL, "eval", "RUN|MODEL --data SRC", 1, "loss and accuracy of a run or a model")           \
  XX(PREDICT, "predict", "RUN --data SRC --out FILE.csv", 1,                                     \
     "write predictions for a data source")                                                      \
  XX(RUN, "run", "MODEL --inputs F.npz --outputs G.npz", 1, "run a model forward once")          \
  XX(DATA, "data", "bench|scan|decode|pack|show SRC", 2,                                         \
     "measure, check, decode, pack or show a data source")

typedef enum ull_command {
#define XX(name, text, arguments, most, summary) ULL_COMMAND_##name,
  ULL_COMMAND_MAP(XX)
#undef XX
      ULL_COMMAND_COUNT
} ull_command;

/* As typed ("train"), and what it does in a few words. Static, never NULL. */
const char *ull_command_name(ull_command command);
const char *ull_command_summary(ull_command command);

/* Finds a command by name. ULL_ERROR_USAGE with the nearest name as change. */
ull_status ull_command_find(const char *name, ull_command *out);

typedef enum ull_config_source {
  ULL_CONFIG_DEFAULT,
  ULL_CONFIG_FILE,
  ULL_CONFIG_FLAG /* the command line, or ull_config_set */
} ull_config_source;

typedef struct ull_config ull_config;

/* All options of `command` at their defaults. Owned by the caller. */
ull_status ull_config_create(ull_command command, ull_config **out);
void ull_config_destroy(ull_config *config); /* NULL is allowed */

/* Reads a command line behind the command's name: `--name value`, `--name=value`, flags without
 * value, `-h`, `--` before words that begin with a dash, and positional arguments, the first of
 * which is the option "model" where the command has it. A `--config FILE` is loaded first. Nothing
 * is kept of `argv`. */
ull_status ull_config_parse(ull_config *config, int argc, const char *const *argv);

/* Reads a file of at most 1 MiB: a JSON object, or lines `name = value` ('#' begins a comment,
 * "quotes" keep one, a flag is true or false, an option that may be repeated has a line for each
 * value). Unknown names are errors; options that only other commands take are passed over, so that
 * one file serves plan, train and eval. */
ull_status ull_config_load_file(ull_config *config, const char *path);

/* Sets one option, as the command line would. */
ull_status ull_config_set(ull_config *config, const char *name, const char *value);

/* Whether the option has a value at all, its default included. */
bool ull_config_has(const ull_config *config, const char *name);
ull_config_source ull_config_source_of(const ull_config *config, const char *name);

/* Values. Without a value, and for a name or kind that the table does not have (then with a record
 * of ULL_ERROR_INTERNAL): false, 0, NULL. */
bool ull_config_flag(const ull_config *config, const char *name);
int64_t ull_config_integer(const ull_config *config, const char *name); /* -1 for a word: "auto" */
double ull_config_real(const ull_config *config, const char *name);
uint64_t ull_config_bytes(const ull_config *config, const char *name);
const char *ull_config_text(const ull_config *config, const char *name); /* of any kind */

/* Options that may be repeated; one that may not has at most one value. */
size_t ull_config_count(const ull_config *config, const char *name);
const char *ull_config_item(const ull_config *config, const char *name, size_t index);

/* For options written X or GLOB=X (`--lr 0.1 --lr '*.bias=0.2'`): the last value whose pattern
 * matches `subject`, else the last without pattern. False where there is none. */
bool ull_config_real_for(const ull_config *config, const char *name, const char *subject,
                         double *out);

/* Two reals written X,X (`--betas 0.9,0.999`). False where the option has no value. */
bool ull_config_pair(const ull_config *config, const char *name, double out[2]);

/* Positional arguments, the model included. */
size_t ull_config_positional_count(const ull_config *config);
const char *ull_config_positional(const ull_config *config, size_t index);

/* Texts made on demand; NULL with a record when memory is out. Borrowed until the next call of the
 * same function. Help lists every option of the command by group. The resolved configuration, one
 * line of JSON, holds every option that has a value and decides about results; it can be loaded
 * again. */
const char *ull_config_help(ull_config *config);
const char *ull_config_resolved_json(ull_config *config);

/* Names of a command's options in the order of the table, for completion; NULL behind the last. */
const char *ull_config_option_name(ull_command command, size_t index);

#ifdef __cplusplus
}
#endif
#endif
