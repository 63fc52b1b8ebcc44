/* ullage data decode FILE: one picture to pixels, with its verdict. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cli/data.h"
#include "cli/data_text.h"
#include "cli/picture_name.h"
#include "ullage/image.h"

static bool ends_with(const char *text, const char *end) {
  size_t length = strlen(text), end_length = strlen(end);
  return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

/* The text has passed the options table: four numbers of at most nine digits. */
static void read_crop(const command *c, ull_image_options *options) {
  const char *crop = ull_config_text(c->config, "crop");
  options->crop = crop != NULL && sscanf(crop, "%d,%d,%d,%d", &options->x, &options->y,
                                         &options->width, &options->height) == 4;
}

static ull_image_options read_options(const command *c, const char *out) {
  ull_image_options options = ull_image_options_default();
  options.channels = out != NULL && ends_with(out, ".pgm") ? 1 : 3;
  options.ignore_orientation = strcmp(ull_config_text(c->config, "orientation"), "ignore") == 0;
  read_crop(c, &options);
  if (ull_config_has(c->config, "loader-memory"))
    options.memory_limit = ull_config_bytes(c->config, "loader-memory");
  return options;
}

/* Binary PPM, or PGM for one channel. Returns an exit code. */
static int write_pixels(command *c, const char *path, const ull_image *image) {
  int code;
  FILE *file = cli_create(c, path, &code);
  if (file == NULL) return code;
  size_t bytes = (size_t)image->width * (size_t)image->height * (size_t)image->channels;
  fprintf(file, "P%d\n%d %d\n255\n", image->channels == 1 ? 5 : 6, image->width, image->height);
  fwrite(image->pixels, 1, bytes, file);
  return cli_finish(c, file, path, 0);
}

/* One JSON object; freed by the caller. */
static char *describe(const ull_image *image, const char *path, const char *out) {
  json_t *object = json_pack(
      "{s:i, s:o, s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:I}", "schema", 1, "path",
      cli_data_text(path), "format", image->format, "verdict", ull_verdict_name(image->verdict),
      "reason", image->reason, "width", image->width, "height", image->height, "stored_width",
      image->stored_width, "stored_height", image->stored_height, "orientation", image->orientation,
      "working_bytes", (json_int_t)image->working_bytes);
  if (object && out) json_object_set_new(object, "out", cli_data_text(out));
  char *line = object ? json_dumps(object, JSON_COMPACT) : NULL;
  json_decref(object);
  return line;
}

static void print_words(FILE *report, const ull_image *image, const char *path) {
  cli_put(report, "", path, ": ");
  fprintf(report, "%s, %s%s%s\n", image->format, ull_verdict_name(image->verdict),
          image->reason[0] ? ": " : "", image->reason);
  fprintf(report, "  %d x %d stored, orientation %d, %d x %d decoded, %.1f MiB of working memory\n",
          image->stored_width, image->stored_height, image->orientation, image->width,
          image->height, (double)image->working_bytes / 1048576.0);
}

static int report(const command *c, const char *path, const char *out, ull_status status,
                  const ull_image *image) {
  char *line = c->json ? describe(image, path, image->pixels ? out : NULL) : NULL;
  int code = ull_status_exit_code(ULL_ERROR_DATA);
  if (status != ULL_OK) {
    code = cli_fail(c, line);
  } else {
    print_words(c->report, image, path);
    if (line) puts(line);
    if (!ull_verdict_is_bad(image->verdict)) code = 0;
  }
  free(line);
  return code;
}

int cli_data_decode(command *c, const char *path) {
  const char *out = ull_config_text(c->config, "out");
  picture_format format = out != NULL ? cli_picture_format(out) : PICTURE_ANY;
  if (format != PICTURE_ANY && format != PICTURE_PNM)
    return cli_refuse_picture(c, out, ".ppm or .pgm");
  ull_image_options options = read_options(c, out);
  ull_image image;
  ull_status status = ull_image_decode_file(path, &options, &image);
  int code = image.pixels && out ? write_pixels(c, out, &image) : 0;
  if (code == 0) code = report(c, path, out, status, &image);
  ull_image_free(&image);
  return code;
}
