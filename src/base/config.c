/* Configurations: setting and reading values.
 *
 * A value is kept as the text it was given as, checked once when it was set; getters parse it
 * again, which cannot fail. All values of an option come from one source. */
#include "ullage/config.h"

#include <fnmatch.h>
#include <string.h>

#include "base/alloc.h"
#include "base/byte_size.h"
#include "base/config_internal.h"
#include "base/error.h"
#include "base/utf8.h"

typedef struct command_row {
  const char *name, *summary;
  size_t most_positionals;
} command_row;

static const command_row command_rows[ULL_COMMAND_COUNT] = {
#define XX(name, text, arguments, most, summary) [ULL_COMMAND_##name] = {text, summary, most},
    ULL_COMMAND_MAP(XX)
#undef XX
};

static const command_row *find_command_row(ull_command command) {
  static const command_row unknown = {"unknown", "", 0};
  return (unsigned)command < ULL_COMMAND_COUNT ? &command_rows[command] : &unknown;
}

const char *ull_command_name(ull_command command) {
  return find_command_row(command)->name;
}

const char *ull_command_summary(ull_command command) {
  return find_command_row(command)->summary;
}

ull_status ull_command_find(const char *name, ull_command *out) {
  ull_command nearest = ULL_COMMAND_COUNT;
  size_t best = 3;
  for (ull_command command = 0; command < ULL_COMMAND_COUNT; command++) {
    size_t distance = ull__edit_distance(name, command_rows[command].name);
    if (distance == 0 && strlen(name) == strlen(command_rows[command].name)) {
      *out = command;
      return ULL_OK;
    }
    if (distance >= best) continue;
    best = distance;
    nearest = command;
  }
  ull__fail(ULL_ERROR_USAGE, "unknown command '%.64s'", name);
  ull__error_holder("%.64s", name);
  if (nearest == ULL_COMMAND_COUNT) return ull__error_change("see ullage --help");
  return ull__error_change("did you mean %s?", command_rows[nearest].name);
}

static void clear_texts(ull__texts *texts) {
  for (size_t i = 0; i < texts->count; i++) ull__free(texts->items[i]);
  texts->count = 0;
}

static void free_texts(ull__texts *texts) {
  clear_texts(texts);
  ull__vector_free(texts);
}

static ull_status add_text(ull__texts *texts, const char *text) {
  char *copy = ull__strdup(text);
  if (copy == NULL) return ull_error_last()->status;
  ull_status status = ull__vector_push(texts, copy);
  if (status != ULL_OK) ull__free(copy);
  return status;
}

static ull_status set_defaults(ull_config *config) {
  for (size_t i = 0; i < ull__option_count; i++) {
    const ull__option *option = &ull__options[i];
    if (option->initial == NULL || !(option->commands >> config->command & 1)) continue;
    ULL__TRY(ull__config_assign(config, option, option->initial, ULL_CONFIG_DEFAULT));
  }
  return ULL_OK;
}

ull_status ull_config_create(ull_command command, ull_config **out) {
  if ((unsigned)command >= ULL_COMMAND_COUNT) {
    return ULL__FAIL(ULL_ERROR_INVALID, "command %d does not exist", (int)command);
  }
  ull_config *config = ull__alloc(1, sizeof *config);
  if (config == NULL) return ull_error_last()->status;
  config->command = command;
  config->settings = ull__alloc(ull__option_count, sizeof *config->settings);
  ull_status status = config->settings != NULL ? set_defaults(config) : ull_error_last()->status;
  if (status != ULL_OK) {
    ull_config_destroy(config);
    return status;
  }
  *out = config;
  return ULL_OK;
}

void ull_config_destroy(ull_config *config) {
  if (config == NULL) return;
  for (size_t i = 0; config->settings != NULL && i < ull__option_count; i++) {
    free_texts(&config->settings[i].values);
  }
  free_texts(&config->positionals);
  ull__free(config->settings);
  ull__free(config->help);
  ull__free(config->resolved_json);
  ull__free(config);
}

/* ---- setting ---- */

/* Results and the resolved configuration are JSON, which could not carry the value. */
static ull_status refuse_bytes(const ull__option *option, const char *value) {
  ull__fail(ULL_ERROR_USAGE, "--%s %.200s: not UTF-8 text", option->name, value);
  ull__error_holder("--%s", option->name);
  return ull__error_change("rename the file or folder");
}

ull_status ull__config_assign(ull_config *config, const ull__option *option, const char *value,
                              ull_config_source source) {
  ull__setting *setting = ull__config_setting(config, option);
  if (!ull__utf8_is_valid(value)) return refuse_bytes(option, value);
  ULL__TRY(ull__option_check_value(option, value));
  if (source < setting->source) return ULL_OK;
  bool replaces = source > setting->source || option->kind != ULL__OPTION_LIST;
  char *copy = ull__strdup(value);
  if (copy == NULL) return ull_error_last()->status;
  ull_status status = ull__vector_reserve(&setting->values, 1);
  if (status != ULL_OK) {
    ull__free(copy);
    return status;
  }
  if (replaces) clear_texts(&setting->values);
  setting->values.items[setting->values.count++] = copy;
  setting->source = source;
  return ULL_OK;
}

ull_status ull_config_set(ull_config *config, const char *name, const char *value) {
  const ull__option *option = ull__option_find(config->command, name);
  if (option == NULL) return ull__option_unknown(config->command, name);
  return ull__config_assign(config, option, value, ULL_CONFIG_FLAG);
}

static const ull__option *find_positional(const ull_config *config) {
  for (size_t i = 0; i < ull__option_count; i++) {
    const ull__option *option = &ull__options[i];
    if (option->positional && (option->commands >> config->command & 1)) return option;
  }
  return NULL;
}

static ull_status take_positional(ull_config *config, const char *text) {
  const ull__option *option = find_positional(config);
  if (config->positionals.count >= find_command_row(config->command)->most_positionals) {
    ull__fail(ULL_ERROR_USAGE, "'%.200s' is one argument too many", text);
    return ull__error_holder("%.200s", text);
  }
  if (config->positionals.count == 0 && option != NULL) {
    ULL__TRY(ull__config_assign(config, option, text, ULL_CONFIG_FLAG));
  }
  return add_text(&config->positionals, text);
}

static ull_status find_typed(const ull_config *config, const char *typed, const char *equals,
                             const ull__option **out) {
  char name[80];
  size_t length = equals != NULL ? (size_t)(equals - typed) : strlen(typed);
  if (length >= sizeof name) length = sizeof name - 1;
  memcpy(name, typed, length);
  name[length] = '\0';
  *out = ull__option_find(config->command, name);
  return *out != NULL ? ULL_OK : ull__option_unknown(config->command, name);
}

static ull_status refuse_missing(const ull__option *option) {
  ull__fail(ULL_ERROR_USAGE, "--%s needs a value: %s", option->name, option->metavar);
  return ull__error_holder("--%s", option->name);
}

/* Reads the flag at argv[*at], moves *at to its last word. */
static ull_status take_flag(ull_config *config, int argc, const char *const *argv, int *at,
                            bool only_config) {
  const char *typed = argv[*at] + 2, *equals = strchr(typed, '='), *value;
  const ull__option *option;
  ULL__TRY(find_typed(config, typed, equals, &option));
  if (equals != NULL) {
    value = equals + 1;
  } else if (option->kind == ULL__OPTION_FLAG) {
    value = "true";
  } else if (*at + 1 >= argc || strncmp(argv[*at + 1], "--", 2) == 0) {
    return refuse_missing(option);
  } else {
    value = argv[++*at];
  }
  bool is_config = strcmp(option->name, "config") == 0;
  if (!only_config) return ull__config_assign(config, option, value, ULL_CONFIG_FLAG);
  return is_config ? ull_config_load_file(config, value) : ULL_OK;
}

static ull_status walk(ull_config *config, int argc, const char *const *argv, bool only_config) {
  bool flags = true;
  for (int at = 0; at < argc; at++) {
    const char *word = argv[at];
    if (flags && strcmp(word, "--") == 0) {
      flags = false;
    } else if (flags && strcmp(word, "-h") == 0) {
      ULL__TRY(ull_config_set(config, "help", "true"));
    } else if (flags && strncmp(word, "--", 2) == 0) {
      ULL__TRY(take_flag(config, argc, argv, &at, only_config));
    } else if (flags && word[0] == '-' && word[1] != '\0') {
      ull__fail(ULL_ERROR_USAGE, "unknown flag %.64s", word);
      return ull__error_change("flags begin with two dashes");
    } else if (!only_config) {
      ULL__TRY(take_positional(config, word));
    }
  }
  return ULL_OK;
}

ull_status ull_config_parse(ull_config *config, int argc, const char *const *argv) {
  ULL__TRY(walk(config, argc, argv, true));
  return walk(config, argc, argv, false);
}

/* ---- reading ---- */

static const ull__setting *find_setting(const ull_config *config, const char *name) {
  const ull__option *option = ull__option_find(config->command, name);
  if (option != NULL) return ull__config_setting(config, option);
  ull__fail(ULL_ERROR_INTERNAL, "%s has no option %s", ull_command_name(config->command), name);
  return NULL;
}

static const char *last_text(const ull_config *config, const char *name) {
  const ull__setting *setting = find_setting(config, name);
  if (setting == NULL || setting->values.count == 0) return NULL;
  return setting->values.items[setting->values.count - 1];
}

bool ull_config_has(const ull_config *config, const char *name) {
  return last_text(config, name) != NULL;
}

ull_config_source ull_config_source_of(const ull_config *config, const char *name) {
  const ull__setting *setting = find_setting(config, name);
  return setting != NULL ? setting->source : ULL_CONFIG_DEFAULT;
}

const char *ull_config_text(const ull_config *config, const char *name) {
  return last_text(config, name);
}

static const char *text_of_kind(const ull_config *config, const char *name, ull__option_kind kind) {
  const ull__option *option = ull__option_find(config->command, name);
  if (option == NULL || option->kind == kind) return last_text(config, name);
  ull__fail(ULL_ERROR_INTERNAL, "option %s is read as another kind than it has", name);
  return NULL;
}

bool ull_config_flag(const ull_config *config, const char *name) {
  const char *text = text_of_kind(config, name, ULL__OPTION_FLAG);
  bool value = false;
  return text != NULL && ull__parse_flag(text, &value) && value;
}

int64_t ull_config_integer(const ull_config *config, const char *name) {
  const char *text = text_of_kind(config, name, ULL__OPTION_INTEGER);
  int64_t value = 0;
  if (text == NULL) return 0;
  return ull__parse_integer(text, &value) ? value : -1;
}

double ull_config_real(const ull_config *config, const char *name) {
  const char *text = text_of_kind(config, name, ULL__OPTION_REAL);
  double value = 0;
  return text != NULL && ull__parse_real(text, &value) ? value : 0;
}

uint64_t ull_config_bytes(const ull_config *config, const char *name) {
  const char *text = text_of_kind(config, name, ULL__OPTION_SIZE);
  uint64_t bytes = 0;
  return text != NULL && ull__byte_size_parse(text, &bytes) == ULL_OK ? bytes : 0;
}

size_t ull_config_count(const ull_config *config, const char *name) {
  const ull__setting *setting = find_setting(config, name);
  return setting != NULL ? setting->values.count : 0;
}

const char *ull_config_item(const ull_config *config, const char *name, size_t index) {
  const ull__setting *setting = find_setting(config, name);
  return setting != NULL && index < setting->values.count ? setting->values.items[index] : NULL;
}

static bool matches(const char *text, const char *equals, const char *subject) {
  char pattern[512];
  size_t length = (size_t)(equals - text);
  if (length >= sizeof pattern) return false;
  memcpy(pattern, text, length);
  pattern[length] = '\0';
  return fnmatch(pattern, subject, 0) == 0;
}

bool ull_config_real_for(const ull_config *config, const char *name, const char *subject,
                         double *out) {
  const char *found = NULL;
  bool found_by_pattern = false;
  for (size_t i = 0; i < ull_config_count(config, name); i++) {
    const char *text = ull_config_item(config, name, i), *equals = strrchr(text, '=');
    if (equals == NULL && !found_by_pattern) found = text;
    if (equals != NULL && matches(text, equals, subject)) {
      found = equals + 1;
      found_by_pattern = true;
    }
  }
  return found != NULL && ull__parse_real(found, out);
}

bool ull_config_pair(const ull_config *config, const char *name, double out[2]) {
  char first[64];
  const char *text = last_text(config, name), *comma = text != NULL ? strchr(text, ',') : NULL;
  if (comma == NULL || (size_t)(comma - text) >= sizeof first) return false;
  memcpy(first, text, (size_t)(comma - text));
  first[comma - text] = '\0';
  return ull__parse_real(first, &out[0]) && ull__parse_real(comma + 1, &out[1]);
}

size_t ull_config_positional_count(const ull_config *config) {
  return config->positionals.count;
}

const char *ull_config_positional(const ull_config *config, size_t index) {
  return index < config->positionals.count ? config->positionals.items[index] : NULL;
}

const char *ull_config_option_name(ull_command command, size_t index) {
  for (size_t i = 0; i < ull__option_count; i++) {
    if (!(ull__options[i].commands >> command & 1)) continue;
    if (index-- == 0) return ull__options[i].name;
  }
  return NULL;
}
