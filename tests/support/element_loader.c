#include "support/element_loader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <zlib.h>

#include "support/data_trees.h"
#include "support/picture_folders.h"

ull_source *elements;
ull_binding element_bindings[2];

ull_source *open_elements(ull_split split) {
  return open_or_fail(at_root("idx:", ""), split);
}

int set_up_elements(void **state) {
  make_root(state);
  write_idx_pair(root, "train", SAMPLES, HEIGHT, WIDTH, SAMPLES, true);
  write_idx_pair(root, "t10k", SAMPLES, HEIGHT, WIDTH, SAMPLES, false);
  elements = open_elements(ULL_SPLIT_TRAIN);
  return 0;
}

int tear_down_elements(void **state) {
  ull_source_close(elements);
  return remove_root(state);
}

ull_loader_options element_options(void) {
  element_bindings[0] = ull_binding_default(elements, 0);
  element_bindings[0].name = "x";
  element_bindings[0].dtype = ULL_FLOAT32;
  assert_int_equal(ull_normalize_parse("0.5:0.25", elements, 0, &element_bindings[0].normalize),
                   ULL_OK);
  element_bindings[1] = ull_binding_default(elements, 1);
  element_bindings[1].dtype = ULL_INT64;
  ull_loader_options options = ull_loader_options_default(elements);
  options.bindings = element_bindings;
  options.binding_count = 2;
  options.batch_size = BATCH;
  options.seed = 42;
  options.epochs = EPOCHS;
  assert_int_equal(ull_augment_parse("crop:2,flip", &options.augment), ULL_OK);
  return options;
}

uint32_t hash_batch(const ull_batch *batch) {
  uLong crc = crc32(0, NULL, 0);
  for (size_t i = 0; i < batch->array_count; i++) {
    crc = crc32(crc, batch->arrays[i].data, (uInt)batch->arrays[i].bytes);
  }
  return (uint32_t)crc32(crc, (const Bytef *)batch->sample_index, (uInt)(batch->samples * 8));
}

int hash_batches(ull_loader *loader, uint32_t *hashes) {
  const ull_batch *batch;
  int count = 0;
  for (;;) {
    if (ull_loader_next(loader, &batch) != ULL_OK) fail_msg("%s", ull_error_last()->message);
    if (batch == NULL) return count;
    hashes[count++] = hash_batch(batch);
    ull_loader_release(loader, batch);
  }
}

void reference_batches(uint32_t *hashes) {
  ull_loader_options options = element_options();
  options.workers = 0;
  options.prefetch = 1;
  ull_loader *loader = create_loader(&options);
  assert_int_equal(ull_loader_batches_per_epoch(loader), BATCHES);
  assert_int_equal(hash_batches(loader, hashes), BATCHES * EPOCHS);
  ull_loader_destroy(loader);
}
