/* One place decides what a source looks like to a network, so that commands agree on it. */
#include "cli/data_feed.h"

#include <string.h>

enum { DEFAULT_SIDE = 224 };

/* What `synthetic` is made of where no model says it. */
static void describe_synthetic(const command *c, ull_synthetic_array arrays[2],
                               ull_source_options *options) {
  int64_t side =
      ull_config_has(c->config, "size") ? ull_config_integer(c->config, "size") : DEFAULT_SIDE;
  arrays[0] = (ull_synthetic_array){
      .name = "image", .dtype = ULL_FLOAT32, .rank = 3, .shape = {3, side, side}};
  arrays[1] = (ull_synthetic_array){
      .name = "label", .dtype = ULL_INT64, .role = ULL_ARRAY_TARGET, .maximum = 999};
  options->synthetic = arrays;
  options->synthetic_count = 2;
  options->synthetic_samples = (uint64_t)ull_config_integer(c->config, "batch-size");
  options->seed = (uint64_t)ull_config_integer(c->config, "seed");
}

static ull_status open_source(const command *c, const char *text, data_feed *feed) {
  ull_source_options options = ull_source_options_default();
  ull_synthetic_array arrays[2];
  describe_synthetic(c, arrays, &options);
  ull_status status = ull_source_open(text, &options, &feed->source);
  if (status != ULL_OK || feed->training || !ull_source_has_evaluation(feed->source)) return status;
  ull_source_close(feed->source);
  feed->source = NULL;
  options.split = ULL_SPLIT_EVAL;
  return ull_source_open(text, &options, &feed->source);
}

static ull_status bind_array(const command *c, data_feed *feed, size_t array,
                             ull_binding *binding) {
  const ull_array_info *info = ull_source_array(feed->source, array);
  *binding = ull_binding_default(feed->source, array);
  if (info->content != ULL_CONTENT_ELEMENTS && ull_config_has(c->config, "size")) {
    int64_t side = ull_config_integer(c->config, "size");
    binding->shape[binding->rank - 2] = binding->shape[binding->rank - 1] = side;
  }
  bool picture = info->content == ULL_CONTENT_IMAGE;
  if (!picture && !(info->image && info->dtype == ULL_UINT8)) return ULL_OK;
  binding->dtype = ULL_FLOAT32;
  return ull_normalize_parse(ull_config_text(c->config, "normalize"), feed->source, array,
                             &binding->normalize);
}

static ull_status bind_arrays(const command *c, data_feed *feed) {
  size_t count = ull_source_array_count(feed->source);
  for (size_t i = 0; i < count; i++) {
    ull_status status = bind_array(c, feed, i, &feed->bindings[i]);
    if (status != ULL_OK) return status;
  }
  feed->options.bindings = feed->bindings;
  feed->options.binding_count = count;
  return ULL_OK;
}

static bool has_pictures(const ull_source *source) {
  for (size_t i = 0; i < ull_source_array_count(source); i++) {
    if (ull_source_array(source, i)->content != ULL_CONTENT_ELEMENTS) return true;
  }
  return false;
}

static ull_status choose_augment(const command *c, data_feed *feed) {
  bool said = ull_config_source_of(c->config, "augment") != ULL_CONFIG_DEFAULT;
  if (said) return ull_augment_parse(ull_config_text(c->config, "augment"), &feed->options.augment);
  if (has_pictures(feed->source)) {
    feed->options.augment = ull_augment_default_for_photos(feed->training);
  }
  return ULL_OK;
}

static void choose_bad_rules(const command *c, ull_loader_options *options) {
  const char *word = ull_config_text(c->config, "on-bad");
  options->on_bad = strcmp(word, "fail") == 0   ? ULL_ON_BAD_FAIL
                    : strcmp(word, "skip") == 0 ? ULL_ON_BAD_SKIP
                                                : ULL_ON_BAD_REPLACE;
  options->max_bad = ull_config_has(c->config, "max-bad")
                         ? (uint64_t)ull_config_integer(c->config, "max-bad")
                         : ULL_MAX_BAD_SHARE;
}

static void choose_options(const command *c, data_feed *feed) {
  ull_loader_options *options = &feed->options;
  options->batch_size = (uint64_t)ull_config_integer(c->config, "batch-size");
  options->seed = (uint64_t)ull_config_integer(c->config, "seed");
  options->epochs = (uint64_t)ull_config_integer(c->config, "epochs");
  options->rank = (uint64_t)ull_config_integer(c->config, "rank");
  options->world_size = (uint64_t)ull_config_integer(c->config, "world-size");
  options->shuffle = feed->training;
  bool said = ull_config_source_of(c->config, "prefetch") != ULL_CONFIG_DEFAULT;
  options->prefetch = said ? (int)ull_config_integer(c->config, "prefetch")
                           : ull_loader_suggest_prefetch(feed->source, options->batch_size);
  choose_bad_rules(c, options);
}

ull_status data_feed_open(const command *c, const char *text, data_feed *feed) {
  *feed = (data_feed){.training = strcmp(ull_config_text(c->config, "mode"), "train") == 0};
  ull_status status = open_source(c, text, feed);
  if (status != ULL_OK) return status;
  feed->options = ull_loader_options_default(feed->source);
  if (ull_config_has(c->config, "loader-memory"))
    feed->budget_bytes = ull_config_bytes(c->config, "loader-memory");
  status = bind_arrays(c, feed);
  if (status == ULL_OK) status = choose_augment(c, feed);
  choose_options(c, feed);
  return status;
}

void data_feed_close(data_feed *feed) {
  ull_source_close(feed->source);
  feed->source = NULL;
}

ull_status data_feed_fit(const command *c, data_feed *feed, int workers) {
  ull_loader_options *options = &feed->options;
  (void)c;
  options->workers = workers > 0 ? workers : ull_loader_suggest_workers(feed->source);
  if (feed->budget_bytes == 0) return ULL_OK;
  uint64_t held = ull_source_resident_bytes(feed->source);
  return ull_loader_fit(options, feed->budget_bytes > held ? feed->budget_bytes - held : 0);
}
