/* One place decides what a source looks like to a network, so that commands and bindings agree on
 * it: names to options, and options to a running loader. */
#include "ullage/stream.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "base/utf8.h"
#include "data/loader.h"

enum { DEFAULT_SIDE = 224, NAME_BYTES = 64, LINE_BYTES = 1024, CLASS_NAME_BYTES = 512 };

struct ull_stream {
  ull_source *source;
  ull_loader *loader;
  ull_loader_options options;
  ull_loader_bound bound;
  ull_binding bindings[ULL_DATA_MAX_ARRAYS];
  bool training;
  char line[LINE_BYTES];
  char class_name[CLASS_NAME_BYTES];
};

static bool said(const ull_config *config, const char *name) {
  return ull_config_source_of(config, name) != ULL_CONFIG_DEFAULT;
}

static bool is_word(const ull_config *config, const char *name, const char *word) {
  return strcmp(ull_config_text(config, name), word) == 0;
}

/* What `synthetic` is made of where no model says it. */
static void describe_synthetic(const ull_config *config, ull_synthetic_array arrays[2],
                               ull_source_options *options) {
  int64_t side = said(config, "size") ? ull_config_integer(config, "size") : DEFAULT_SIDE;
  arrays[0] = (ull_synthetic_array){
      .name = "image", .dtype = ULL_FLOAT32, .rank = 3, .shape = {3, side, side}};
  arrays[1] = (ull_synthetic_array){
      .name = "label", .dtype = ULL_INT64, .role = ULL_ARRAY_TARGET, .maximum = 999};
  options->synthetic = arrays;
  options->synthetic_count = 2;
  options->synthetic_samples = (uint64_t)ull_config_integer(config, "batch-size");
  options->seed = (uint64_t)ull_config_integer(config, "seed");
}

/* The evaluation part where samples are prepared for evaluation and there is one. */
static ull_status open_source(const ull_config *config, const char *text, ull_stream *stream) {
  ull_source_options options = ull_source_options_default();
  ull_synthetic_array arrays[2];
  describe_synthetic(config, arrays, &options);
  ULL__TRY(ull_source_open(text, &options, &stream->source));
  if (stream->training || !ull_source_has_evaluation(stream->source)) return ULL_OK;
  ull_source_close(stream->source);
  stream->source = NULL;
  options.split = ULL_SPLIT_EVAL;
  return ull_source_open(text, &options, &stream->source);
}

static ull_status picture_dtype(const ull_config *config, ull_dtype *dtype) {
  static const ull_dtype choices[] = {ULL_FLOAT32, ULL_FLOAT16, ULL_BFLOAT16, ULL_UINT8};
  for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
    *dtype = choices[i];
    if (is_word(config, "dtype", ull_dtype_name(*dtype))) return ULL_OK;
  }
  return ULL__FAIL(ULL_ERROR_USAGE, "pictures cannot be %s", ull_config_text(config, "dtype"));
}

/* [C, H, W] to [H, W, C]. */
static void put_channels_last(ull_binding *binding) {
  int64_t channels = binding->shape[0];
  binding->shape[0] = binding->shape[1];
  binding->shape[1] = binding->shape[2];
  binding->shape[2] = channels;
  binding->channels_last = true;
}

static ull_status bind_array(const ull_config *config, const ull_stream *stream, size_t array,
                             ull_binding *binding) {
  const ull_array_info *info = ull_source_array(stream->source, array);
  bool picture = info->content == ULL_CONTENT_IMAGE;
  *binding = ull_binding_default(stream->source, array);
  if (info->content != ULL_CONTENT_ELEMENTS && said(config, "size")) {
    int64_t side = ull_config_integer(config, "size");
    binding->shape[binding->rank - 2] = binding->shape[binding->rank - 1] = side;
  }
  if (!picture && !(info->image && info->dtype == ULL_UINT8)) return ULL_OK;
  ULL__TRY(picture_dtype(config, &binding->dtype));
  if (picture && is_word(config, "layout", "nhwc")) put_channels_last(binding);
  if (binding->dtype == ULL_UINT8) return ULL_OK;
  return ull_normalize_parse(ull_config_text(config, "normalize"), stream->source, array,
                             &binding->normalize);
}

static bool has_pictures(const ull_source *source) {
  for (size_t i = 0; i < ull_source_array_count(source); i++)
    if (ull_source_array(source, i)->content != ULL_CONTENT_ELEMENTS) return true;
  return false;
}

static bool has_side(const ull_source *source, int64_t side) {
  for (size_t i = 0; i < ull_source_array_count(source); i++) {
    const ull_array_info *info = ull_source_array(source, i);
    bool same = info->image && info->shape[info->rank - 1] == side;
    if (same && info->shape[info->rank - 2] == side) return true;
  }
  return false;
}

/* Arrays are taken as they are stored, and what only pictures take would be passed over silently.
 */
static void tell_unheeded(const ull_config *config, const ull_stream *stream) {
  const char *text = ull_source_text(stream->source);
  if (has_pictures(stream->source) || ull_source_is_fixed(stream->source)) return;
  if (said(config, "size") && !has_side(stream->source, ull_config_integer(config, "size")))
    ULL__LOG_WARNING("%s: has no encoded pictures: --size %" PRId64 " changes nothing", text,
                     ull_config_integer(config, "size"));
  if (is_word(config, "layout", "nhwc"))
    ULL__LOG_WARNING("%s: has no encoded pictures: --layout nhwc changes nothing", text);
}

static ull_status choose_augment(const ull_config *config, ull_stream *stream) {
  ull_augment *augment = &stream->options.augment;
  if (!is_word(config, "augment", "auto"))
    return ull_augment_parse(ull_config_text(config, "augment"), augment);
  if (has_pictures(stream->source)) *augment = ull_augment_default_for_photos(stream->training);
  return ULL_OK;
}

static void choose_bad_rules(const ull_config *config, ull_loader_options *options) {
  options->on_bad = is_word(config, "on-bad", "fail")   ? ULL_ON_BAD_FAIL
                    : is_word(config, "on-bad", "skip") ? ULL_ON_BAD_SKIP
                                                        : ULL_ON_BAD_REPLACE;
  options->max_bad =
      said(config, "max-bad") ? (uint64_t)ull_config_integer(config, "max-bad") : ULL_MAX_BAD_SHARE;
}

static void choose_order(const ull_config *config, ull_stream *stream) {
  ull_loader_options *options = &stream->options;
  options->batch_size = (uint64_t)ull_config_integer(config, "batch-size");
  options->seed = (uint64_t)ull_config_integer(config, "seed");
  options->epochs = (uint64_t)ull_config_integer(config, "epochs");
  options->rank = (uint64_t)ull_config_integer(config, "rank");
  options->world_size = (uint64_t)ull_config_integer(config, "world-size");
  options->shuffle =
      is_word(config, "shuffle", "auto") ? stream->training : is_word(config, "shuffle", "true");
  options->drop_last = ull_config_flag(config, "drop-last");
  choose_bad_rules(config, options);
}

/* Threads, slots and memory. */
static ull_status choose_means(const ull_config *config, int workers, ull_stream *stream) {
  ull_loader_options *options = &stream->options;
  bool one_number =
      strchr(ull_config_text(config, "workers") ? ull_config_text(config, "workers") : "", ',') ==
      NULL;
  if (workers < 0 && said(config, "workers") && one_number)
    workers = (int)strtol(ull_config_text(config, "workers"), NULL, 10);
  options->workers = workers > 0 ? workers : ull_loader_suggest_workers(stream->source);
  options->prefetch = is_word(config, "prefetch", "auto")
                          ? ull_loader_suggest_prefetch(stream->source, options->batch_size)
                          : (int)ull_config_integer(config, "prefetch");
  if (said(config, "loader-memory")) {
    ull__loader_budget budget = {.bytes = ull_config_bytes(config, "loader-memory"),
                                 .held_bytes = ull_source_resident_bytes(stream->source),
                                 .loaders = 1};
    ULL__TRY(ull__loader_fit_into(options, &budget));
  }
  return ull_loader_bound_bytes(options, &stream->bound);
}

static ull_status bind_arrays(const ull_config *config, ull_stream *stream) {
  stream->options.binding_count = ull_source_array_count(stream->source);
  stream->options.bindings = stream->bindings;
  for (size_t i = 0; i < stream->options.binding_count; i++)
    ULL__TRY(bind_array(config, stream, i, &stream->bindings[i]));
  return ULL_OK;
}

static void describe(ull_stream *stream) {
  char augment[256], bound[512], name[LINE_BYTES / 2];
  ull_augment_describe(&stream->options.augment, augment, sizeof augment);
  ull_loader_bound_describe(&stream->bound, bound, sizeof bound);
  snprintf(stream->line, sizeof stream->line,
           "%s: %" PRIu64 " samples, batches of %" PRIu64 ", %s; %s",
           ull__utf8_told(ull_source_text(stream->source), name, sizeof name),
           ull_source_sample_count(stream->source), stream->options.batch_size, augment, bound);
}

static ull_status prepare(const char *source, const ull_config *config, int workers,
                          ull_stream *stream) {
  stream->training = is_word(config, "mode", "train");
  ULL__TRY(open_source(config, source, stream));
  stream->options = ull_loader_options_default(stream->source);
  ULL__TRY(bind_arrays(config, stream));
  tell_unheeded(config, stream);
  ULL__TRY(choose_augment(config, stream));
  choose_order(config, stream);
  ULL__TRY(choose_means(config, workers, stream));
  describe(stream);
  return ULL_OK;
}

ull_status ull_stream_prepare(const char *source, const ull_config *config, int workers,
                              ull_stream **out) {
  *out = NULL;
  if (source == NULL || config == NULL)
    return ULL__FAIL(ULL_ERROR_INVALID, "a stream without a source or a configuration");
  ull_stream *stream = ull__alloc(1, sizeof *stream);
  if (stream == NULL) return ull_error_last()->status;
  ull_status status = prepare(source, config, workers, stream);
  if (status == ULL_OK)
    *out = stream;
  else
    ull_stream_close(stream);
  return status;
}

ull_status ull_stream_start(ull_stream *stream) {
  if (stream->loader != NULL) return ULL_OK;
  return ull_loader_create(&stream->options, &stream->loader);
}

static ull_status start_or_close(ull_stream **out) {
  ull_status status = ull_stream_start(*out);
  if (status == ULL_OK) return ULL_OK;
  ull_stream_close(*out);
  *out = NULL;
  return status;
}

ull_status ull_stream_open_config(const char *source, const ull_config *config, int workers,
                                  ull_stream **out) {
  ULL__TRY(ull_stream_prepare(source, config, workers, out));
  return start_or_close(out);
}

static ull_status set_one(ull_config *config, const char *setting) {
  char name[NAME_BYTES];
  size_t length = strcspn(setting, "=");
  if (setting[length] == '\0' || length == 0 || length >= sizeof name) {
    ULL__FAIL(ULL_ERROR_USAGE, "'%.100s' is no setting", setting);
    return ull__error_change("give name=value, such as batch-size=64");
  }
  memcpy(name, setting, length);
  name[length] = '\0';
  return ull_config_set(config, name, setting + length + 1);
}

/* Without end unless epochs are named. */
static ull_status open_configured(const char *source, const ull_config *config, ull_stream **out) {
  ULL__TRY(ull_stream_prepare(source, config, -1, out));
  if (!said(config, "epochs")) (*out)->options.epochs = 0;
  return start_or_close(out);
}

ull_status ull_stream_open(const char *source, const char *const *settings, size_t count,
                           ull_stream **out) {
  ull_config *config;
  *out = NULL;
  ULL__TRY(ull_config_create(ULL_COMMAND_DATA, &config));
  ull_status status = ULL_OK;
  for (size_t i = 0; i < count && status == ULL_OK; i++) status = set_one(config, settings[i]);
  if (status == ULL_OK) status = open_configured(source, config, out);
  ull_config_destroy(config);
  return status;
}

void ull_stream_close(ull_stream *stream) {
  if (stream == NULL) return;
  ull_loader_destroy(stream->loader);
  ull_source_close(stream->source);
  ull__free(stream);
}

ull_loader *ull_stream_loader(ull_stream *stream) {
  return stream->loader;
}

const ull_source *ull_stream_source(const ull_stream *stream) {
  return stream->source;
}

const ull_loader_options *ull_stream_options(const ull_stream *stream) {
  return &stream->options;
}

const ull_loader_bound *ull_stream_bound(const ull_stream *stream) {
  return &stream->bound;
}

const char *ull_stream_describe(const ull_stream *stream) {
  return stream->line;
}

uint64_t ull_stream_samples(const ull_stream *stream) {
  return ull_source_sample_count(stream->source);
}

uint64_t ull_stream_bound_bytes(const ull_stream *stream) {
  return ull_loader_bound_total(&stream->bound);
}

uint64_t ull_stream_slots(const ull_stream *stream) {
  return (uint64_t)stream->options.prefetch;
}

void ull_stream_sample_name(const ull_stream *stream, uint64_t sample, char *buffer, size_t bytes) {
  ull_source_sample_name(stream->source, sample, buffer, bytes);
}

uint64_t ull_stream_class_count(const ull_stream *stream) {
  return ull_source_class_count(stream->source);
}

const char *ull_stream_class_name(ull_stream *stream, uint64_t number) {
  return ull_source_class_name(stream->source, number, stream->class_name,
                               sizeof stream->class_name);
}
