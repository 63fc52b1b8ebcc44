/* What resizing, cropping and normalising a photo costs beside decoding it.
 *
 *     bench-resample [--repeat N] FILE.jpg ...
 *
 * For each photo in turn: a full decode by libjpeg-turbo (accurate DCT, rows thrown away), then the
 * resampler alone on the decoded rows for evaluation (resize 256, centre 224), for a random resized
 * crop of 224, and both to uint8. Prints microseconds a photo (median over repeats) and shares of
 * the decode. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jpeglib.h>

#include "data/image/geometry.h"

enum { SIDE = 224, WAYS = 5, REPEATS_MOST = 64, DRAWS = 8 };

static const char *const way_names[WAYS] = {"libjpeg-turbo decode", "eval 224 float32",
                                            "crop 224 float32", "eval 224 uint8 NHWC",
                                            "crop 224 uint8 NHWC"};

typedef struct photo {
  unsigned char *file, *pixels;
  unsigned long bytes;
  int width, height;
} photo;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void decode(photo *p, bool keep) {
  static unsigned char row[4 * 65536];
  struct jpeg_decompress_struct jpeg;
  struct jpeg_error_mgr errors;
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&jpeg);
  jpeg_mem_src(&jpeg, p->file, p->bytes);
  jpeg_read_header(&jpeg, TRUE);
  jpeg.out_color_space = JCS_EXT_RGBX;
  jpeg.dct_method = JDCT_ISLOW;
  jpeg_start_decompress(&jpeg);
  p->width = (int)jpeg.output_width;
  p->height = (int)jpeg.output_height;
  if (keep) p->pixels = malloc((size_t)p->width * (size_t)p->height * 4);
  while (jpeg.output_scanline < jpeg.output_height) {
    unsigned char *to = row;
    if (keep) to = p->pixels + (size_t)jpeg.output_scanline * (size_t)p->width * 4;
    jpeg_read_scanlines(&jpeg, &to, 1);
  }
  jpeg_finish_decompress(&jpeg);
  jpeg_destroy_decompress(&jpeg);
}

static bool load(photo *p, const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) return false;
  fseek(file, 0, SEEK_END);
  p->bytes = (unsigned long)ftell(file);
  rewind(file);
  p->file = malloc(p->bytes);
  bool whole = p->file && fread(p->file, 1, p->bytes, file) == p->bytes;
  fclose(file);
  return whole;
}

static void resample(const photo *p, int way, uint64_t sample) {
  static float out[3 * SIDE * SIDE];
  static uint8_t *memory;
  static uint64_t memory_bytes;
  bool bytes_out = way >= 3;
  ull_augment augment = ull_augment_default_for_photos(way % 2 == 0);
  ull__image_info info = {.width = p->width, .height = p->height};
  ull__frame frame = ull__frame_draw(&augment, 1, 0, sample, p->width, p->height, SIDE, SIDE);
  ull__framing framing = {.orientation = 1,
                          .filter = ULL__FILTER_TRIANGLE,
                          .channels = 4,
                          .out_width = SIDE,
                          .out_height = SIDE,
                          .upright = {.base = out,
                                      .dtype = bytes_out ? ULL_UINT8 : ULL_FLOAT32,
                                      .channels = 3,
                                      .x_stride = bytes_out ? 3 : 1,
                                      .y_stride = bytes_out ? 3 * SIDE : SIDE,
                                      .c_stride = bytes_out ? 1 : SIDE * SIDE,
                                      .scale = {0.017f, 0.0175f, 0.0174f},
                                      .bias = {-2.1f, -2, -1.8f}}};
  ull__resample_spec spec;
  ull__resampler *resampler;
  uint64_t bytes;
  if (ull__frame_spec(&frame, &framing, &info, &spec) != ULL_OK) exit(1);
  ull__rect r = spec.pixels = ull__resample_region(&spec);
  if (ull__resample_bytes(&spec, &bytes) != ULL_OK) exit(1);
  if (bytes > memory_bytes) {
    free(memory);
    memory_bytes = (bytes + 63) & ~UINT64_C(63);
    memory = aligned_alloc(64, memory_bytes);
  }
  ull__scratch scratch = ull__scratch_over(memory, memory_bytes);
  if (ull__resample_begin(&spec, &scratch, &resampler) != ULL_OK) exit(1);
  for (int y = r.y; y < r.y + r.height; y++) {
    const uint8_t *row = p->pixels + ((size_t)y * (size_t)p->width + (size_t)r.x) * 4;
    ull__resample_row(resampler, y, row);
  }
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(int argc, char **argv) {
  int repeats = 5, first = 1, count = 0;
  static double times[WAYS][REPEATS_MOST];
  if (argc > 2 && strcmp(argv[1], "--repeat") == 0) {
    repeats = atoi(argv[2]);
    first = 3;
  }
  if (repeats < 1 || repeats > REPEATS_MOST || first >= argc) {
    fprintf(stderr, "usage: %s [--repeat N] FILE.jpg ...\n", argv[0]);
    return 2;
  }
  for (int i = first; i < argc; i++) {
    photo p = {0};
    if (!load(&p, argv[i])) continue;
    decode(&p, true);
    for (int r = 0; r < repeats; r++) {
      for (int way = 0; way < WAYS; way++) {
        double since = now();
        if (way == 0) decode(&p, false);
        for (uint64_t d = 0; way > 0 && d < DRAWS; d++) resample(&p, way, (uint64_t)i * DRAWS + d);
        times[way][r] += (now() - since) / (way == 0 ? 1 : DRAWS);
      }
    }
    free(p.file);
    free(p.pixels);
    count++;
  }
  if (count == 0) return 1;
  double decode_us = 0;
  for (int way = 0; way < WAYS; way++) {
    qsort(times[way], (size_t)repeats, sizeof(double), compare);
    double us = times[way][repeats / 2] / count;
    if (way == 0) decode_us = us;
    printf("%-22s %8.1f us a photo  %5.1f %%\n", way_names[way], us, 100 * us / decode_us);
  }
  return 0;
}
