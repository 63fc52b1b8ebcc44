/* Real and odd files: verdicts are libjpeg's (no error, no warning: sound) and those of a table,
 * pixels are djpeg's, and turned pictures equal the upright one. Memory stays flat over thousands
 * of broken files. Needs ULLAGE_TEST_DATA. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <ftw.h>
#include <malloc.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/philox.h"
#include "support/data_files.h"
#include "support/image_runs.h"
#include "support/jpeg_files.h"
#include "ullage/image.h"

enum { MEMORY = 256 << 20, MOST_FILES = 4096 };

static const char *data;
static image_bench bench;

typedef struct file {
  char path[512];
  uint8_t *bytes;
  size_t count;
} file;

static file files[MOST_FILES];
static size_t file_count;

static int add_file(const char *path, const struct stat *status, int kind, struct FTW *place) {
  (void)place;
  if (kind != FTW_F || status->st_size == 0 || file_count == MOST_FILES) return 0;
  file *f = &files[file_count++];
  snprintf(f->path, sizeof f->path, "%s", path);
  f->bytes = read_file(path, &f->count);
  return 0;
}

static bool is_jpeg(const file *f) {
  return f->count > 2 && f->bytes[0] == 0xff && f->bytes[1] == 0xd8;
}

static int set_up(void **state) {
  (void)state;
  static const char *const folders[] = {"odd-images", "fuzz-jpeg", "camera-jpeg", "photos"};
  for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
    nftw(path_in(data, folders[i]), add_file, 16, FTW_PHYS);
  open_bench(&bench, MEMORY);
  return file_count > 0 ? 0 : -1;
}

static int tear_down(void **state) {
  (void)state;
  for (size_t i = 0; i < file_count; i++) free(files[i].bytes);
  close_bench(&bench);
  return 0;
}

static image_run run_file(const file *f, ull__rect region, int channels) {
  ull__image_request request = {.region = region, .channels = channels};
  return run_image(&bench, f->bytes, f->count, -1, &request);
}

/* ---- against libjpeg ---- */

static bool is_sound(ull_verdict verdict) {
  return verdict == ULL_VERDICT_OK || verdict == ULL_VERDICT_REPAIRED;
}

/* Pixels of a delivery against the plain ones: 1 or 3 channels there, 4 here. */
static void check_pixels(const file *f, const image_run *run, const plain_outcome *plain) {
  const ull__rect *r = &run->delivery.region;
  for (int y = 0; y < r->height; y++)
    for (int x = 0; x < r->width; x++) {
      const uint8_t *ours = run->pixels + ((size_t)y * (size_t)r->width + (size_t)x) * 4;
      size_t at = (size_t)(r->y + y) * (size_t)plain->width + (size_t)(r->x + x);
      const uint8_t *theirs = plain->pixels + at * (size_t)plain->channels;
      int step = plain->channels == 3;
      if (ours[0] != theirs[0] || ours[1] != theirs[step] || ours[2] != theirs[2 * step])
        fail_msg("%s: pixel %d,%d differs", f->path, r->x + x, r->y + y);
    }
}

static ull__rect draw_region(size_t which, int width, int height) {
  uint32_t word[4];
  for (uint32_t i = 0; i < 4; i++) word[i] = ull__philox_u32(7, which, i);
  ull__rect r = {(int)(word[0] % (uint32_t)width), (int)(word[1] % (uint32_t)height), 0, 0};
  r.width = 1 + (int)(word[2] % (uint32_t)(width - r.x));
  r.height = 1 + (int)(word[3] % (uint32_t)(height - r.y));
  return r;
}

static void check_crop(const file *f, size_t which, const plain_outcome *plain) {
  image_run crop = run_file(f, draw_region(which, plain->width, plain->height), 4);
  assert_int_equal(crop.status, ULL_OK);
  assert_true(is_sound(crop.info.verdict));
  check_pixels(f, &crop, plain);
  free(crop.pixels);
}

static void check_jpeg(const file *f, size_t which) {
  image_run run = run_file(f, (ull__rect){0, 0, 0, 0}, 4);
  ull_verdict verdict = run.info.verdict;
  bool aside = verdict == ULL_VERDICT_TOO_BIG || verdict == ULL_VERDICT_UNSUPPORTED;
  if (!aside) {
    plain_outcome plain = plain_try(f->bytes, f->count);
    if (plain.clean != is_sound(verdict))
      fail_msg("%s: %s (%s), but libjpeg %s", f->path, ull_verdict_name(verdict), run.info.reason,
               plain.clean ? "has no complaint" : "complains");
    if (plain.clean) assert_int_equal(run.status, ULL_OK);
    if (plain.pixels != NULL) assert_int_equal(run.status, ULL_OK);
    if (!plain.clean && plain.pixels != NULL && plain.channels != 4)
      check_pixels(f, &run, &plain); /* damage too is decoded as the library decodes it */
    if (plain.clean && plain.channels != 4) {
      assert_int_equal(run.taken, run.delivery.scratch_bytes);
      check_pixels(f, &run, &plain);
      check_crop(f, which, &plain);
    }
    free(plain.pixels);
  }
  free(run.pixels);
}

static void jpegs_are_as_libjpeg_has_them(void **state) {
  (void)state;
  size_t seen = 0;
  for (size_t i = 0; i < file_count; i++)
    if (is_jpeg(&files[i])) check_jpeg(&files[i], i), seen++;
  assert_true(seen > 500);
}

static void photos_are_never_doubted(void **state) {
  (void)state;
  for (size_t i = 0; i < file_count; i++) {
    if (strstr(files[i].path, "/photos/") == NULL) continue;
    image_run run = run_file(&files[i], (ull__rect){0, 0, 0, 0}, 1);
    if (run.info.verdict != ULL_VERDICT_OK)
      fail_msg("%s: %s", files[i].path, ull_verdict_name(run.info.verdict));
    free(run.pixels);
  }
}

/* ---- the table ---- */

static void verdicts_are_those_of_the_table(void **state) {
  (void)state;
  char line[1024], path[512], expected[64], whole[1024];
  FILE *table = fopen(source_path("tests/data/image_verdicts.tsv"), "r");
  assert_non_null(table);
  int wrong = 0, rows = 0;
  ull_image_options options = ull_image_options_default();
  while (fgets(line, sizeof line, table)) {
    if (sscanf(line, "%511[^\t]\t%63[^\n]", path, expected) != 2 || strcmp(path, "path") == 0)
      continue;
    ull_image image;
    snprintf(whole, sizeof whole, "%s/odd-images/%s", data, path);
    ull_image_decode_file(whole, &options, &image);
    rows++;
    if (strcmp(ull_verdict_name(image.verdict), expected) != 0) {
      print_message("%s: %s (%s), expected %s\n", path, ull_verdict_name(image.verdict),
                    image.reason, expected);
      wrong++;
    }
    ull_image_free(&image);
  }
  fclose(table);
  assert_true(rows > 300);
  assert_int_equal(wrong, 0);
}

/* ---- orientation ---- */

static double mean_difference(const ull_image *a, const ull_image *b) {
  size_t count = (size_t)a->width * (size_t)a->height * 3;
  double sum = 0;
  for (size_t i = 0; i < count; i++) sum += abs(a->pixels[i] - b->pixels[i]);
  return sum / (double)count;
}

static void turned_photos_equal_the_upright_one(void **state) {
  (void)state;
  ull_image_options options = ull_image_options_default();
  static const char *const kinds[] = {"Landscape", "Portrait"};
  for (int k = 0; k < 2; k++) {
    ull_image first = {.width = 0};
    int seen = 0;
    for (int n = 0; n <= 8; n++) {
      char path[512];
      snprintf(path, sizeof path, "%s/odd-images/exif-orientation/%s_%d.jpg", data, kinds[k], n);
      if (access(path, R_OK) != 0) continue;
      ull_image image;
      assert_int_equal(ull_image_decode_file(path, &options, &image), ULL_OK);
      assert_int_equal(image.verdict, n > 1 ? ULL_VERDICT_REPAIRED : ULL_VERDICT_OK);
      if (seen++ == 0) {
        first = image;
        continue;
      }
      assert_int_equal(image.width, first.width);
      assert_int_equal(image.height, first.height);
      double difference = mean_difference(&image, &first);
      if (difference >= 5) fail_msg("%s: differs by %.2f", path, difference); /* coded anew: 3.6 */
      ull_image_free(&image);
    }
    assert_true(seen >= 2);
    ull_image_free(&first);
  }
}

/* ---- memory ---- */

static size_t resident_bytes(void) {
  FILE *statm = fopen("/proc/self/statm", "r");
  unsigned long size = 0, resident = 0;
  assert_non_null(statm);
  assert_int_equal(fscanf(statm, "%lu %lu", &size, &resident), 2);
  fclose(statm);
  return resident * (size_t)sysconf(_SC_PAGESIZE);
}

/* One broken file after the other through one reader. */
static void decode_broken(size_t times, const size_t *broken, size_t count) {
  for (size_t i = 0; i < times; i++) {
    image_run run = run_file(&files[broken[i % count]], (ull__rect){0, 0, 0, 0}, 4);
    free(run.pixels);
  }
}

static size_t find_broken(size_t *broken) {
  size_t count = 0;
  for (size_t i = 0; i < file_count; i++) {
    if (files[i].count > 64 << 10) continue;
    image_run run = run_file(&files[i], (ull__rect){0, 0, 0, 0}, 4);
    uint64_t pixels = (uint64_t)run.info.width * (uint64_t)run.info.height;
    if (run.info.verdict >= ULL_VERDICT_WARNED && pixels < 1 << 17) broken[count++] = i;
    free(run.pixels);
  }
  return count;
}

static void memory_is_flat_over_broken_files(void **state) {
  (void)state;
  static size_t broken[MOST_FILES];
  size_t count = find_broken(broken);
  assert_true(count > 100);
  decode_broken(count, broken, count);
  uint64_t live = ull__alloc_count().live_bytes, calls = ull__alloc_count().calls;
  malloc_trim(0);
  size_t heap = mallinfo2().uordblks, resident = resident_bytes();
  decode_broken(10000, broken, count);
  malloc_trim(0);
  assert_int_equal(ull__alloc_count().live_bytes, live);
  assert_int_equal(ull__alloc_count().calls, calls);
  assert_true(mallinfo2().uordblks <= heap + (64 << 10)); /* under 7 bytes a file: free lists */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  assert_true(resident_bytes() <= resident + (1 << 20));
#else
  (void)resident;
#endif
}

int main(void) {
  data = getenv("ULLAGE_TEST_DATA");
  if (data == NULL || access(path_in(data, "odd-images"), R_OK) != 0) {
    puts("skipped: ULLAGE_TEST_DATA has no odd-images");
    return 77;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(jpegs_are_as_libjpeg_has_them),
      cmocka_unit_test(photos_are_never_doubted),
      cmocka_unit_test(verdicts_are_those_of_the_table),
      cmocka_unit_test(turned_photos_equal_the_upright_one),
      cmocka_unit_test(memory_is_flat_over_broken_files),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
