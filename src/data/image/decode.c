/* The public door: one picture to pixels, by the steps and the scratch that the loader uses too.
 * Rows come as stored and are written where the upright picture has them. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "data/image/image.h"
#include "data/image/orientation.h"
#include "ullage/image.h"

#define DEFAULT_MEMORY (UINT64_C(4) << 30)

ull_image_options ull_image_options_default(void) {
  return (ull_image_options){.channels = 3};
}

void ull_image_free(ull_image *image) {
  if (image == NULL) return;
  ull__free(image->pixels);
  image->pixels = NULL;
}

/* One call's state. */
typedef struct decoding {
  const ull_image_options *options;
  ull_image *out;
  ull__image_reader *reader;
  ull__image_info info;
  ull__scratch fixed, working;
  ull__image_request request;
  ull__image_delivery delivery;
  ull__orientation orientation;
} decoding;

static const char *format_name(ull__image_format format) {
  static const char *const names[] = {"unknown", "jpeg", "png", "webp"};
  return names[format];
}

static void tell(const decoding *d) {
  ull_image *out = d->out;
  out->format = format_name(d->info.format);
  out->stored_width = d->info.width;
  out->stored_height = d->info.height;
  out->orientation = d->info.orientation;
  out->verdict = d->info.verdict;
  out->reason = d->info.reason;
  out->working_bytes = d->fixed.bytes + d->working.bytes;
}

static ull_status choose_region(decoding *d, const char *name) {
  const ull_image_options *o = d->options;
  int orientation = o->ignore_orientation ? 1 : d->info.orientation, width, height;
  d->orientation = ull__orientation_of(orientation);
  ull__upright_size(&d->info, orientation, &width, &height);
  ull__rect r = {0, 0, width, height};
  if (o->crop) r = (ull__rect){o->x, o->y, o->width, o->height};
  if (r.x < 0 || r.y < 0 || r.width < 1 || r.height < 1 || r.width > width || r.height > height ||
      r.x > width - r.width || r.y > height - r.height)
    return ULL__FAIL(ULL_ERROR_INVALID, "%s: no rectangle %d,%d,%d,%d in a picture of %d x %d",
                     name, r.x, r.y, r.width, r.height, width, height);
  d->out->width = r.width;
  d->out->height = r.height;
  d->request = (ull__image_request){
      .region = ull__orientation_stored(d->orientation, r, width, height),
      .max_reduction = 1,
      .channels = o->channels == 1 ? 1 : 4,
  };
  return ULL_OK;
}

static void write_pixel(uint8_t *to, const uint8_t *from, int channels) {
  to[0] = from[0];
  if (channels == 3) to[1] = from[1], to[2] = from[2];
}

static ull_status take_row(void *context, int y, const uint8_t *pixels) {
  const decoding *d = context;
  const ull_image *out = d->out;
  const ull__orientation o = d->orientation;
  int from_bytes = d->request.channels;
  for (int x = 0; x < d->delivery.region.width; x++) {
    int to_x = o.swap ? y : x, to_y = o.swap ? x : y;
    if (o.mirror_x) to_x = out->width - 1 - to_x;
    if (o.mirror_y) to_y = out->height - 1 - to_y;
    size_t at = ((size_t)to_y * (size_t)out->width + (size_t)to_x) * (size_t)out->channels;
    write_pixel(out->pixels + at, pixels + (size_t)x * (size_t)from_bytes, out->channels);
  }
  return ULL_OK;
}

static ull_status take_scratch(ull__scratch *scratch, uint64_t bytes) {
  void *memory = ull__alloc_aligned(ULL__SCRATCH_ALIGNMENT, bytes);
  if (memory == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  *scratch = ull__scratch_over(memory, bytes);
  return ULL_OK;
}

static ull_status decode_pixels(decoding *d) {
  ull_image *out = d->out;
  ULL__TRY(take_scratch(&d->working, d->delivery.scratch_bytes));
  size_t row = (size_t)out->width * (size_t)out->channels;
  out->pixels = ull__alloc((size_t)out->height, row);
  if (out->pixels == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  ull__image_sink sink = {take_row, d};
  ull_status status =
      ull__image_decode(d->reader, &d->request, &d->delivery, &d->working, &sink, &d->info);
  if (status != ULL_OK) ull_image_free(out);
  return status;
}

static ull_status decode_record(decoding *d, const ull__record *record) {
  ull__image_limits limits = {.pixels = d->options->pixel_limit,
                              .memory_bytes = d->options->memory_limit};
  if (limits.memory_bytes == 0) limits.memory_bytes = DEFAULT_MEMORY;
  ULL__TRY(ull__image_reader_create(&limits, &d->reader));
  ULL__TRY(take_scratch(&d->fixed, ull__image_fixed_bytes()));
  ULL__TRY(ull__image_open(d->reader, record, &d->fixed, &d->info));
  ULL__TRY(choose_region(d, record->path));
  ULL__TRY(ull__image_prepare(d->reader, &d->request, &d->info, &d->delivery));
  ULL__TRY(decode_pixels(d));
  ull__image_note_turned(&d->info, d->options->ignore_orientation);
  return ULL_OK;
}

static ull_status decode_any(const ull__record *record, const ull_image_options *options,
                             ull_image *out) {
  decoding d = {.options = options, .out = out, .info = {.orientation = 1, .reason = ""}};
  ull_status status = decode_record(&d, record);
  tell(&d);
  ull__image_reader_destroy(d.reader);
  ull__free(d.fixed.memory);
  ull__free(d.working.memory);
  return status;
}

static ull_status begin(const ull_image_options *options, ull_image *out) {
  *out = (ull_image){
      .channels = options->channels, .format = "unknown", .reason = "", .orientation = 1};
  if (options->channels == 1 || options->channels == 3) return ULL_OK;
  return ULL__FAIL(ULL_ERROR_INVALID, "%d channels of a picture: 1 or 3", options->channels);
}

ull_status ull_image_decode_memory(const void *bytes, uint64_t count, const char *name,
                                   const ull_image_options *options, ull_image *out) {
  ULL__TRY(begin(options, out));
  static const uint8_t nothing[1];
  ull__record *record = ull__alloc(1, sizeof *record);
  if (record == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  record->memory = count > 0 ? bytes : nothing;
  record->descriptor = -1;
  record->bytes = count;
  snprintf(record->path, sizeof record->path, "%s", name);
  ull_status status = decode_any(record, options, out);
  ull__free(record);
  return status;
}

static ull_status refuse_file(ull_image *out, const char *path, const char *why) {
  out->verdict = ULL_VERDICT_UNREADABLE;
  out->reason = "cannot be read";
  ULL__FAIL(ULL_ERROR_IO, "%s: %s", path, why);
  return ull__error_holder("%s", path);
}

static ull_status decode_open_file(int descriptor, const char *path,
                                   const ull_image_options *options, ull_image *out) {
  struct stat status;
  if (fstat(descriptor, &status) != 0) return refuse_file(out, path, strerror(errno));
  if (!S_ISREG(status.st_mode)) return refuse_file(out, path, "not an ordinary file");
  ull__record *record = ull__alloc(1, sizeof *record);
  if (record == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  record->descriptor = descriptor;
  record->bytes = (uint64_t)status.st_size;
  snprintf(record->path, sizeof record->path, "%s", path);
  ull_status result = decode_any(record, options, out);
  ull__free(record);
  return result;
}

ull_status ull_image_decode_file(const char *path, const ull_image_options *options,
                                 ull_image *out) {
  ULL__TRY(begin(options, out));
  int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return refuse_file(out, path, strerror(errno));
  ull_status status = decode_open_file(descriptor, path, options, out);
  close(descriptor);
  return status;
}
