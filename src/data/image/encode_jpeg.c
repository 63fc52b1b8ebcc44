/* JPEG by libjpeg-turbo into memory that grows. An error leaves through setjmp; nothing that has to
 * be given back lives in the function it leaves. */
#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h>

#include "base/alloc.h"
#include "data/image/encode.h"

enum { LONGEST_SIDE = 65500, PIECE = 16384 };

typedef struct writer {
  struct jpeg_compress_struct jpeg;
  struct jpeg_error_mgr errors;
  struct jpeg_destination_mgr destination;
  jmp_buf leave;
  ull_status status;
  ull__encoded_bytes bytes;
  uint8_t piece[PIECE];
} writer;

static void leave(j_common_ptr jpeg) {
  writer *w = jpeg->client_data;
  char text[JMSG_LENGTH_MAX];
  if (w->status == ULL_OK) {
    w->errors.format_message(jpeg, text);
    w->status = ULL__FAIL(ULL_ERROR_OUT_OF_MEMORY, "libjpeg cannot write: %s", text);
  }
  longjmp(w->leave, 1);
}

static void say_nothing(j_common_ptr jpeg) {
  (void)jpeg;
}

static void begin_output(j_compress_ptr jpeg) {
  writer *w = jpeg->client_data;
  w->destination.next_output_byte = w->piece;
  w->destination.free_in_buffer = PIECE;
}

static void keep(writer *w, size_t count) {
  w->status = ull__encoded_add(&w->bytes, w->piece, count);
  if (w->status != ULL_OK) leave((j_common_ptr)&w->jpeg);
}

static boolean empty_piece(j_compress_ptr jpeg) {
  keep(jpeg->client_data, PIECE);
  begin_output(jpeg);
  return TRUE;
}

static void end_output(j_compress_ptr jpeg) {
  writer *w = jpeg->client_data;
  keep(w, PIECE - w->destination.free_in_buffer);
}

static void prepare(writer *w) {
  w->jpeg.err = jpeg_std_error(&w->errors);
  w->errors.error_exit = leave;
  w->errors.output_message = say_nothing;
  w->jpeg.client_data = w;
  w->destination = (struct jpeg_destination_mgr){.init_destination = begin_output,
                                                 .empty_output_buffer = empty_piece,
                                                 .term_destination = end_output};
}

static void describe(writer *w, const ull_pixels *pixels, int quality) {
  w->jpeg.dest = &w->destination;
  w->jpeg.image_width = (JDIMENSION)pixels->width;
  w->jpeg.image_height = (JDIMENSION)pixels->height;
  w->jpeg.input_components = pixels->channels;
  w->jpeg.in_color_space = pixels->channels == 3 ? JCS_RGB : JCS_GRAYSCALE;
  jpeg_set_defaults(&w->jpeg);
  jpeg_set_quality(&w->jpeg, quality, TRUE);
  w->jpeg.dct_method = JDCT_ISLOW;
  w->jpeg.optimize_coding = TRUE;
}

static ull_status encode(writer *w, const ull_pixels *pixels, int quality) {
  prepare(w);
  if (setjmp(w->leave) != 0) return w->status;
  jpeg_create_compress(&w->jpeg);
  describe(w, pixels, quality);
  jpeg_start_compress(&w->jpeg, TRUE);
  size_t row_bytes = (size_t)pixels->width * (size_t)pixels->channels;
  while (w->jpeg.next_scanline < w->jpeg.image_height) {
    JSAMPROW row = (JSAMPROW)(uintptr_t)(pixels->data + w->jpeg.next_scanline * row_bytes);
    jpeg_write_scanlines(&w->jpeg, &row, 1);
  }
  jpeg_finish_compress(&w->jpeg);
  return ULL_OK;
}

ull_status ull_image_encode_jpeg(const ull_pixels *pixels, int quality, ull_encoded *out) {
  *out = (ull_encoded){0};
  ULL__TRY(ull__encode_check(pixels, LONGEST_SIDE, "JPEG"));
  if (quality < 1 || quality > 100)
    return ULL__FAIL(ULL_ERROR_INVALID, "JPEG has no quality %d", quality);
  writer *w = ull__alloc(1, sizeof *w);
  if (w == NULL) return ull_error_last()->status;
  ull_status status = encode(w, pixels, quality);
  jpeg_destroy_compress(&w->jpeg);
  ull__encoded_finish(status, &w->bytes, out);
  ull__free(w);
  return status;
}
