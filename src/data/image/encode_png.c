/* PNG by libspng, pushed row by row. */
#include <spng.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "data/image/encode.h"

enum { LONGEST_SIDE = 1 << 24 };

static void *take(size_t bytes) {
  return ull__alloc(1, bytes);
}

static void *retake(void *pointer, size_t bytes) {
  return ull__realloc(pointer, 1, bytes);
}

static struct spng_alloc heap = {
    .malloc_fn = take, .realloc_fn = retake, .calloc_fn = ull__alloc, .free_fn = ull__free};

static int add_bytes(spng_ctx *context, void *to, void *bytes, size_t count) {
  (void)context;
  return ull__encoded_add(to, bytes, count) == ULL_OK ? 0 : SPNG_IO_ERROR;
}

static ull_status fail(int error) {
  if (error == SPNG_EMEM || error == SPNG_IO_ERROR)
    return ULL__FAIL(ULL_ERROR_OUT_OF_MEMORY, "no memory to write a PNG");
  return ULL__FAIL(ULL_ERROR_INTERNAL, "libspng cannot write: %s", spng_strerror(error));
}

static int encode(spng_ctx *context, const ull_pixels *pixels, ull__encoded_bytes *bytes) {
  struct spng_ihdr header = {
      .width = (uint32_t)pixels->width,
      .height = (uint32_t)pixels->height,
      .bit_depth = 8,
      .color_type = pixels->channels == 3 ? SPNG_COLOR_TYPE_TRUECOLOR : SPNG_COLOR_TYPE_GRAYSCALE,
  };
  int error = spng_set_png_stream(context, add_bytes, bytes);
  if (error == 0) error = spng_set_ihdr(context, &header);
  if (error == 0)
    error = spng_encode_image(context, NULL, 0, SPNG_FMT_PNG,
                              SPNG_ENCODE_PROGRESSIVE | SPNG_ENCODE_FINALIZE);
  size_t row = (size_t)pixels->width * (size_t)pixels->channels;
  for (int y = 0; y < pixels->height && error == 0; y++)
    error = spng_encode_row(context, pixels->data + (size_t)y * row, row);
  return error == SPNG_EOI ? 0 : error;
}

ull_status ull_image_encode_png(const ull_pixels *pixels, ull_encoded *out) {
  *out = (ull_encoded){0};
  ULL__TRY(ull__encode_check(pixels, LONGEST_SIDE, "PNG"));
  spng_ctx *context = spng_ctx_new2(&heap, SPNG_CTX_ENCODER);
  if (context == NULL) return fail(SPNG_EMEM);
  ull__encoded_bytes bytes = {0};
  int error = encode(context, pixels, &bytes);
  spng_ctx_free(context);
  return ull__encoded_finish(error != 0 ? fail(error) : ULL_OK, &bytes, out);
}
