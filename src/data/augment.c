/* The text of --augment. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "ullage/data.h"

enum { DEFAULT_CROP_PIXELS = 4, CROP_PIXELS_MAX = 4096 };

static ull_status bad_text(const char *text) {
  ULL__FAIL(ULL_ERROR_USAGE, "'%s' is not a list of augmentations", text);
  ull__error_holder("--augment %s", text);
  return ull__error_change("give none, or a list of crop, crop:PIXELS[:zero|reflect] and flip");
}

static bool parse_crop(const char *item, ull_augment *augment) {
  int pixels = DEFAULT_CROP_PIXELS, used = 0;
  char padding[8] = "zero";
  if (strcmp(item, "crop") != 0) {
    bool full = sscanf(item, "crop:%4d:%7[a-z]%n", &pixels, padding, &used) == 2;
    if (!full && sscanf(item, "crop:%4d%n", &pixels, &used) != 1) return false;
    if (item[used] != '\0') return false;
  }
  bool reflect = strcmp(padding, "reflect") == 0;
  if (!reflect && strcmp(padding, "zero") != 0) return false;
  augment->crop_pixels = pixels;
  augment->padding = reflect ? ULL_PADDING_REFLECT : ULL_PADDING_ZERO;
  return pixels > 0 && pixels <= CROP_PIXELS_MAX;
}

static bool parse_item(const char *item, ull_augment *augment) {
  if (strcmp(item, "flip") != 0) return parse_crop(item, augment);
  augment->flip = true;
  return true;
}

ull_status ull_augment_parse(const char *text, ull_augment *out) {
  ull_augment augment = {0};
  *out = augment;
  if (strcmp(text, "none") == 0) return ULL_OK;
  for (const char *at = text;; at++) {
    char item[32];
    size_t length = strcspn(at, ",");
    if (length >= sizeof item) return bad_text(text);
    memcpy(item, at, length);
    item[length] = '\0';
    if (!parse_item(item, &augment)) return bad_text(text);
    at += length;
    if (*at == '\0') break;
  }
  *out = augment;
  return ULL_OK;
}

const char *ull_augment_describe(const ull_augment *augment, char *buffer, size_t buffer_bytes) {
  char crop[48] = "";
  if (augment->crop_pixels > 0) {
    snprintf(crop, sizeof crop, "crop %d (%s)", augment->crop_pixels,
             augment->padding == ULL_PADDING_REFLECT ? "reflect" : "zero");
  }
  const char *between = crop[0] != '\0' && augment->flip ? ", " : "";
  bool none = crop[0] == '\0' && !augment->flip;
  snprintf(buffer, buffer_bytes, "%s%s%s", none ? "none" : crop, between,
           augment->flip ? "flip" : "");
  return buffer;
}
