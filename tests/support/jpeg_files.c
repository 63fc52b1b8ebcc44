/* Written with libjpeg's compressor. */
#include "support/jpeg_files.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

static uint8_t value_at(int x, int y, int c) {
  int wave = (x * (3 + c) + y * (5 - c)) % 256;
  int block = ((x / 5 + y / 3 + c) % 3) * 60;
  int noise = (int)((unsigned)(x * 7919 + y * 104729 + c * 1299709) * 2654435761u >> 28);
  return (uint8_t)((wave / 2 + block + noise) & 255);
}

static J_COLOR_SPACE stored_space(jpeg_colours colours) {
  static const J_COLOR_SPACE spaces[] = {JCS_GRAYSCALE, JCS_YCbCr, JCS_RGB, JCS_CMYK, JCS_YCCK};
  return spaces[colours];
}

static void set_form(struct jpeg_compress_struct *cinfo, const jpeg_form *form) {
  static const J_COLOR_SPACE spaces[] = {JCS_GRAYSCALE, JCS_RGB, JCS_RGB, JCS_CMYK, JCS_CMYK};
  static const int counts[] = {1, 3, 3, 4, 4};
  cinfo->image_width = (JDIMENSION)form->width;
  cinfo->image_height = (JDIMENSION)form->height;
  cinfo->input_components = counts[form->colours];
  cinfo->in_color_space = spaces[form->colours];
  jpeg_set_defaults(cinfo);
  jpeg_set_colorspace(cinfo, stored_space(form->colours));
  jpeg_set_quality(cinfo, 85, TRUE);
  for (int c = 0; c < cinfo->num_components; c++)
    cinfo->comp_info[c].h_samp_factor = cinfo->comp_info[c].v_samp_factor = 1;
  cinfo->comp_info[0].h_samp_factor = form->h;
  cinfo->comp_info[0].v_samp_factor = form->v;
  if (form->colours == JPEG_YCCK)
    cinfo->comp_info[3].h_samp_factor = form->h, cinfo->comp_info[3].v_samp_factor = form->v;
  if (form->progressive) jpeg_simple_progression(cinfo);
  cinfo->arith_code = form->arithmetic;
  cinfo->restart_in_rows = form->restart_rows;
}

uint8_t *make_jpeg(const jpeg_form *form, size_t *count) {
  struct jpeg_compress_struct cinfo;
  struct jpeg_error_mgr errors;
  unsigned char *bytes = NULL;
  unsigned long length = 0;
  cinfo.err = jpeg_std_error(&errors);
  jpeg_create_compress(&cinfo);
  jpeg_mem_dest(&cinfo, &bytes, &length);
  set_form(&cinfo, form);
  jpeg_start_compress(&cinfo, TRUE);
  size_t row_bytes = (size_t)form->width * (size_t)cinfo.input_components;
  uint8_t *row = malloc(row_bytes);
  for (int y = 0; y < form->height; y++) {
    for (size_t i = 0; i < row_bytes; i++)
      row[i] = value_at((int)(i / (size_t)cinfo.input_components), y,
                        (int)(i % (size_t)cinfo.input_components));
    jpeg_write_scanlines(&cinfo, &row, 1);
  }
  jpeg_finish_compress(&cinfo);
  jpeg_destroy_compress(&cinfo);
  free(row);
  *count = length;
  return bytes;
}

uint8_t *plain_decode(const uint8_t *bytes, size_t count, int channels, int reduction, int *width,
                      int *height) {
  struct jpeg_decompress_struct cinfo;
  struct jpeg_error_mgr errors;
  cinfo.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&cinfo);
  jpeg_mem_src(&cinfo, bytes, (unsigned long)count);
  jpeg_read_header(&cinfo, TRUE);
  cinfo.out_color_space = channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_CMYK;
  cinfo.dct_method = JDCT_ISLOW;
  cinfo.scale_num = 1;
  cinfo.scale_denom = (unsigned)reduction;
  jpeg_start_decompress(&cinfo);
  *width = (int)cinfo.output_width;
  *height = (int)cinfo.output_height;
  size_t row_bytes = (size_t)cinfo.output_width * (size_t)channels;
  uint8_t *pixels = malloc(row_bytes * cinfo.output_height);
  while (cinfo.output_scanline < cinfo.output_height) {
    JSAMPROW row = pixels + row_bytes * cinfo.output_scanline;
    jpeg_read_scanlines(&cinfo, &row, 1);
  }
  jpeg_finish_decompress(&cinfo);
  jpeg_destroy_decompress(&cinfo);
  return pixels;
}

typedef struct trial {
  struct jpeg_error_mgr errors;
  jmp_buf escape;
  plain_outcome outcome;
} trial;

static void give_up(j_common_ptr cinfo) {
  longjmp(((trial *)cinfo->err)->escape, 1);
}

static void say_nothing(j_common_ptr cinfo) {
  (void)cinfo;
}

static void decode_trial(j_decompress_ptr cinfo, plain_outcome *out) {
  jpeg_read_header(cinfo, TRUE);
  cinfo->dct_method = JDCT_ISLOW;
  jpeg_start_decompress(cinfo);
  out->width = (int)cinfo->output_width;
  out->height = (int)cinfo->output_height;
  out->channels = cinfo->out_color_components;
  size_t row_bytes = (size_t)cinfo->output_width * (size_t)out->channels;
  out->pixels = malloc(row_bytes * cinfo->output_height);
  while (cinfo->output_scanline < cinfo->output_height) {
    JSAMPROW row = out->pixels + row_bytes * cinfo->output_scanline;
    jpeg_read_scanlines(cinfo, &row, 1);
  }
  bool writable = cinfo->out_color_space != JCS_UNKNOWN; /* the program has no file for others */
  jpeg_finish_decompress(cinfo);
  out->clean = writable && cinfo->err->num_warnings == 0;
}

plain_outcome plain_try(const uint8_t *bytes, size_t count) {
  trial *t = calloc(1, sizeof *t);
  struct jpeg_decompress_struct cinfo = {.err = jpeg_std_error(&t->errors)};
  t->errors.error_exit = give_up;
  t->errors.output_message = say_nothing;
  if (setjmp(t->escape) == 0) {
    jpeg_create_decompress(&cinfo);
    jpeg_mem_src(&cinfo, bytes, (unsigned long)count);
    decode_trial(&cinfo, &t->outcome);
  } else {
    free(t->outcome.pixels);
    t->outcome.pixels = NULL;
    t->outcome.clean = false;
  }
  jpeg_destroy_decompress(&cinfo);
  plain_outcome outcome = t->outcome;
  free(t);
  return outcome;
}

static void put(uint8_t *at, int bytes, unsigned value, bool big) {
  for (int i = 0; i < bytes; i++) at[i] = (uint8_t)(value >> 8 * (big ? bytes - 1 - i : i));
}

void make_exif(uint8_t exif[26], int orientation, bool big_endian) {
  memset(exif, 0, 26);
  memcpy(exif, big_endian ? "MM" : "II", 2);
  put(exif + 2, 2, 42, big_endian);
  put(exif + 4, 4, 8, big_endian);
  put(exif + 8, 2, 1, big_endian);
  put(exif + 10, 2, 0x112, big_endian);
  put(exif + 12, 2, 3, big_endian);
  put(exif + 14, 4, 1, big_endian);
  put(exif + 18, 2, (unsigned)orientation, big_endian);
}

uint8_t *with_orientation(const uint8_t *jpeg, size_t count, int orientation, bool big_endian,
                          size_t *new_count) {
  enum { SEGMENT = 2 + 2 + 6 + 26 };
  uint8_t *bytes = malloc(count + SEGMENT);
  memcpy(bytes, jpeg, 2);
  memcpy(bytes + 2,
         "\xff\xe1\0\x22"
         "Exif\0",
         10);
  make_exif(bytes + 12, orientation, big_endian);
  memcpy(bytes + 2 + SEGMENT, jpeg + 2, count - 2);
  *new_count = count + SEGMENT;
  return bytes;
}
