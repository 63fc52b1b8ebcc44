/* What the fields of a sample mean. Pictures are arrays: "jpg" is `image`, "mask.png" and "seg.png"
 * are `mask`, "left.png" is `left`. "cls" is the label in ASCII, "json" has it under "label" or
 * "cls". "npy" is an array of elements. */
#include <stdio.h>
#include <string.h>

#include "data/folder/tree.h"
#include "data/tar/tar.h"

static bool is_mask(const char *name) {
  return strcmp(name, "mask") == 0 || strcmp(name, "seg") == 0 || strcmp(name, "segmentation") == 0;
}

int ull__tar_field_content(const char *field, char name[ULL__TAR_ARRAY_NAME], uint32_t *content) {
  char dotted[ULL__TAR_ARRAY_NAME + 1];
  if (strcmp(field, "cls") == 0) return ULL__FIELD_CLS;
  if (strcmp(field, "json") == 0) return ULL__FIELD_JSON;
  snprintf(dotted, sizeof dotted, ".%s", field);
  const char *dot = strrchr(dotted, '.');
  bool elements = strcmp(dot, ".npy") == 0;
  if (!elements && !ull__is_picture_name(dotted)) return ULL__FIELD_UNREAD;
  *content = elements ? ULL_CONTENT_ELEMENTS : ULL_CONTENT_IMAGE;
  size_t bytes = dot > dotted ? (size_t)(dot - dotted - 1) : 0;
  snprintf(name, ULL__TAR_ARRAY_NAME, "%.*s", (int)bytes, dotted + 1);
  if (bytes == 0) strcpy(name, elements ? "npy" : "image");
  if (!elements && is_mask(name)) {
    *content = ULL_CONTENT_MASK;
    strcpy(name, "mask");
  }
  /* A label is a number, not an array that happens to have the name. */
  return strcmp(name, "label") == 0 ? ULL__FIELD_UNREAD : 0;
}

bool ull__tar_parse_integer(const char *text, size_t bytes, int64_t *out) {
  size_t i = 0;
  while (i < bytes && (text[i] == ' ' || text[i] == '\n' || text[i] == '\r' || text[i] == '\t'))
    i++;
  bool negative = i < bytes && text[i] == '-';
  i += negative || (i < bytes && text[i] == '+');
  size_t begin = i;
  uint64_t value = 0;
  for (; i < bytes && text[i] >= '0' && text[i] <= '9' && i - begin < 18; i++)
    value = value * 10 + (uint64_t)(text[i] - '0');
  bool digits = i > begin;
  while (i < bytes && (text[i] == ' ' || text[i] == '\n' || text[i] == '\r' || text[i] == '\t' ||
                       text[i] == '\0'))
    i++;
  *out = negative ? -(int64_t)value : (int64_t)value;
  return digits && i == bytes;
}
