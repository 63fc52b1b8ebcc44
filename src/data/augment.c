/* The text of --augment: one row in a table for each word. */
#include "data/augment.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum { CROP_PIXELS_MAX = 4096, SIDE_MAX = 1 << 16, FIELDS_MAX = 4, ITEM_BYTES = 64 };

/* ---- numbers ---- */

/* The numbers after a word, and how many there are. */
typedef struct fields {
  char *text[FIELDS_MAX];
  int count;
} fields;

static bool parse_real(const char *text, double least, double most, double *out) {
  char *end;
  if (text[0] == '\0' || strspn(text, "0123456789.") != strlen(text)) return false;
  double value = strtod(text, &end);
  if (*end != '\0' || !(value >= least && value <= most)) return false;
  *out = value;
  return true;
}

static bool parse_integer(const char *text, int least, int most, int *out) {
  double value;
  if (strspn(text, "0123456789") != strlen(text)) return false;
  if (!parse_real(text, least, most, &value)) return false;
  *out = (int)value;
  return true;
}

/* The only field, or the default where there is none. */
static bool one_real(const fields *f, double otherwise, double least, double most, double *out) {
  *out = otherwise;
  return f->count == 0 || (f->count == 1 && parse_real(f->text[0], least, most, out));
}

/* ---- words ---- */

static bool set_framing(ull_augment *augment, ull_framing framing) {
  bool free = augment->framing == ULL_FRAMING_UNSET || augment->framing == framing;
  augment->framing = framing;
  return free;
}

static bool parse_crop(const fields *f, ull_augment *augment) {
  augment->crop_pixels = 4;
  augment->padding = ULL_PADDING_ZERO;
  if (f->count > 2) return false;
  if (f->count > 0 && !parse_integer(f->text[0], 1, CROP_PIXELS_MAX, &augment->crop_pixels)) {
    return false;
  }
  if (f->count < 2 || strcmp(f->text[1], "zero") == 0) return true;
  augment->padding = ULL_PADDING_REFLECT;
  return strcmp(f->text[1], "reflect") == 0;
}

static bool parse_flip(const fields *f, ull_augment *augment) {
  augment->flip = true;
  return f->count == 0;
}

static bool parse_flip_vertical(const fields *f, ull_augment *augment) {
  augment->flip_vertical = true;
  return f->count == 0;
}

static bool parse_random_crop(const fields *f, ull_augment *augment) {
  augment->area_min = 0.08;
  augment->area_max = 1;
  if (!set_framing(augment, ULL_FRAMING_RANDOM_CROP) || f->count > 1) return false;
  if (f->count == 0) return true;
  char *dash = strchr(f->text[0], '-');
  if (dash == NULL) return false;
  *dash = '\0';
  const double least = 1e-4;
  return parse_real(f->text[0], least, 1, &augment->area_min) &&
         parse_real(dash + 1, augment->area_min, 1, &augment->area_max);
}

static bool parse_resize(const fields *f, ull_augment *augment) {
  augment->resize_side = 0;
  if (!set_framing(augment, ULL_FRAMING_CENTRE_CROP) || f->count > 1) return false;
  return f->count == 0 || parse_integer(f->text[0], 1, SIDE_MAX, &augment->resize_side);
}

static bool parse_stretch(const fields *f, ull_augment *augment) {
  return set_framing(augment, ULL_FRAMING_STRETCH) && f->count == 0;
}

static bool parse_rotate(const fields *f, ull_augment *augment) {
  return f->count == 1 && parse_real(f->text[0], 0, 180, &augment->rotate_degrees);
}

static bool parse_jitter(const fields *f, ull_augment *augment) {
  double *const targets[] = {&augment->brightness, &augment->contrast, &augment->saturation,
                             &augment->hue};
  for (int i = 0; i < 4; i++) {
    *targets[i] = 0;
    double most = i == 3 ? 0.5 : 10;
    if (i < f->count && !parse_real(f->text[i], 0, most, targets[i])) return false;
  }
  return f->count > 0;
}

static bool parse_grayscale(const fields *f, ull_augment *augment) {
  return one_real(f, 0.1, 0, 1, &augment->grayscale_probability);
}

static bool parse_operations(const fields *f, ull_augment *augment) {
  augment->operations = 2;
  augment->magnitude = 9;
  if (f->count > 2) return false;
  if (f->count > 0 && !parse_integer(f->text[0], 0, 14, &augment->operations)) return false;
  return f->count < 2 || parse_integer(f->text[1], 0, 30, &augment->magnitude);
}

static bool parse_erase(const fields *f, ull_augment *augment) {
  return one_real(f, 0.5, 0, 1, &augment->erase_probability);
}

static bool parse_mixup(const fields *f, ull_augment *augment) {
  return one_real(f, 0.2, 0, 100, &augment->mixup_alpha);
}

static bool parse_cutmix(const fields *f, ull_augment *augment) {
  return one_real(f, 1, 0, 100, &augment->cutmix_alpha);
}

static const struct {
  const char *word;
  bool (*parse)(const fields *fields, ull_augment *augment);
} words[] = {
    {"crop", parse_crop},
    {"flip", parse_flip},
    {"vflip", parse_flip_vertical},
    {"random-resized-crop", parse_random_crop},
    {"rrc", parse_random_crop},
    {"resize", parse_resize},
    {"stretch", parse_stretch},
    {"rotate", parse_rotate},
    {"color-jitter", parse_jitter},
    {"grayscale", parse_grayscale},
    {"randaugment", parse_operations},
    {"erase", parse_erase},
    {"mixup", parse_mixup},
    {"cutmix", parse_cutmix},
};

static bool parse_item(char *item, ull_augment *augment) {
  fields fields = {.count = 0};
  for (char *colon = strchr(item, ':'); colon != NULL; colon = strchr(colon + 1, ':')) {
    if (fields.count == FIELDS_MAX) return false;
    *colon = '\0';
    fields.text[fields.count++] = colon + 1;
  }
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    if (strcmp(item, words[i].word) == 0) return words[i].parse(&fields, augment);
  }
  return false;
}

static ull_status bad_item(const char *text, const char *item, size_t length) {
  ULL__FAIL(ULL_ERROR_USAGE, "'%.*s' is no augmentation, or out of its bounds", (int)length, item);
  ull__error_holder("--augment %s", text);
  return ull__error_change("give none, or a list of crop[:PIXELS[:zero|reflect]], flip, vflip, "
                           "rrc[:MIN-MAX], resize[:SIDE], stretch, rotate:D, "
                           "color-jitter:B:C:S:H, grayscale[:P], randaugment[:N:M], erase[:P], "
                           "mixup[:A], cutmix[:A]");
}

static ull_status contradiction(const char *text) {
  ULL__FAIL(ULL_ERROR_USAGE, "'%s': crop moves a picture that is stretched to size", text);
  ull__error_holder("--augment %s", text);
  return ull__error_change("leave out crop, or leave out rrc and resize");
}

ull_status ull_augment_parse(const char *text, ull_augment *out) {
  ull_augment augment = {0};
  *out = augment;
  if (strcmp(text, "none") == 0) return ULL_OK;
  for (const char *at = text;; at++) {
    char item[ITEM_BYTES];
    size_t length = strcspn(at, ",");
    if (length >= sizeof item) return bad_item(text, at, sizeof item);
    memcpy(item, at, length);
    item[length] = '\0';
    if (!parse_item(item, &augment)) return bad_item(text, at, length);
    at += length;
    if (*at == '\0') break;
  }
  bool cuts =
      augment.framing == ULL_FRAMING_RANDOM_CROP || augment.framing == ULL_FRAMING_CENTRE_CROP;
  if (augment.crop_pixels > 0 && cuts) return contradiction(text);
  *out = augment;
  return ULL_OK;
}

/* ---- texts ---- */

typedef struct writer {
  char *buffer;
  size_t bytes, used;
} writer;

__attribute__((format(printf, 2, 3))) static void add(writer *w, const char *format, ...) {
  va_list arguments;
  if (w->used > 0 && w->used < w->bytes) {
    w->used += (size_t)snprintf(w->buffer + w->used, w->bytes - w->used, ", ");
  }
  if (w->used >= w->bytes) return;
  va_start(arguments, format);
  w->used += (size_t)vsnprintf(w->buffer + w->used, w->bytes - w->used, format, arguments);
  va_end(arguments);
}

static void describe_framing(const ull_augment *a, writer *w) {
  if (a->framing == ULL_FRAMING_RANDOM_CROP) {
    add(w, "random resized crop %g-%g", a->area_min, a->area_max);
  }
  if (a->framing == ULL_FRAMING_CENTRE_CROP) {
    if (a->resize_side > 0) {
      add(w, "resize %d, centre crop", a->resize_side);
    } else {
      add(w, "resize, centre crop");
    }
  }
  if (a->framing == ULL_FRAMING_STRETCH) add(w, "stretch");
}

const char *ull_augment_describe(const ull_augment *a, char *buffer, size_t buffer_bytes) {
  writer w = {.buffer = buffer, .bytes = buffer_bytes};
  bool jitters = a->brightness > 0 || a->contrast > 0 || a->saturation > 0 || a->hue > 0;
  describe_framing(a, &w);
  if (a->crop_pixels > 0) {
    add(&w, "crop %d (%s)", a->crop_pixels, a->padding == ULL_PADDING_REFLECT ? "reflect" : "zero");
  }
  if (a->flip) add(&w, "flip");
  if (a->flip_vertical) add(&w, "vflip");
  if (a->rotate_degrees > 0) add(&w, "rotate %g", a->rotate_degrees);
  if (jitters) {
    add(&w, "color jitter %g %g %g %g", a->brightness, a->contrast, a->saturation, a->hue);
  }
  if (a->grayscale_probability > 0) add(&w, "grayscale %g", a->grayscale_probability);
  if (a->operations > 0) add(&w, "randaugment %d (magnitude %d)", a->operations, a->magnitude);
  if (a->erase_probability > 0) add(&w, "erase %g", a->erase_probability);
  if (a->mixup_alpha > 0) add(&w, "mixup %g", a->mixup_alpha);
  if (a->cutmix_alpha > 0) add(&w, "cutmix %g", a->cutmix_alpha);
  if (w.used == 0) add(&w, "none");
  return buffer;
}

/* ---- answers ---- */

ull_framing ull__augment_framing(const ull_augment *augment) {
  if (augment->framing != ULL_FRAMING_UNSET) return augment->framing;
  return augment->crop_pixels > 0 ? ULL_FRAMING_STRETCH : ULL_FRAMING_CENTRE_CROP;
}

bool ull__augment_changes_pixels(const ull_augment *a) {
  return a->rotate_degrees > 0 || a->brightness > 0 || a->contrast > 0 || a->saturation > 0 ||
         a->hue > 0 || a->grayscale_probability > 0 || a->operations > 0;
}

ull_augment ull_augment_default_for_photos(bool training) {
  if (!training) return (ull_augment){.framing = ULL_FRAMING_CENTRE_CROP};
  return (ull_augment){
      .framing = ULL_FRAMING_RANDOM_CROP, .area_min = 0.08, .area_max = 1, .flip = true};
}
