/* What decoding costs beside a plain libjpeg loop over the same bytes in memory: whole pictures,
 * and the windows that random-resized-crop asks for. One thread, methods taken in turn, CPU
 * seconds.
 *
 *     ./dev bench decode FOLDER [ROUNDS]
 */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jpeglib.h>

#include "base/philox.h"
#include "data/image/image.h"

enum { MOST_FILES = 4096, SCRATCH = 64 << 20, MOST_ROUNDS = 64 };

typedef struct picture {
  uint8_t *bytes;
  size_t count;
} picture;

static picture pictures[MOST_FILES];
static size_t picture_count;
static uint64_t pixel_sum; /* so that nothing is optimised away, and all methods see the same */

static void read_picture(const char *folder, const char *name) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "rb");
  if (file == NULL) return;
  picture *p = &pictures[picture_count];
  fseek(file, 0, SEEK_END);
  long size = ftell(file);
  rewind(file);
  p->bytes = size > 2 ? malloc((size_t)size) : NULL;
  if (p->bytes != NULL) p->count = fread(p->bytes, 1, (size_t)size, file);
  if (p->count > 2 && p->bytes[0] == 0xff && p->bytes[1] == 0xd8) picture_count++;
  fclose(file);
}

static void read_folder(const char *folder) {
  DIR *listing = opendir(folder);
  if (listing == NULL) return;
  for (struct dirent *e; (e = readdir(listing)) != NULL && picture_count < MOST_FILES;)
    if (e->d_name[0] != '.') read_picture(folder, e->d_name);
  closedir(listing);
}

static double cpu_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* ---- plain libjpeg, everything reused ---- */

static struct jpeg_decompress_struct cinfo;
static struct jpeg_error_mgr errors;
static uint8_t row_memory[8][65536 * 4];

static void decode_plainly(const picture *p) {
  JSAMPROW rows[8];
  for (int r = 0; r < 8; r++) rows[r] = row_memory[r];
  jpeg_mem_src(&cinfo, p->bytes, (unsigned long)p->count);
  jpeg_read_header(&cinfo, TRUE);
  cinfo.out_color_space = JCS_EXT_RGBX;
  cinfo.dct_method = JDCT_ISLOW;
  jpeg_start_decompress(&cinfo);
  while (cinfo.output_scanline < cinfo.output_height) {
    jpeg_read_scanlines(&cinfo, rows, 8);
    pixel_sum += rows[0][cinfo.output_width * 2];
  }
  jpeg_finish_decompress(&cinfo);
}

/* ---- ours ---- */

static ull__image_reader *reader;
static ull__scratch scratch;
static ull__record record;

static ull_status take_row(void *context, int y, const uint8_t *pixels) {
  (void)context, (void)y;
  pixel_sum += pixels[0];
  return ULL_OK;
}

static double draw(uint64_t sample, uint64_t which) {
  return ull__philox_unit_float(ull__philox_u32(1, sample, which));
}

/* Random-resized-crop's window: area 0.08 to 1, ratio 3/4 to 4/3, ten tries. */
static ull__rect draw_window(uint64_t sample, int width, int height) {
  for (uint64_t attempt = 0; attempt < 10; attempt++) {
    double area = (0.08 + 0.92 * draw(sample, attempt * 4)) * width * height;
    double ratio = exp(log(0.75) + (log(4.0 / 3) - log(0.75)) * draw(sample, attempt * 4 + 1));
    int w = (int)lround(sqrt(area * ratio)), h = (int)lround(sqrt(area / ratio));
    if (w < 1 || h < 1 || w > width || h > height) continue;
    int x = (int)(draw(sample, attempt * 4 + 2) * (width - w + 1));
    int y = (int)(draw(sample, attempt * 4 + 3) * (height - h + 1));
    return (ull__rect){x, y, w, h};
  }
  return (ull__rect){0, 0, width, height};
}

static bool decode_ours(const picture *p, bool windows, uint64_t sample) {
  ull__image_info info;
  ull__image_delivery delivery;
  ull__image_sink sink = {take_row, NULL};
  record.memory = p->bytes;
  record.bytes = p->count;
  bool good = ull__image_open(reader, &record, &scratch, &info) == ULL_OK;
  ull__image_request request = {.max_reduction = 1, .channels = 4};
  request.region = windows ? draw_window(sample, info.width, info.height)
                           : (ull__rect){0, 0, info.width, info.height};
  good = good && ull__image_prepare(reader, &request, &info, &delivery) == ULL_OK &&
         ull__image_decode(reader, &request, &delivery, &scratch, &sink, &info) == ULL_OK;
  ull__image_close(reader);
  return good;
}

/* ---- measuring ---- */

enum { PLAIN, WHOLE, WINDOWS, METHODS };

static double run(int method, uint64_t round) {
  double began = cpu_seconds();
  for (size_t i = 0; i < picture_count; i++) {
    if (method == PLAIN)
      decode_plainly(&pictures[i]);
    else if (!decode_ours(&pictures[i], method == WINDOWS, round * picture_count + i))
      fprintf(stderr, "%s\n", ull_error_last()->message);
  }
  return cpu_seconds() - began;
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void print_method(const char *name, double *seconds, double *ratios, int rounds) {
  qsort(seconds, (size_t)rounds, sizeof *seconds, compare);
  qsort(ratios, (size_t)rounds, sizeof *ratios, compare);
  printf("%-8s %8.1f pictures/s  %6.3f of plain (%.3f to %.3f)\n", name,
         (double)picture_count / seconds[rounds / 2], ratios[rounds / 2], ratios[0],
         ratios[rounds - 1]);
}

static void measure(int only, int rounds) {
  static double seconds[METHODS][MOST_ROUNDS], ratios[METHODS][MOST_ROUNDS];
  static const char *const names[METHODS] = {"plain", "whole", "windows"};
  for (int round = 0; round < rounds; round++)
    for (int m = 0; m < METHODS; m++) {
      if (only >= 0 && m != only) continue;
      seconds[m][round] = run(m, (uint64_t)round);
      ratios[m][round] = only >= 0 ? 0 : seconds[m][round] / seconds[PLAIN][round];
    }
  for (int m = 0; m < METHODS; m++)
    if (only < 0 || m == only) print_method(names[m], seconds[m], ratios[m], rounds);
}

int main(int argc, char **argv) {
  int rounds = argc > 2 ? atoi(argv[2]) : 7;
  int only = argc > 3 ? atoi(argv[3]) : -1; /* one method alone, for counting instructions */
  if (argc < 2 || rounds < 1 || rounds > MOST_ROUNDS) {
    fprintf(stderr, "usage: bench_decode FOLDER [ROUNDS [METHOD]]\n");
    return 2;
  }
  read_folder(argv[1]);
  cinfo.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&cinfo);
  ull__image_limits limits = {.memory_bytes = SCRATCH};
  uint64_t bytes = ull__image_fixed_bytes() + SCRATCH;
  scratch = ull__scratch_over(aligned_alloc(ULL__SCRATCH_ALIGNMENT, bytes), bytes);
  if (picture_count == 0 || scratch.memory == NULL ||
      ull__image_reader_create(&limits, &reader) != ULL_OK) {
    fprintf(stderr, "bench_decode: no JPEG files in %s, or no memory\n", argv[1]);
    return 1;
  }
  record.descriptor = -1;
  snprintf(record.path, sizeof record.path, "a picture");
  measure(only, rounds);
  fprintf(stderr, "checksum %llu\n", (unsigned long long)pixel_sum);
  return 0;
}
