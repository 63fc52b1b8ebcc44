/* One stream, whatever holds the pictures: a folder, and the same files in a plain archive. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/data_files.h"
#include "support/data_trees.h"
#include "support/picture_folders.h"
#include "support/tar_files.h"

enum { PICTURES = 37, SIDE = 24 };

/* The files of the folder in the order in which it numbers them: class by class. */
static void put_archive(const char *name, int picture_count) {
  byte_buffer tar = {0};
  for (int c = 0; c < FOLDER_CLASSES; c++) {
    for (int i = c; i < picture_count; i += FOLDER_CLASSES) {
      char label[8];
      size_t bytes;
      uint8_t *file = read_file(path_in(root, picture_name(i)), &bytes);
      append_member(&tar, picture_name(i), file, bytes);
      free(file);
      char name[64];
      snprintf(name, sizeof name, "class%d/picture%03d.cls", c, i);
      snprintf(label, sizeof label, "%d", c);
      append_text(&tar, name, label);
    }
  }
  append_end(&tar);
  put_buffer(root, name, &tar);
  free_buffer(&tar);
}

static void folder_and_archive_are_one_stream(void **state) {
  (void)state;
  uint32_t folder[2 * PICTURES], archive[2 * PICTURES];
  put_pictures(root, PICTURES);
  put_archive("all.tar", PICTURES);
  ull_source *sources[2] = {open_or_fail(root, ULL_SPLIT_TRAIN),
                            open_or_fail(at_root("tar:", "all.tar"), ULL_SPLIT_TRAIN)};
  for (int workers = 0; workers < 8; workers += 3) {
    for (int s = 0; s < 2; s++) {
      ull_loader_options options = picture_options(sources[s], SIDE);
      options.epochs = 2;
      options.workers = workers;
      options.prefetch = 1 + workers;
      assert_int_equal(hash_stream(&options, s == 0 ? folder : archive), 2 * PICTURES);
    }
    assert_memory_equal(folder, archive, sizeof folder);
  }
  for (int s = 0; s < 2; s++) ull_source_close(sources[s]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(folder_and_archive_are_one_stream)};
  return cmocka_run_group_tests(tests, make_root, remove_root);
}
