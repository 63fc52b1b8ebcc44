/* What the files behind ullage/config.h share. */
#ifndef ULL_BASE_CONFIG_INTERNAL_H
#define ULL_BASE_CONFIG_INTERNAL_H

#include "base/options.h"
#include "base/vector.h"
#include "ullage/config.h"

typedef ULL__VECTOR(char *) ull__texts;

/* The values of one row, all from one source. */
typedef struct ull__setting {
  ull__texts values;
  ull_config_source source;
} ull__setting;

struct ull_config {
  ull_command command;
  ull__setting *settings; /* beside ull__options */
  ull__texts positionals;
  char *help, *resolved_json; /* made on demand */
};

/* Checks and sets a value. A value of a weaker source than the present one is checked and dropped;
 * one of a stronger source, or of an option that may not be repeated, replaces what is there. */
ull_status ull__config_assign(ull_config *config, const ull__option *option, const char *value,
                              ull_config_source source);

static inline ull__setting *ull__config_setting(const ull_config *config,
                                                const ull__option *option) {
  return &config->settings[option - ull__options];
}

/* Whether the configuration's command has an option of this name. */
static inline bool ull__config_takes(const ull_config *config, const char *name) {
  return ull__option_find(config->command, name) != NULL;
}

#endif
