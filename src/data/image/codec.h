/* What the reader and the decoders of single formats share. A format is one row: it finds the
 * header, states its need, pushes rows. */
#ifndef ULL_DATA_IMAGE_CODEC_H
#define ULL_DATA_IMAGE_CODEC_H

#include "data/image/image.h"
#include "data/image/input.h"

typedef struct ull__image_codec {
  ull__image_format format;
  const char *name;
  uint64_t state_bytes; /* heap of a reader's state, at most */
  uint64_t pool_bytes;  /* of the fixed scratch, beside the input's window */
  ull_status (*create)(void **state);
  void (*destroy)(void *state);
  ull_status (*open)(ull__image_reader *reader, void *state, ull__image_info *info);
  ull_status (*prepare)(ull__image_reader *reader, void *state, const ull__image_request *request,
                        ull__image_info *info, ull__image_delivery *delivery);
  ull_status (*decode)(ull__image_reader *reader, void *state, const ull__image_request *request,
                       const ull__image_delivery *delivery, ull__scratch *scratch,
                       const ull__image_sink *sink, ull__image_info *info);
  void (*close)(void *state);
} ull__image_codec;

extern const ull__image_codec ull__jpeg_codec, ull__png_codec, ull__webp_codec;

enum { ULL__IMAGE_CODECS = 3 };

struct ull__image_reader {
  ull__image_limits limits;
  void *states[ULL__IMAGE_CODECS];
  const ull__image_codec *codec; /* of the picture that is open; NULL: none */
  void *state;
  ull__input input;
  uint8_t *pool; /* codec->pool_bytes of scratch */
  ull__scratch *scratch;
  uint64_t mark; /* of the scratch before open */
};

/* Raises info->verdict where `verdict` is worse. */
void ull__image_note(ull__image_info *info, ull_verdict verdict, const char *reason);

/* Ends work on a picture that cannot be used: ULL_ERROR_DATA, named after the record. */
ull_status ull__image_refuse(const ull__image_reader *reader, ull__image_info *info,
                             ull_verdict verdict, const char *reason);

/* Refuses pictures beyond the limit of pixels, and sizes below 1. */
ull_status ull__image_check_size(const ull__image_reader *reader, ull__image_info *info,
                                 uint64_t width, uint64_t height);

/* Refuses what needs more scratch than the limit: "needs N bytes". */
ull_status ull__image_check_need(const ull__image_reader *reader, ull__image_info *info,
                                 uint64_t bytes);

/* Grey of a coloured pixel: 0.299, 0.587 and 0.114, rounded. */
static inline unsigned ull__image_luma(unsigned red, unsigned green, unsigned blue) {
  return (red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16;
}

#endif
