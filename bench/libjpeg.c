/* How fast libjpeg-turbo alone decodes a folder: the yardstick L of bench/data.py.
 *
 *     bench_libjpeg FOLDER THREADS
 *
 * Whole pictures to RGB with the accurate DCT; buffers and decoders are reused, files come from the
 * page cache, nothing else is done. Every line "epoch" on standard input decodes all files once and
 * is answered by one JSON line {"samples", "seconds", "cpu_seconds"}; "quit" or the end of the
 * input ends it. */
#include <ftw.h>
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <jpeglib.h>

enum { FILES_MAX = 1 << 20, THREADS_MAX = 64, FOLDERS_OPEN = 16 };

static char **files;
static size_t file_count;
static atomic_size_t next_file;
static atomic_size_t decoded;

static int add_file(const char *path, const struct stat *status, int kind, struct FTW *walk) {
  (void)status, (void)walk;
  const char *dot = strrchr(path, '.');
  if (kind != FTW_F || dot == NULL || file_count == FILES_MAX) return 0;
  if (strcmp(dot, ".jpg") != 0 && strcmp(dot, ".jpeg") != 0 && strcmp(dot, ".JPEG") != 0) return 0;
  return (files[file_count++] = strdup(path)) == NULL;
}

typedef struct worker {
  struct jpeg_decompress_struct decoder;
  struct jpeg_error_mgr errors;
  jmp_buf failed;
  uint8_t *bytes, *pixels;
  size_t bytes_capacity, pixels_capacity;
} worker;

static void give_up(j_common_ptr decoder) {
  longjmp(((worker *)decoder->client_data)->failed, 1);
}

static void say_nothing(j_common_ptr decoder) {
  (void)decoder;
}

static void *grow(void *buffer, size_t *capacity, size_t bytes) {
  if (bytes <= *capacity) return buffer;
  *capacity = bytes;
  return realloc(buffer, bytes);
}

static size_t read_whole(worker *w, const char *path) {
  FILE *file = fopen(path, "rb");
  if (file == NULL) return 0;
  setvbuf(file, NULL, _IONBF, 0);
  fseek(file, 0, SEEK_END);
  long size = ftell(file);
  rewind(file);
  w->bytes = grow(w->bytes, &w->bytes_capacity, (size_t)size);
  size_t got = fread(w->bytes, 1, (size_t)size, file);
  fclose(file);
  return got;
}

static void decode(worker *w, const char *path) {
  size_t bytes = read_whole(w, path);
  if (bytes == 0) return;
  if (setjmp(w->failed) != 0) {
    jpeg_abort_decompress(&w->decoder);
    return;
  }
  jpeg_mem_src(&w->decoder, w->bytes, bytes);
  jpeg_read_header(&w->decoder, TRUE);
  w->decoder.out_color_space = JCS_RGB;
  w->decoder.dct_method = JDCT_ISLOW;
  jpeg_start_decompress(&w->decoder);
  size_t stride = (size_t)w->decoder.output_width * 3;
  w->pixels = grow(w->pixels, &w->pixels_capacity, stride * w->decoder.output_height);
  while (w->decoder.output_scanline < w->decoder.output_height) {
    JSAMPROW rows[16];
    for (unsigned i = 0; i < 16; i++) {
      unsigned y = w->decoder.output_scanline + i;
      rows[i] = w->pixels + stride * (y < w->decoder.output_height ? y : 0);
    }
    unsigned left = w->decoder.output_height - w->decoder.output_scanline;
    jpeg_read_scanlines(&w->decoder, rows, left < 16 ? left : 16);
  }
  jpeg_finish_decompress(&w->decoder);
  atomic_fetch_add(&decoded, 1);
}

static void *work(void *argument) {
  worker *w = argument;
  size_t i;
  while ((i = atomic_fetch_add(&next_file, 1)) < file_count) decode(w, files[i]);
  return NULL;
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static double cpu_seconds(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

static void run_epoch(worker *workers, int count) {
  pthread_t threads[THREADS_MAX];
  double began = now(), cpu = cpu_seconds();
  atomic_store(&next_file, 0);
  atomic_store(&decoded, 0);
  for (int i = 0; i < count; i++) pthread_create(&threads[i], NULL, work, &workers[i]);
  for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
  printf("{\"samples\": %zu, \"seconds\": %.6f, \"cpu_seconds\": %.6f}\n", atomic_load(&decoded),
         now() - began, cpu_seconds() - cpu);
  fflush(stdout);
}

static int usage(void) {
  fputs("usage: bench_libjpeg FOLDER THREADS\n", stderr);
  return 2;
}

int main(int argc, char **argv) {
  int count = argc == 3 ? atoi(argv[2]) : 0;
  if (count < 1 || count > THREADS_MAX) return usage();
  files = calloc(FILES_MAX, sizeof *files);
  worker *workers = calloc((size_t)count, sizeof *workers);
  if (files == NULL || workers == NULL) return 1;
  if (nftw(argv[1], add_file, FOLDERS_OPEN, 0) != 0 || file_count == 0) {
    fprintf(stderr, "bench_libjpeg: no JPEG files in %s\n", argv[1]);
    return 1;
  }
  for (int i = 0; i < count; i++) {
    workers[i].decoder.err = jpeg_std_error(&workers[i].errors);
    workers[i].errors.error_exit = give_up;
    workers[i].errors.output_message = say_nothing;
    workers[i].decoder.client_data = &workers[i];
    jpeg_create_decompress(&workers[i].decoder);
  }
  char line[64];
  printf("{\"ready\": true, \"files\": %zu}\n", file_count);
  fflush(stdout);
  while (fgets(line, sizeof line, stdin) != NULL && strncmp(line, "epoch", 5) == 0)
    run_epoch(workers, count);
  return 0;
}
