/* Rates are kept in double and rounded to float32 once, when a step's scalars are filled. */
#include "train/recipe.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

static const double pi = 3.14159265358979323846;

static double default_rate(ull__optimizer optimizer) {
  return optimizer == ULL__SGD ? 0.01 : 0.001;
}

static ull__optimizer optimizer_of(const char *word) {
  if (strcmp(word, "adam") == 0) return ULL__ADAM;
  return strcmp(word, "adamw") == 0 ? ULL__ADAMW : ULL__SGD;
}

static ull_status refuse_patterns(const ull_config *config, const char *name) {
  for (size_t i = 0; i < ull_config_count(config, name); i++) {
    const char *item = ull_config_item(config, name, i);
    if (!strchr(item, '=')) continue;
    ULL__FAIL(ULL_ERROR_UNSUPPORTED, "--%s %s: rates by pattern are not supported by this version",
              name, item);
    return ull__error_change("give one number for all parameters");
  }
  return ULL_OK;
}

/* Flags of later versions: refused, never passed over. `words` are the values that change nothing,
 * with bars between. */
typedef struct later_flag {
  const char *name, *words;
} later_flag;

static const later_flag later_flags[] = {
    {"clip-grad", ""},
    {"clip-value", ""},
    {"ema", ""},
    {"freeze", ""},
    {"train", ""},
    {"patience", ""},
    {"eval-model", ""},
    {"load", ""},
    {"allow", ""},
    {"disk-memory", ""},
    {"resume", "auto|never"},
    {"resume-inexact", "false"},
    {"checkpoint-every", ""},
    {"keep-checkpoints", "2"},
    {"on-save-error", "stop"},
    {"on-nan", "stop"},
    {"trace-steps", ""},
    {"sample-every", ""},
    {"loss", "auto"},
};

/* Whether `text` is one of the words with bars between. */
static bool is_among(const char *words, const char *text) {
  size_t length = strlen(text);
  for (const char *word = words; *word; word += *word == '|') {
    size_t end = strcspn(word, "|");
    if (end == length && memcmp(word, text, length) == 0) return true;
    word += end;
  }
  return false;
}

static ull_status refuse_later(const ull_config *config, const later_flag *flag) {
  const char *text = ull_config_text(config, flag->name);
  if (ull_config_source_of(config, flag->name) == ULL_CONFIG_DEFAULT) return ULL_OK;
  if (!text || is_among(flag->words, text)) return ULL_OK;
  ULL__FAIL(ULL_ERROR_UNSUPPORTED, "--%s %.80s is not supported by this version", flag->name, text);
  ull__error_holder("--%s", flag->name);
  return ull__error_change("leave --%s out", flag->name);
}

ull_status ull__recipe_from_config(const ull_config *config, ull__recipe *out) {
  for (size_t i = 0; i < sizeof later_flags / sizeof *later_flags; i++)
    ULL__TRY(refuse_later(config, &later_flags[i]));
  ULL__TRY(refuse_patterns(config, "lr"));
  ULL__TRY(refuse_patterns(config, "weight-decay"));
  double betas[2] = {0.9, 0.999};
  ull_config_pair(config, "betas", betas);
  *out = (ull__recipe){.optimizer = optimizer_of(ull_config_text(config, "opt")),
                       .momentum = ull_config_real(config, "momentum"),
                       .beta1 = betas[0],
                       .beta2 = betas[1],
                       .eps = ull_config_real(config, "eps"),
                       .nesterov = ull_config_flag(config, "nesterov"),
                       .decay_all = ull_config_flag(config, "decay-all")};
  if (!ull_config_real_for(config, "weight-decay", "", &out->weight_decay))
    out->weight_decay = out->optimizer == ULL__ADAMW ? 0.01 : 0;
  return ULL_OK;
}

ull_status ull__rate_from_config(const ull_config *config, uint64_t total_steps,
                                 uint64_t epoch_steps, ull__rate_schedule *out) {
  static const struct {
    const char *word;
    ull__schedule_kind kind;
  } kinds[] = {{"constant", ULL__RATE_CONSTANT},
               {"step", ULL__RATE_STEP},
               {"cosine", ULL__RATE_COSINE},
               {"linear", ULL__RATE_LINEAR},
               {"one-cycle", ULL__RATE_ONE_CYCLE}};
  *out = (ull__rate_schedule){.total_steps = total_steps,
                              .epoch_steps = epoch_steps,
                              .warmup_steps = (uint64_t)ull_config_integer(config, "warmup-steps")};
  const char *word = ull_config_text(config, "schedule");
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (strcmp(word, kinds[i].word) == 0) out->kind = kinds[i].kind;
  if (!ull_config_real_for(config, "lr", "", &out->peak))
    out->peak = default_rate(optimizer_of(ull_config_text(config, "opt")));
  return ULL_OK;
}

static double cosine_between(double from, double to, double share) {
  return to + (from - to) * 0.5 * (1 + cos(pi * share));
}

static double one_cycle(const ull__rate_schedule *s, uint64_t step) {
  double rise_end = 0.3 * (double)s->total_steps - 1, end = (double)s->total_steps - 1;
  double low = s->peak / 25, floor = low / 1e4;
  if (rise_end > 0 && (double)step <= rise_end)
    return cosine_between(low, s->peak, (double)step / rise_end);
  if (rise_end < 0) rise_end = 0;
  double share = end > rise_end ? ((double)step - rise_end) / (end - rise_end) : 1;
  return cosine_between(s->peak, floor, share < 1 ? share : 1);
}

double ull__rate_at(const ull__rate_schedule *s, uint64_t step) {
  double share = s->total_steps > s->warmup_steps && step >= s->warmup_steps
                     ? (double)(step - s->warmup_steps) / (double)(s->total_steps - s->warmup_steps)
                     : 0;
  if (s->kind == ULL__RATE_ONE_CYCLE) return one_cycle(s, step);
  if (step < s->warmup_steps) return s->peak * (double)(step + 1) / (double)s->warmup_steps;
  switch (s->kind) {
  case ULL__RATE_STEP:
    return s->peak * pow(0.1, floor(share * 3));
  case ULL__RATE_COSINE:
    return cosine_between(s->peak, 0, share);
  case ULL__RATE_LINEAR:
    return s->peak * (1 - share);
  default:
    return s->peak;
  }
}

void ull__hyper_fill(const ull__recipe *recipe, const ull__rate_schedule *schedule, uint64_t step,
                     float hyper[ULL__HYPER_COUNT]) {
  double count = (double)step + 1;
  memset(hyper, 0, ULL__HYPER_COUNT * sizeof *hyper);
  hyper[ULL__HYPER_LR] = (float)ull__rate_at(schedule, step);
  hyper[ULL__HYPER_BIAS1] = (float)(1 / (1 - pow(recipe->beta1, count)));
  hyper[ULL__HYPER_BIAS2] = (float)(1 / sqrt(1 - pow(recipe->beta2, count)));
  hyper[ULL__HYPER_FIRST_STEP] = step == 0 ? 1 : 0;
  hyper[ULL__HYPER_CLIP] = 1;
}

char *ull__recipe_text(const ull__recipe *recipe, const ull__rate_schedule *schedule, char *text,
                       size_t size) {
  static const char *const optimizers[] = {"sgd", "adam", "adamw"};
  static const char *const rates[] = {"constant", "step", "cosine", "linear", "one-cycle"};
  char what[96] = "", decay[96];
  if (recipe->optimizer == ULL__SGD)
    snprintf(what, sizeof what, " momentum %g%s", recipe->momentum,
             recipe->nesterov ? " (Nesterov)" : "");
  else
    snprintf(what, sizeof what, " betas %g, %g", recipe->beta1, recipe->beta2);
  snprintf(decay, sizeof decay, ", weight decay %g%s", recipe->weight_decay,
           recipe->weight_decay > 0 && !recipe->decay_all ? " (not on biases and norms)" : "");
  snprintf(text, size, "%s%s, lr %g %s%s", optimizers[recipe->optimizer], what, schedule->peak,
           rates[schedule->kind], decay);
  return text;
}
