/* Broken files: cut at every byte, and with bytes changed; from memory and from a descriptor, whole
 * and in part, to colour, grey and class numbers. Whatever comes: an end, rows as announced or an
 * error, no more scratch than foreseen, and no cut file that passes for a whole one. With
 * ULLAGE_TEST_DATA also over real small files and a corpus of fuzzed ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/mman.h>
#include <unistd.h>
#include <webp/encode.h>

#include "base/philox.h"
#include "support/data_files.h"
#include "support/image_runs.h"
#include "support/jpeg_files.h"
#include "support/png_files.h"

enum { MEMORY = 24 << 20, MOST_SMALL = 6 << 10, SMALL_FILES = 20, MOST_SEEDS = 64, FLIPS = 150 };

static image_bench bench;

typedef struct seed {
  const char *name;
  byte_buffer bytes;
} seed;

static seed seeds[MOST_SEEDS];
static size_t seed_count;

static void add_seed(const char *name, const void *bytes, size_t count) {
  if (seed_count == MOST_SEEDS) return;
  seed *s = &seeds[seed_count++];
  s->name = name;
  append_bytes(&s->bytes, bytes, count);
}

static void add_jpeg(const char *name, jpeg_form form) {
  size_t count;
  form.width = 45, form.height = 37;
  uint8_t *bytes = make_jpeg(&form, &count);
  add_seed(name, bytes, count);
  free(bytes);
}

static void add_png(const char *name, png_form form) {
  form.width = 23, form.height = 19;
  byte_buffer bytes = make_png(&form);
  add_seed(name, bytes.bytes, bytes.count);
  free_buffer(&bytes);
}

static void add_webp(const char *name, bool lossless) {
  uint8_t pixels[24][32][4], *coded = NULL;
  for (size_t i = 0; i < sizeof pixels; i++) ((uint8_t *)pixels)[i] = (uint8_t)(i * i >> 4);
  size_t count = lossless ? WebPEncodeLosslessRGBA(&pixels[0][0][0], 32, 24, 128, &coded)
                          : WebPEncodeRGBA(&pixels[0][0][0], 32, 24, 128, 70, &coded);
  add_seed(name, coded, count);
  WebPFree(coded);
}

static int add_small_file(const char *path, const struct stat *status, int kind,
                          struct FTW *place) {
  (void)place;
  if (kind != FTW_F || status->st_size < 16 || status->st_size > MOST_SMALL) return 0;
  size_t count;
  uint8_t *bytes = read_file(path, &count);
  bool picture = memcmp(bytes, "\xff\xd8", 2) == 0 || memcmp(bytes + 1, "PNG", 3) == 0 ||
                 memcmp(bytes, "RIFF", 4) == 0;
  if (picture) add_seed("a real file", bytes, count);
  free(bytes);
  return seed_count >= 10 + SMALL_FILES;
}

static int set_up(void **state) {
  (void)state;
  open_bench(&bench, MEMORY);
  add_jpeg("baseline", (jpeg_form){.colours = JPEG_YCC, .h = 2, .v = 2});
  add_jpeg("restarts", (jpeg_form){.colours = JPEG_YCC, .h = 2, .v = 1, .restart_rows = 1});
  add_jpeg("progressive", (jpeg_form){.colours = JPEG_YCC, .h = 2, .v = 2, .progressive = true});
  add_jpeg("arithmetic", (jpeg_form){.colours = JPEG_YCC, .h = 1, .v = 1, .arithmetic = true});
  add_jpeg("cmyk", (jpeg_form){.colours = JPEG_YCCK, .h = 1, .v = 1});
  add_png("palette", (png_form){.colour = PNG_PALETTE, .depth = 4});
  add_png("interlaced", (png_form){.colour = PNG_RGB_ALPHA, .depth = 16, .interlaced = true});
  add_png("grey", (png_form){.colour = PNG_GREY, .depth = 8, .piece = 64});
  add_webp("lossy", false);
  add_webp("lossless", true);
  const char *data = getenv("ULLAGE_TEST_DATA");
  if (data) nftw(path_in(data, "odd-images"), add_small_file, 16, FTW_PHYS);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  for (size_t i = 0; i < seed_count; i++) free_buffer(&seeds[i].bytes);
  close_bench(&bench);
  return 0;
}

/* One decode, and what must hold of any. Returns the verdict. */
static ull_verdict decode(const uint8_t *bytes, size_t count, int descriptor,
                          const ull__image_request *request) {
  image_run run = run_image(&bench, bytes, count, descriptor, request);
  assert_non_null(run.info.reason);
  assert_true(run.taken <= MEMORY);
  if (run.status == ULL_OK) {
    assert_int_equal(run.rows, run.delivery.region.height);
    assert_true(run.taken <= run.delivery.scratch_bytes);
  } else if (run.status != ULL_ERROR_INVALID) {
    assert_int_equal(run.status, ULL_ERROR_DATA);
    assert_true(ull_verdict_is_bad(run.info.verdict));
    assert_true(run.info.reason[0] != '\0');
  }
  free(run.pixels);
  return run.info.verdict;
}

static const ull__image_request everything = {.channels = 4};
static const ull__image_request part = {.region = {3, 2, 1, 1}, .max_reduction = 2, .channels = 4};
static const ull__image_request grey = {.channels = 1};
static const ull__image_request classes = {.channels = 1, .class_numbers = true};

static void decode_all_ways(const uint8_t *bytes, size_t count, int descriptor) {
  decode(bytes, count, -1, &everything);
  decode(bytes, count, -1, &part);
  decode(bytes, count, -1, &grey);
  decode(bytes, count, -1, &classes);
  if (descriptor < 0) return;
  assert_true(pwrite(descriptor, bytes, count, 0) == (ssize_t)count);
  decode(NULL, count, descriptor, &everything);
  decode(NULL, count, descriptor, &part);
}

/* A copy of its own for every length, so that a read beyond it is seen by the sanitizer. */
static ull_verdict decode_cut(const seed *s, size_t length, const ull__image_request *request) {
  uint8_t *copy = malloc(length);
  memcpy(copy, s->bytes.bytes, length);
  ull_verdict verdict = decode(copy, length, -1, request);
  free(copy);
  return verdict;
}

static void cut_at_every_byte(void **state) {
  (void)state;
  for (size_t i = 0; i < seed_count; i++) {
    const seed *s = &seeds[i];
    bool sound = decode_cut(s, s->bytes.count, &everything) == ULL_VERDICT_OK;
    for (size_t length = 1; length < s->bytes.count; length++) {
      ull_verdict verdict = decode_cut(s, length, length & 1 ? &everything : &grey);
      decode_cut(s, length, &part);
      if (sound && i < 10 && verdict <= ULL_VERDICT_REPAIRED)
        fail_msg("%s cut to %zu of %zu bytes: %s", s->name, length, s->bytes.count,
                 ull_verdict_name(verdict));
    }
  }
}

static void change_bytes(byte_buffer *bytes, uint64_t stream) {
  uint32_t changes = 1 + ull__philox_u32(3, stream, 0) % 4;
  for (uint32_t c = 0; c < changes; c++) {
    size_t at = ull__philox_u32(3, stream, 1 + c * 2) % bytes->count;
    uint32_t what = ull__philox_u32(3, stream, 2 + c * 2);
    bytes->bytes[at] = (uint8_t)(what & 256 ? what : bytes->bytes[at] ^ (1u << (what & 7)));
  }
}

static void bytes_changed(void **state) {
  (void)state;
  int descriptor = memfd_create("picture", MFD_CLOEXEC);
  assert_true(descriptor >= 0);
  for (size_t i = 0; i < seed_count; i++)
    for (uint64_t n = 0; n < FLIPS; n++) {
      byte_buffer copy = {0};
      append_bytes(&copy, seeds[i].bytes.bytes, seeds[i].bytes.count);
      change_bytes(&copy, i * FLIPS + n);
      decode_all_ways(copy.bytes, copy.count, descriptor);
      free_buffer(&copy);
    }
  close(descriptor);
}

static int decode_file(const char *path, const struct stat *status, int kind, struct FTW *place) {
  (void)place;
  if (kind != FTW_F || status->st_size == 0 || status->st_size > 1 << 20) return 0;
  size_t count;
  uint8_t *bytes = read_file(path, &count);
  decode(bytes, count, -1, &everything);
  decode(bytes, count, -1, &part);
  decode(bytes, count, -1, &classes);
  free(bytes);
  return 0;
}

static void fuzzed_files(void **state) {
  (void)state;
  const char *data = getenv("ULLAGE_TEST_DATA");
  if (data == NULL) {
    print_message("ULLAGE_TEST_DATA is not set\n");
    skip();
  }
  nftw(path_in(data, "fuzz-jpeg"), decode_file, 16, FTW_PHYS);
  nftw(path_in(data, "odd-images"), decode_file, 16, FTW_PHYS);
}

/* A record that promises more bytes than the file has. */
static void files_that_become_shorter(void **state) {
  (void)state;
  int descriptor = memfd_create("picture", MFD_CLOEXEC);
  for (size_t i = 0; i < 10; i++) {
    size_t count = seeds[i].bytes.count, half = count / 2;
    assert_int_equal(ftruncate(descriptor, 0), 0);
    assert_true(pwrite(descriptor, seeds[i].bytes.bytes, half, 0) == (ssize_t)half);
    ull_verdict verdict = decode(NULL, count, descriptor, &everything);
    if (verdict <= ULL_VERDICT_REPAIRED)
      fail_msg("%s: %s", seeds[i].name, ull_verdict_name(verdict));
  }
  close(descriptor);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(cut_at_every_byte),
      cmocka_unit_test(bytes_changed),
      cmocka_unit_test(fuzzed_files),
      cmocka_unit_test(files_that_become_shorter),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
