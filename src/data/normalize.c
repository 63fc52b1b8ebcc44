/* Statistics are sums of 8-bit integers, exact in 64 bits, so that they do not depend on the order
 * of reading. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "data/source.h"

typedef struct image_sums {
  const ull_array_info *info;
  int channels;
  uint64_t count; /* of elements in a channel */
  uint64_t sum[ULL_DATA_MAX_CHANNELS];
  uint64_t square_sum[ULL_DATA_MAX_CHANNELS];
} image_sums;

static void add_channel(image_sums *sums, int channel, const uint8_t *pixels, uint64_t count) {
  uint64_t sum = 0, square_sum = 0;
  for (uint64_t i = 0; i < count; i++) {
    sum += pixels[i];
    square_sum += (uint64_t)pixels[i] * pixels[i];
  }
  sums->sum[channel] += sum;
  sums->square_sum[channel] += square_sum;
}

static ull_status visit_images(void *context, uint64_t first, uint64_t count, const void *bytes) {
  (void)first;
  image_sums *sums = context;
  uint64_t channel_bytes = sums->info->sample_bytes / (uint64_t)sums->channels;
  const uint8_t *at = bytes;
  for (uint64_t i = 0; i < count; i++) {
    for (int c = 0; c < sums->channels; c++, at += channel_bytes) {
      add_channel(sums, c, at, channel_bytes);
    }
  }
  sums->count += count * channel_bytes;
  return ULL_OK;
}

static ull_status sum_training(const ull_source *source, size_t array, image_sums *sums) {
  bool elsewhere =
      source->split == ULL_SPLIT_EVAL && source->kind->training_decides && !source->has_held_order;
  if (!elsewhere) return ull__source_scan(source, array, visit_images, sums);
  ull_source *training;
  const ull_source_options options = ull_source_options_default();
  ULL__TRY(ull_source_open(source->text, &options, &training));
  sums->info = &training->arrays[array];
  ull_status status = ull__source_scan(training, array, visit_images, sums);
  sums->info = &source->arrays[array];
  ull_source_close(training);
  return status;
}

static ull_status measure(const ull_source *source, size_t array, ull_normalize *out) {
  const ull_array_info *info = &source->arrays[array];
  image_sums sums = {.info = info, .channels = (int)info->shape[0]};
  ULL__TRY(sum_training(source, array, &sums));
  out->channels = sums.channels;
  for (int c = 0; c < sums.channels; c++) {
    double mean = (double)sums.sum[c] / (double)sums.count;
    double variance = (double)sums.square_sum[c] / (double)sums.count - mean * mean;
    out->mean[c] = mean / 255.0;
    out->deviation[c] = variance > 0.0 ? sqrt(variance) / 255.0 : 1.0;
  }
  return ULL_OK;
}

/* Means over the files would have to decode them all: photographs take those of ImageNet, as the
 * weights that people start from do. */
static void take_photo_statistics(ull_normalize *out) {
  static const double mean[3] = {0.485, 0.456, 0.406}, deviation[3] = {0.229, 0.224, 0.225};
  out->active = true;
  out->channels = 3;
  memcpy(out->mean, mean, sizeof mean);
  memcpy(out->deviation, deviation, sizeof deviation);
}

void ull__normalize_suit(ull_normalize *normalize, int64_t channels) {
  if (channels != 1 || !normalize->automatic || normalize->channels != 3) return;
  normalize->channels = 1;
  for (int c = 1; c < 3; c++) {
    normalize->mean[0] += normalize->mean[c];
    normalize->deviation[0] += normalize->deviation[c];
  }
  normalize->mean[0] /= 3;
  normalize->deviation[0] /= 3;
}

static ull_status bad_text(const char *text) {
  ULL__FAIL(ULL_ERROR_USAGE, "'%s' is not a normalisation", text);
  ull__error_holder("--normalize %s", text);
  return ull__error_change(
      "give auto, none or MEAN:STD, such as 0.5:0.5 or 0.485,0.456,0.406:0.229,"
      "0.224,0.225");
}

/* A comma list of numbers up to `stop`; NULL where it is something else. */
static const char *parse_numbers(const char *at, char stop, double *numbers, int *count) {
  for (*count = 0; *count < ULL_DATA_MAX_CHANNELS;) {
    char *end;
    if (isspace((unsigned char)*at)) return NULL;
    numbers[(*count)++] = strtod(at, &end);
    if (end == at || !isfinite(numbers[*count - 1])) return NULL;
    if (*end == stop) return end + 1;
    if (*end != ',') return NULL;
    at = end + 1;
  }
  return NULL;
}

static ull_status parse_pair(const char *text, ull_normalize *out) {
  int means, deviations;
  const char *rest = parse_numbers(text, ':', out->mean, &means);
  if (rest == NULL || parse_numbers(rest, '\0', out->deviation, &deviations) == NULL) {
    return bad_text(text);
  }
  if (means != deviations) return bad_text(text);
  for (int c = 0; c < deviations; c++) {
    if (!(out->deviation[c] > 0.0)) return bad_text(text);
  }
  out->active = true;
  out->channels = means;
  return ULL_OK;
}

ull_status ull_normalize_parse(const char *text, const ull_source *source, size_t array,
                               ull_normalize *out) {
  const ull_array_info *info = ull_source_array(source, array);
  if (info == NULL)
    return ULL__FAIL(ULL_ERROR_INVALID, "%s: there is no array %zu", source->text, array);
  *out = (ull_normalize){.scale = info->dtype == ULL_UINT8 ? 1.0 / 255.0 : 1.0};
  if (strcmp(text, "none") == 0) return ULL_OK;
  if (strcmp(text, "auto") != 0) return parse_pair(text, out);
  out->automatic = true;
  if (info->content == ULL_CONTENT_IMAGE) {
    take_photo_statistics(out);
    return ULL_OK;
  }
  out->active = info->image && info->dtype == ULL_UINT8 && info->content == ULL_CONTENT_ELEMENTS;
  return out->active ? measure(source, array, out) : ULL_OK;
}

static void describe_numbers(char *buffer, size_t bytes, const double *numbers, int count) {
  size_t used = 0;
  for (int i = 0; i < count && used < bytes; i++) {
    used += (size_t)snprintf(buffer + used, bytes - used, "%s%.4f", i ? "," : "", numbers[i]);
  }
}

const char *ull_normalize_describe(const ull_normalize *normalize, char *buffer,
                                   size_t buffer_bytes) {
  char means[256], deviations[256];
  const char *origin = normalize->automatic ? " (auto)" : "";
  if (!normalize->active) {
    snprintf(buffer, buffer_bytes, "none%s", origin);
    return buffer;
  }
  describe_numbers(means, sizeof means, normalize->mean, normalize->channels);
  describe_numbers(deviations, sizeof deviations, normalize->deviation, normalize->channels);
  snprintf(buffer, buffer_bytes, "%s, mean %s, std %s%s", normalize->scale == 1.0 ? "x" : "x/255",
           means, deviations, origin);
  return buffer;
}
