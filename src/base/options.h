/* The table of options: its rows, finding one, checking a value against one. */
#ifndef ULL_BASE_OPTIONS_H
#define ULL_BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ullage/config.h"

typedef enum ull__option_kind {
  ULL__OPTION_FLAG,    /* no value on a command line */
  ULL__OPTION_INTEGER, /* within bounds, or one of `words` */
  ULL__OPTION_REAL,    /* within bounds, or one of `words` */
  ULL__OPTION_SIZE,    /* bytes within bounds, or one of `words` */
  ULL__OPTION_CHOICE,  /* one of `words` */
  ULL__OPTION_TEXT,    /* anything that is not empty and passes `check` */
  ULL__OPTION_LIST     /* as text, may be repeated */
} ull__option_kind;

#define ULL__OPTION_GROUP_MAP(XX) \
  XX(MODEL, "Model")              \
  XX(DATA, "Data")                \
  XX(MEMORY, "Memory")            \
  XX(RECIPE, "Recipe")            \
  XX(RUN, "Run")

typedef enum ull__option_group {
#define XX(name, text) ULL__GROUP_##name,
  ULL__OPTION_GROUP_MAP(XX)
#undef XX
      ULL__GROUP_COUNT
} ull__option_group;

/* Whether `text` is well formed. */
typedef bool (*ull__option_check)(const char *text);

typedef struct ull__option {
  const char *name;
  const char *metavar; /* in help: "N"; NULL for flags */
  const char *initial; /* the default as text; NULL = no value */
  const char *help;
  const char *words; /* "auto|none"; NULL = none */
  double least, most;
  ull__option_check check;
  ull__option_kind kind;
  ull__option_group group;
  uint32_t commands; /* bit 1 << ull_command */
  bool unsaved;      /* not part of the resolved configuration */
  bool positional;   /* the command's first positional argument sets it too */
} ull__option;

extern const ull__option ull__options[];
extern const size_t ull__option_count;

/* The row of `name` that `command` takes, or NULL. */
const ull__option *ull__option_find(ull_command command, const char *name);

/* The row of `name` whichever command takes it, or NULL. */
const ull__option *ull__option_find_any(const char *name);

/* Refuses an unknown name, with the nearest known one or the commands that do take it. */
ull_status ull__option_unknown(ull_command command, const char *name);

/* Whether `text` is a value for the row. */
ull_status ull__option_check_value(const ull__option *option, const char *text);

/* Whether `text` is one of the words "a|b|c"; `words` may be NULL. */
bool ull__option_is_word(const char *words, const char *text);

/* Strict numbers in the C locale: the whole text, decimal, finite. */
bool ull__parse_integer(const char *text, int64_t *out);
bool ull__parse_real(const char *text, double *out);

/* "true", "on", "yes", "1" and their opposites. */
bool ull__parse_flag(const char *text, bool *out);

/* The number of insertions, deletions, changes and swaps of neighbours between two words, at most
 * 64 letters of each looked at. */
size_t ull__edit_distance(const char *a, const char *b);

#endif
