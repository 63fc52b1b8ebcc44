/* What a file is, from its first bytes. */
#ifndef ULL_DATA_IMAGE_SNIFF_H
#define ULL_DATA_IMAGE_SNIFF_H

#include "data/image/image.h"

typedef struct ull__sniffed {
  ull__image_format format;
  const char *refusal; /* for pictures of a kind that is not read: "GIF is not read"; else NULL */
} ull__sniffed;

ull__sniffed ull__image_sniff(const uint8_t *bytes, size_t count);

/* Whether the name's extension promises a picture of another format. */
bool ull__image_name_lies(const char *path, ull__image_format format);

#endif
