/* Elements back to bytes: x = (y * deviation + mean) / scale, rounded, of one channel or three. */
#include "cli/show_tile.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { IGNORED_CLASS = 255 };

/* ---- which arrays ---- */

static bool is_shown_type(ull_dtype dtype) {
  return dtype == ULL_FLOAT32 || dtype == ULL_UINT8;
}

static bool is_integer(ull_dtype dtype) {
  return dtype == ULL_INT64 || dtype == ULL_INT32 || dtype == ULL_UINT8;
}

bool show_find_arrays(const ull_source *source, const ull_loader_options *options,
                      show_arrays *arrays) {
  *arrays = (show_arrays){-1, -1, -1};
  for (size_t i = 0; i < options->binding_count; i++) {
    const ull_binding *binding = &options->bindings[i];
    const ull_array_info *info = ull_source_array(source, binding->array);
    bool picture = info->content == ULL_CONTENT_IMAGE || info->image;
    bool shown = picture && binding->rank == 3 && is_shown_type(binding->dtype);
    bool label = info->content == ULL_CONTENT_ELEMENTS && info->role == ULL_ARRAY_TARGET &&
                 binding->rank == 0 && is_integer(binding->dtype);
    if (shown && arrays->picture < 0) arrays->picture = (int)i;
    if (info->content == ULL_CONTENT_MASK && arrays->mask < 0) arrays->mask = (int)i;
    if (label && arrays->label < 0) arrays->label = (int)i;
  }
  return arrays->picture >= 0;
}

static const int64_t *sides(const ull_binding *picture) {
  return picture->shape + (picture->channels_last ? 0 : 1);
}

void show_size(const ull_loader_options *options, const show_arrays *arrays, int *width,
               int *height) {
  const int64_t *shape = sides(&options->bindings[arrays->picture]);
  *height = (int)shape[0];
  *width = (int)shape[1];
}

/* ---- elements ---- */

/* One sample's picture. */
typedef struct view {
  const ull_binding *binding;
  const uint8_t *data;
  int64_t width, height, channels;
  double factor[3], offset[3]; /* from elements to 0 ... 255 */
} view;

static double element(const view *v, int64_t x, int64_t y, int64_t channel) {
  int64_t at = v->binding->channels_last ? (y * v->width + x) * v->channels + channel
                                         : (channel * v->height + y) * v->width + x;
  float value;
  if (v->binding->dtype == ULL_UINT8) return v->data[at];
  memcpy(&value, v->data + at * (int64_t)sizeof value, sizeof value);
  return value;
}

static void undo_normalisation(view *v) {
  const ull_normalize *normalize = &v->binding->normalize;
  for (int c = 0; c < 3; c++) {
    int from = normalize->channels == 1 ? 0 : c;
    /* What is scaled to [0, 1] came from bytes; anything else lies in [0, 1] as it is. */
    double to_bytes = normalize->scale < 1 ? 1 / normalize->scale : 255;
    v->factor[c] = normalize->deviation[from] * to_bytes;
    v->offset[c] = normalize->mean[from] * to_bytes;
  }
}

/* Numbers of unknown meaning: [0, 1] is black to white, else the sample's own range is. */
static void stretch(view *v) {
  double least = 0, most = 1;
  for (int64_t y = 0; y < v->height; y++)
    for (int64_t x = 0; x < v->width; x++)
      for (int64_t c = 0; c < v->channels; c++) {
        double value = element(v, x, y, c);
        if (value < least) least = value;
        if (value > most) most = value;
      }
  for (int c = 0; c < 3; c++) {
    v->factor[c] = 255 / (most - least);
    v->offset[c] = -least * v->factor[c];
  }
}

static view view_of(const ull_loader_options *options, const ull_source *source,
                    const show_arrays *arrays, const ull_batch *batch, uint64_t sample) {
  const ull_binding *binding = &options->bindings[arrays->picture];
  const ull_array_info *info = ull_source_array(source, binding->array);
  const ull_batch_array *array = &batch->arrays[arrays->picture];
  view v = {.binding = binding, .factor = {1, 1, 1}};
  v.data = (const uint8_t *)array->data + sample * (array->bytes / batch->samples);
  v.height = sides(binding)[0];
  v.width = sides(binding)[1];
  v.channels = binding->shape[binding->channels_last ? 2 : 0];
  if (binding->normalize.active)
    undo_normalisation(&v);
  else if (info->content == ULL_CONTENT_ELEMENTS && info->dtype != ULL_UINT8)
    stretch(&v);
  return v;
}

static uint8_t byte_at(const view *v, int64_t x, int64_t y, int channel) {
  int64_t from = v->channels >= 3 ? channel : 0;
  double value = element(v, x, y, from) * v->factor[from] + v->offset[from];
  return (uint8_t)(value > 0 ? value < 255 ? lround(value) : 255 : 0);
}

/* ---- masks ---- */

/* Colours that differ for neighbouring numbers: hue goes round by the golden ratio. */
static colour class_colour(int64_t number) {
  double hue = fmod((double)number * 0.61803398875, 1) * 6;
  double parts[3] = {fabs(hue - 3) - 1, 2 - fabs(hue - 2), 2 - fabs(hue - 4)};
  uint8_t bytes[3];
  for (int i = 0; i < 3; i++)
    bytes[i] = (uint8_t)(parts[i] > 0 ? parts[i] < 1 ? 255 * parts[i] : 255 : 0);
  return (colour){bytes[0], bytes[1], bytes[2]};
}

static int64_t integer_at(ull_dtype dtype, const void *data, int64_t at) {
  if (dtype == ULL_INT64) return ((const int64_t *)data)[at];
  return dtype == ULL_INT32 ? ((const int32_t *)data)[at] : ((const uint8_t *)data)[at];
}

static colour tint(colour pixel, int64_t number) {
  if (number == 0) return pixel;
  colour with = number == IGNORED_CLASS ? (colour){255, 255, 255} : class_colour(number);
  return (colour){(uint8_t)((pixel.red + with.red) / 2), (uint8_t)((pixel.green + with.green) / 2),
                  (uint8_t)((pixel.blue + with.blue) / 2)};
}

void show_tile(canvas *to, int x, int y, int zoom, const ull_loader_options *options,
               const ull_source *source, const show_arrays *arrays, const ull_batch *batch,
               uint64_t sample) {
  view v = view_of(options, source, arrays, batch, sample);
  const ull_batch_array *mask = arrays->mask >= 0 ? &batch->arrays[arrays->mask] : NULL;
  int64_t first = (int64_t)sample * v.height * v.width;
  for (int64_t row = 0; row < v.height; row++)
    for (int64_t column = 0; column < v.width; column++) {
      colour pixel = {byte_at(&v, column, row, 0), byte_at(&v, column, row, 1),
                      byte_at(&v, column, row, 2)};
      if (mask != NULL)
        pixel = tint(pixel, integer_at(mask->dtype, mask->data, first + row * v.width + column));
      canvas_fill(to, x + (int)column * zoom, y + (int)row * zoom, zoom, zoom, pixel);
    }
}

/* ---- labels ---- */

static void class_text(const ull_source *source, int64_t number, char *text, size_t room) {
  if (number >= 0 && (uint64_t)number < ull_source_class_count(source))
    ull_source_class_name(source, (uint64_t)number, text, room);
  else
    snprintf(text, room, "%lld", (long long)number);
}

void show_label(const ull_source *source, const show_arrays *arrays, const ull_batch *batch,
                uint64_t sample, char *text, size_t room) {
  text[0] = '\0';
  if (arrays->label < 0) return;
  const ull_batch_array *labels = &batch->arrays[arrays->label];
  uint64_t partner = (sample + batch->mix_distance) % batch->samples;
  char own[128], other[128];
  class_text(source, integer_at(labels->dtype, labels->data, (int64_t)sample), own, sizeof own);
  class_text(source, integer_at(labels->dtype, labels->data, (int64_t)partner), other,
             sizeof other);
  if (batch->mix_lambda < 1)
    snprintf(text, room, "%.2f %s + %.2f %s", batch->mix_lambda, own, 1 - batch->mix_lambda, other);
  else
    snprintf(text, room, "%s", own);
}
