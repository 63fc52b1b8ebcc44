/* ullage data show SRC --out grid.png: the first samples of the stream that a network would be
 * trained or evaluated on. Of a source without pictures, its numbers, or its text. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/canvas.h"
#include "cli/data.h"
#include "cli/data_text.h"
#include "cli/picture_name.h"
#include "cli/show_tile.h"
#include "ullage/stream.h"

enum { GAP = 4, LEAST_TILE = 112, ELEMENTS_SHOWN = 16, BYTE_VOCABULARY = 260 };

static const colour background = {24, 24, 28}, strong = {240, 240, 240}, weak = {150, 150, 160};

typedef struct show {
  command *c;
  ull_stream *stream;
  const ull_source *source;
  const ull_loader_options *options;
  show_arrays arrays;
  bool pictures;
  uint64_t wanted, shown;
  int columns, tile_width, tile_height, zoom, letters; /* of pictures; letters: scale of text */
  canvas grid;
  json_t *samples; /* what --json tells of each; NULL without it */
} show;

/* ---- the grid ---- */

/* Of the label, where there are labels. */
static int label_height(const show *s) {
  return s->arrays.label < 0 ? 0 : s->letters * CANVAS_GLYPH_HEIGHT + GAP / 2;
}

static int text_height(const show *s) {
  return GAP + label_height(s) + CANVAS_GLYPH_HEIGHT;
}

static bool make_grid(show *s) {
  int width, height;
  show_size(s->options, &s->arrays, &width, &height);
  int side = width > height ? width : height;
  s->zoom = side < LEAST_TILE ? (LEAST_TILE + side - 1) / side : 1;
  s->tile_width = width * s->zoom;
  s->tile_height = height * s->zoom;
  s->letters = s->tile_width >= 192 ? 2 : 1;
  s->columns = (int)ceil(sqrt((double)s->wanted));
  int rows = (int)((s->wanted + (uint64_t)s->columns - 1) / (uint64_t)s->columns);
  return canvas_create(&s->grid, GAP + s->columns * (s->tile_width + GAP),
                       GAP + rows * (s->tile_height + text_height(s) + GAP), background);
}

static const char *last_part(const char *path) {
  const char *slash = strrchr(path, '/'), *part = slash != NULL ? slash + 1 : path;
  const char *shard = strstr(part, ".tar:"), *number = strstr(part, ": sample ");
  if (number != NULL) return number + strlen(": ");
  return shard != NULL ? shard + strlen(".tar:") : part;
}

static void draw(show *s, const ull_batch *batch, uint64_t sample, const char *path,
                 const char *label) {
  int x = GAP + (int)(s->shown % (uint64_t)s->columns) * (s->tile_width + GAP);
  int y = GAP + (int)(s->shown / (uint64_t)s->columns) * (s->tile_height + text_height(s) + GAP);
  show_tile(&s->grid, x, y, s->zoom, s->options, s->source, &s->arrays, batch, sample);
  y += s->tile_height + GAP;
  canvas_text(&s->grid, x, y, s->tile_width, s->letters, strong, label);
  y += label_height(s);
  canvas_text(&s->grid, x, y, s->tile_width, 1, weak, last_part(path));
}

/* ---- numbers ---- */

static double number_at(const ull_batch_array *array, uint64_t at) {
  switch (array->dtype) {
  case ULL_FLOAT32:
    return ((const float *)array->data)[at];
  case ULL_FLOAT64:
    return ((const double *)array->data)[at];
  case ULL_INT64:
    return (double)((const int64_t *)array->data)[at];
  case ULL_INT32:
    return ((const int32_t *)array->data)[at];
  case ULL_UINT8:
  case ULL_BOOL:
    return ((const uint8_t *)array->data)[at];
  default:
    return NAN; /* 16-bit floats */
  }
}

/* Tokens that are bytes are shown as the text they are. */
static bool is_bytes(const show *s, size_t binding) {
  const ull_array_info *info = ull_source_array(s->source, s->options->bindings[binding].array);
  return info->has_range && info->minimum >= 0 && info->maximum < BYTE_VOCABULARY &&
         info->maximum >= 255 && info->rank == 1;
}

static void print_array(const show *s, const ull_batch *batch, size_t number, uint64_t sample) {
  const ull_batch_array *array = &batch->arrays[number];
  uint64_t elements = array->bytes / batch->samples / ull_dtype_bytes(array->dtype);
  uint64_t first = sample * elements;
  FILE *out = s->c->report;
  if (is_bytes(s, number)) {
    cli_put(out, "  ", array->name, " \"");
    for (uint64_t i = 0; i < elements; i++) {
      int byte = (int)number_at(array, first + i);
      fputc(byte >= ' ' && byte <= '~' ? byte : byte == '\n' ? ' ' : '.', out);
    }
    fprintf(out, "\"\n");
    return;
  }
  cli_put(out, "  ", array->name, "");
  for (uint64_t i = 0; i < elements && i < ELEMENTS_SHOWN; i++)
    fprintf(out, " %g", number_at(array, first + i));
  if (elements > ELEMENTS_SHOWN) fprintf(out, " ... (%llu)", (unsigned long long)elements);
  fputc('\n', out);
}

static void print_sample(const show *s, const ull_batch *batch, uint64_t sample, const char *path) {
  cli_put(s->c->report, "", path, "\n");
  for (size_t i = 0; i < batch->array_count; i++) print_array(s, batch, i, sample);
}

/* ---- samples ---- */

static void keep_for_json(show *s, const ull_batch *batch, uint64_t sample, const char *path,
                          const char *label) {
  if (s->samples == NULL) return;
  json_t *about = json_object();
  json_object_set_new(about, "index", json_integer((json_int_t)batch->sample_index[sample]));
  json_object_set_new(about, "path", cli_data_text(path));
  if (s->arrays.label >= 0) json_object_set_new(about, "label", cli_data_text(label));
  json_object_set_new(about, "verdict",
                      json_string(ull_verdict_name((ull_verdict)batch->used_verdict[sample])));
  json_array_append_new(s->samples, about);
}

static void take_sample(show *s, const ull_batch *batch, uint64_t sample) {
  char path[8192], label[300] = "";
  ull_source_sample_name(s->source, batch->sample_index[sample], path, sizeof path);
  if (s->arrays.label >= 0) show_label(s->source, &s->arrays, batch, sample, label, sizeof label);
  if (s->pictures)
    draw(s, batch, sample, path, label);
  else
    print_sample(s, batch, sample, path);
  keep_for_json(s, batch, sample, path, label);
  s->shown++;
}

static ull_status take_samples(show *s) {
  ull_loader *loader = ull_stream_loader(s->stream);
  const ull_batch *batch;
  while (s->shown < s->wanted) {
    ull_status status = ull_loader_next(loader, &batch);
    if (status != ULL_OK || batch == NULL) return status;
    for (uint64_t i = 0; i < batch->samples && s->shown < s->wanted; i++) take_sample(s, batch, i);
    ull_loader_release(loader, batch);
  }
  return ULL_OK;
}

/* ---- the command ---- */

static int write_grid(show *s) {
  const char *out = ull_config_text(s->c->config, "out");
  ull_encoded encoded;
  int code;
  bool jpeg = cli_picture_format(out) == PICTURE_JPEG;
  if (!canvas_encode(&s->grid, jpeg, &encoded)) return cli_fail(s->c, NULL);
  FILE *file = cli_create(s->c, out, &code);
  if (file != NULL) {
    fwrite(encoded.bytes, 1, encoded.count, file);
    code = cli_finish(s->c, file, out, 0);
  }
  ull_encoded_free(&encoded);
  if (code != 0) return code;
  fprintf(s->c->report, "%llu sample%s, %d x %d pixels, in ", (unsigned long long)s->shown,
          s->shown == 1 ? "" : "s", s->grid.width, s->grid.height);
  cli_put(s->c->report, "", out, "\n");
  return 0;
}

static void print_json(const show *s) {
  json_t *object = json_pack("{s:i, s:I, s:O}", "schema", 1, "shown", (json_int_t)s->shown,
                             "samples", s->samples);
  if (object != NULL && s->pictures) {
    json_object_set_new(object, "out", cli_data_text(ull_config_text(s->c->config, "out")));
    json_object_set_new(object, "width", json_integer(s->grid.width));
    json_object_set_new(object, "height", json_integer(s->grid.height));
  }
  char *line = object != NULL ? json_dumps(object, JSON_COMPACT) : NULL;
  if (line != NULL) puts(line);
  free(line);
  json_decref(object);
}

static int show_samples(show *s) {
  if (s->pictures && !make_grid(s))
    return cli_error(s->c, ULL_ERROR_OUT_OF_MEMORY, "no memory for the picture", "a smaller --n");
  if (take_samples(s) != ULL_OK) return cli_fail(s->c, NULL);
  int code = s->pictures ? write_grid(s) : 0;
  if (code == 0 && s->samples != NULL) print_json(s);
  return code;
}

static int show_stream(show *s) {
  s->source = ull_stream_source(s->stream);
  s->options = ull_stream_options(s->stream);
  s->pictures = show_find_arrays(s->source, s->options, &s->arrays);
  s->wanted = (uint64_t)ull_config_integer(s->c->config, "n");
  uint64_t there = ull_source_sample_count(s->source);
  if (there < s->wanted) s->wanted = there;
  if (s->pictures && !ull_config_has(s->c->config, "out"))
    return cli_error(s->c, ULL_ERROR_USAGE, "data show needs --out FILE.png",
                     "ullage data show SRC --out grid.png");
  if (s->c->json) s->samples = json_array();
  int code = show_samples(s);
  json_decref(s->samples);
  canvas_free(&s->grid);
  return code;
}

int cli_data_show(command *c, const char *subject) {
  const char *out = ull_config_text(c->config, "out");
  picture_format format = out != NULL ? cli_picture_format(out) : PICTURE_ANY;
  show s = {.c = c};
  if (format == PICTURE_PNM || format == PICTURE_OTHER)
    return cli_refuse_picture(c, out, ".png or .jpg");
  if (ull_stream_open_config(subject, c->config, 0, &s.stream) != ULL_OK) return cli_fail(c, NULL);
  int code = show_stream(&s);
  ull_stream_close(s.stream);
  return code;
}
