/* Data for a job: opens the sources and binds their arrays to the model's inputs.
 *
 * An input takes the array that --input or --target names for it; else the array of its own name;
 * else, where the model has one input (or one target) and the source has one array of that role,
 * that one. */
#include <string.h>

#include "base/config_internal.h"
#include "base/error.h"
#include "data/loader.h"
#include "train/job.h"

static bool is_synthetic(const char *text) {
  return strcmp(text, "synthetic") == 0;
}

static const char *array_named_by_flags(const ull_config *config, const ull__model_input *input) {
  size_t length = strlen(input->name);
  for (size_t i = ull_config_count(config, "input"); i-- > 0;) {
    const char *item = ull_config_item(config, "input", i);
    if (strncmp(item, input->name, length) == 0 && item[length] == '=') return item + length + 1;
  }
  return input->is_target ? ull_config_text(config, "target") : NULL;
}

static ull_status refuse_ignored(const ull__job *job, const ull_array_info *info) {
  ULL__FAIL(ULL_ERROR_MISMATCH, "the data leaves targets out of the loss, %s cannot",
            job->model->name);
  ull__error_holder("array '%s'", info->name);
  return ull__error_change("a model that takes targets: zoo:gpt2?packed=1, zoo:gpt2_tiny?packed=1");
}

/* Targets that are left out, and documents that are kept apart, must reach the model. */
static ull_status check_ignored(const ull__job *job, const ull__feed *feed) {
  for (size_t a = 0; a < ull_source_array_count(feed->source); a++) {
    const ull_array_info *info = ull_source_array(feed->source, a);
    bool bound = !info->has_ignored;
    for (size_t b = 0; b < feed->binding_count; b++) bound |= feed->bindings[b].array == a;
    if (!bound) return refuse_ignored(job, info);
  }
  return ULL_OK;
}

static ull_status bind_input(const ull__job *job, const ull__feed *feed,
                             const ull__model_input *input, ull_binding *binding) {
  size_t array;
  ULL__TRY(ull_source_choose_array(feed->source, input->name,
                                   input->is_target ? ULL_ARRAY_TARGET : ULL_ARRAY_INPUT,
                                   array_named_by_flags(job->config, input), &array));
  *binding = ull_binding_default(feed->source, array);
  binding->name = input->name;
  binding->dtype = input->dtype;
  binding->rank = (int)input->shape.rank - 1;
  const ull_array_info *info = ull_source_array(feed->source, array);
  for (int d = 0; d < binding->rank; d++) binding->shape[d] = input->shape.dims[d + 1].constant;
  bool has_lengths = ull_source_bucket_count(feed->source) > 0 && binding->rank == 1;
  if (has_lengths) binding->shape[0] = info->shape[0]; /* the model is made for each */
  if (info->has_ignored && !(input->has_ignored && input->ignored == info->ignored))
    return refuse_ignored(job, info);
  if (input->upper > 0) {
    binding->has_range = true;
    binding->minimum = 0;
    binding->maximum = input->upper - 1;
    binding->has_ignored = input->has_ignored;
    binding->ignored = input->ignored;
  }
  if (!input->is_image) return ULL_OK;
  if (feed != &job->train && job->train.source) { /* evaluation sees what training saw */
    for (size_t b = 0; b < job->train.binding_count; b++)
      if (strcmp(job->train.bindings[b].name, input->name) == 0)
        binding->normalize = job->train.bindings[b].normalize;
    return ULL_OK;
  }
  ULL__TRY(ull_normalize_parse(ull_config_text(job->config, "normalize"), feed->source, array,
                               &binding->normalize));
  ull__normalize_suit(&binding->normalize, binding->shape[0]);
  return ULL_OK;
}

/* The smallest and largest label; classes that have names need not be looked for. */
static ull_status find_labels(const ull__feed *feed, size_t array, int64_t *least, int64_t *most) {
  uint64_t classes = ull_source_class_count(feed->source);
  if (classes == 0) return ull_source_range(feed->source, array, least, most);
  *least = 0;
  *most = (int64_t)classes - 1;
  return ULL_OK;
}

/* A classifier with more outputs than the data has classes trains dead outputs: nearly always the
 * wrong model. */
static ull_status check_classes(const ull__job *job, const ull__feed *feed) {
  for (size_t b = 0; b < feed->binding_count && job->model->classes > 0; b++) {
    if (!job->model->inputs[b].is_target || ull_source_is_fixed(feed->source)) continue;
    int64_t least, most;
    ULL__TRY(find_labels(feed, feed->bindings[b].array, &least, &most));
    bool is_training = feed == &job->train; /* an evaluation set may lack the last classes */
    if (least < 0 || most + 1 == job->model->classes) continue;
    if (!is_training && most < job->model->classes) continue;
    ULL__FAIL(ULL_ERROR_DATA,
              "the model has %lld outputs, the data has %lld classes (labels %lld to %lld)",
              (long long)job->model->classes, (long long)most + 1, (long long)least,
              (long long)most);
    ull__error_holder("%s", ull_source_array(feed->source, feed->bindings[b].array)->name);
    return ull__error_change("--classes %lld", (long long)most + 1);
  }
  return ULL_OK;
}

static bool is_class_number(const ull_array_info *info) {
  bool whole = info->dtype == ULL_INT64 || info->dtype == ULL_INT32 || info->dtype == ULL_UINT8;
  return whole && info->content == ULL_CONTENT_ELEMENTS &&
         info->sample_bytes == ull_dtype_bytes(info->dtype);
}

static ull_status refuse_mixing(const ull__job *job, const char *why, const char *array) {
  ULL__FAIL(ULL_ERROR_UNSUPPORTED, "--augment %s: %s", ull_config_text(job->config, "augment"),
            why);
  ull__error_holder(array ? "array '%s'" : "%s", array ? array : "--augment");
  return ull__error_change("leave mixup and cutmix out");
}

/* The loader mixes images, and class numbers that become shares. */
static ull_status check_mixing(const ull__job *job, const ull__feed *feed) {
  bool has_image = false;
  for (size_t b = 0; b < feed->binding_count; b++) {
    const ull_array_info *info = ull_source_array(feed->source, feed->bindings[b].array);
    has_image |= info->image;
    if (job->soft_model->inputs[b].is_shares && !is_class_number(info))
      return refuse_mixing(job, "only targets that are one class number can be mixed", info->name);
  }
  if (!has_image) return refuse_mixing(job, "the data has no images to mix", NULL);
  if (job->soft_model->classes < 2) return refuse_mixing(job, "there is one class only", NULL);
  return ULL_OK;
}

/* Tokens of a sample: the model's. */
static int64_t find_sequence(const ull__model *model) {
  for (uint32_t i = 0; i < model->input_count; i++) {
    const ull__model_input *input = &model->inputs[i];
    bool is_tokens = input->dtype == ULL_INT64 && !input->is_target && input->shape.rank == 2;
    if (is_tokens) return input->shape.dims[1].constant;
  }
  return 0;
}

/* Evaluation has the lengths that training came to, so that programs are for the same ones. */
static const char *choose_buckets(const ull__job *job) {
  bool trained = job->train.source != NULL && ull_source_bucket_count(job->train.source) > 0;
  if (trained) return ull_source_bucket_lengths(job->train.source);
  return ull_config_text(job->config, "buckets");
}

static ull_status refuse_buckets(const ull_source *source) {
  ULL__FAIL(ULL_ERROR_USAGE, "%s: has no sequences of several lengths", ull_source_text(source));
  ull__error_holder("--buckets");
  return ull__error_change("leave out --buckets, or give text:FILE or tokens:FILE");
}

static ull_status open_source(const ull__job *job, const char *text, ull_split split,
                              ull_source **out) {
  ull_source_options options = ull_source_options_default();
  ull_synthetic_array arrays[ULL_DATA_MAX_ARRAYS] = {0};
  options.split = split;
  if (!job->evaluates_only) options.val_split = ull_config_real(job->config, "val-split");
  options.seed = (uint64_t)ull_config_integer(job->config, "seed");
  options.sequence = find_sequence(job->model);
  options.pack = ull_config_flag(job->config, "pack");
  options.tokenizer = ull_config_text(job->config, "tokenizer");
  options.buckets = choose_buckets(job);
  if (is_synthetic(text)) options.val_split = 0;
  for (uint32_t i = 0; i < job->model->input_count; i++) {
    const ull__model_input *input = &job->model->inputs[i];
    arrays[i] = (ull_synthetic_array){.name = input->name,
                                      .dtype = input->dtype,
                                      .role = input->is_target ? ULL_ARRAY_TARGET : ULL_ARRAY_INPUT,
                                      .rank = (int)input->shape.rank - 1,
                                      .maximum = input->upper > 0 ? input->upper - 1 : 0};
    for (int d = 0; d < arrays[i].rank; d++) arrays[i].shape[d] = input->shape.dims[d + 1].constant;
  }
  options.synthetic = arrays;
  options.synthetic_count = job->model->input_count;
  options.synthetic_samples = (uint64_t)job->batch_size;
  ULL__TRY(ull_source_open(text, &options, out));
  bool wants = options.buckets != NULL || ull_config_has(job->config, "buckets");
  return wants && ull_source_bucket_count(*out) == 0 ? refuse_buckets(*out) : ULL_OK;
}

/* What becomes of samples that cannot be used. */
static void read_bad_rules(const ull_config *config, ull_loader_options *options) {
  const char *word = ull_config_text(config, "on-bad");
  options->refill = strcmp(word, "skip") == 0; /* plans are made for batches of one size */
  options->on_bad = options->refill             ? ULL_ON_BAD_SKIP
                    : strcmp(word, "fail") == 0 ? ULL_ON_BAD_FAIL
                                                : ULL_ON_BAD_REPLACE;
  options->max_bad = ull_config_has(config, "max-bad")
                         ? (uint64_t)ull_config_integer(config, "max-bad")
                         : ULL_MAX_BAD_SHARE;
}

/* Evaluation passes once. Training goes on for as many steps as are planned: as the index has it,
 * or where samples are left out and epochs are shorter, to the end of the last epoch. */
static uint64_t choose_epochs(const ull_config *config, bool training, bool shortens) {
  if (!training) return 1;
  return shortens && !ull_config_has(config, "steps")
             ? (uint64_t)ull_config_integer(config, "epochs")
             : 0;
}

static bool has_pictures(const ull__feed *feed) {
  for (size_t b = 0; b < feed->binding_count; b++) {
    const ull_array_info *info = ull_source_array(feed->source, feed->bindings[b].array);
    if (info->content != ULL_CONTENT_ELEMENTS) return true;
  }
  return false;
}

/* Photographs are cropped and mirrored unless something else is asked for; evaluation shows their
 * middle, or all of them where training does. */
static void choose_augment(const ull__job *job, bool training, ull__feed *feed) {
  const ull_augment *asked = &job->augment;
  ull_augment *augment = &feed->options.augment;
  if (training && job->says_augment) {
    *augment = *asked;
  } else if (has_pictures(feed)) {
    *augment = ull_augment_default_for_photos(training);
    bool still = asked->framing == ULL_FRAMING_STRETCH || asked->framing == ULL_FRAMING_CENTRE_CROP;
    if (still) augment->framing = asked->framing;
    if (still) augment->resize_side = asked->resize_side;
  }
}

enum { MOST_DEFAULT_WORKERS = 8 };

/* Threads and slots: as many as suit where nothing is said. Elements are cheap: one thread. */
static void choose_threads(const ull_config *config, ull__feed *feed) {
  ull_loader_options *options = &feed->options;
  bool pictures = has_pictures(feed);
  int suggested = pictures ? ull_loader_suggest_workers(feed->source) : 1;
  options->workers = suggested < MOST_DEFAULT_WORKERS ? suggested : MOST_DEFAULT_WORKERS;
  options->adaptive = pictures;
  if (ull_config_has(config, "workers"))
    options->workers = (int)ull_config_integer(config, "workers");
  bool automatic = strcmp(ull_config_text(config, "prefetch"), "auto") == 0;
  options->prefetch = automatic ? ull_loader_suggest_prefetch(feed->source, options->batch_size)
                                : (int)ull_config_integer(config, "prefetch");
}

/* Training and evaluation have a loader each and share the budget. */
static ull_status fit_loader(const ull__job *job, ull_loader_options *options) {
  if (!ull_config_has(job->config, "loader-memory")) return ULL_OK;
  ull__loader_budget budget = {.bytes = ull_config_bytes(job->config, "loader-memory"),
                               .loaders = job->has_both_feeds ? 2 : 1};
  return ull__loader_fit_into(options, &budget);
}

static ull_status fill_feed(const ull__job *job, bool training, ull__feed *feed) {
  const ull_config *config = job->config;
  const ull__model *model = training ? ull__job_trained_model(job) : job->model;
  for (uint32_t i = 0; i < model->input_count; i++) {
    ULL__TRY(bind_input(job, feed, &model->inputs[i], &feed->bindings[i]));
    feed->binding_count++;
  }
  if (training && job->soft_model) ULL__TRY(check_mixing(job, feed));
  ULL__TRY(check_classes(job, feed));
  ULL__TRY(check_ignored(job, feed));
  feed->options = ull_loader_options_default(feed->source);
  feed->options.bindings = feed->bindings;
  feed->options.binding_count = feed->binding_count;
  feed->options.batch_size = (uint64_t)(training ? job->batch_size : job->micro_batch);
  feed->options.seed = (uint64_t)ull_config_integer(config, "seed");
  choose_threads(config, feed);
  feed->options.shuffle = training && !ull_config_flag(config, "no-shuffle");
  choose_augment(job, training, feed);
  read_bad_rules(config, &feed->options);
  feed->options.epochs = choose_epochs(config, training, feed->options.refill);
  ULL__TRY(fit_loader(job, &feed->options));
  return ull_loader_bound_bytes(&feed->options, &feed->bound);
}

/* Where evaluation comes from: --val-data, a part held out, or what the source has for it. */
static const char *validation_text(const ull__job *job, const char *data) {
  const ull_config *config = job->config;
  if (ull_config_has(config, "val-data")) return ull_config_text(config, "val-data");
  bool has_split =
      ull_source_has_evaluation(job->train.source) || ull_config_real(config, "val-split") > 0;
  return has_split && !is_synthetic(data) ? data : NULL;
}

bool ull__model_can_pad(const ull__model *model) {
  for (uint32_t i = 0; i < model->input_count; i++)
    if (model->inputs[i].is_target && model->inputs[i].dtype == ULL_INT64) return true;
  return false;
}

uint64_t ull__model_weigh(const ull__model *model, void *const *arrays, uint64_t first,
                          uint64_t samples) {
  for (uint32_t i = 0; i < model->input_count; i++) {
    const ull__model_input *input = &model->inputs[i];
    uint64_t each = 1, counted = 0;
    if (!input->has_ignored) continue;
    for (uint32_t d = 1; d < input->shape.rank; d++)
      each *= (uint64_t)input->shape.dims[d].constant;
    const int64_t *targets = arrays[i];
    for (uint64_t k = first * each; k < (first + samples) * each; k++)
      counted += targets[k] != input->ignored;
    return counted;
  }
  return samples;
}

static ull_status open_evaluation(ull__job *job, const char *data) {
  ULL__TRY(open_source(job, data, ULL_SPLIT_EVAL, &job->eval.source));
  if (job->train.source != NULL)
    ULL__TRY(ull_source_check_classes(job->train.source, job->eval.source));
  return fill_feed(job, false, &job->eval);
}

ull_status ull__job_open_data(ull__job *job) {
  const char *data = ull_config_text(job->config, "data");
  if (!data) data = "synthetic";
  if (job->evaluates_only) return open_evaluation(job, data);
  ULL__TRY(open_source(job, data, ULL_SPLIT_TRAIN, &job->train.source));
  const char *validation = validation_text(job, data);
  job->has_both_feeds = validation != NULL;
  ULL__TRY(fill_feed(job, true, &job->train));
  return validation ? open_evaluation(job, validation) : ULL_OK;
}

void ull__feed_close(ull__feed *feed) {
  ull_source_close(feed->source);
  feed->source = NULL;
}
