#include "support/picture_folders.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <zlib.h>

#include "support/data_trees.h"
#include "support/jpeg_files.h"

const char *picture_name(int number) {
  static char name[64];
  snprintf(name, sizeof name, "class%d/picture%03d.jpg", number % FOLDER_CLASSES, number);
  return name;
}

void put_pictures(const char *root, int count) {
  for (int i = 0; i < count; i++) {
    jpeg_form form = {.width = 33 + i * 13 % 88,
                      .height = 35 + i * 29 % 85,
                      .colours = i % 7 == 3 ? JPEG_GREY : JPEG_YCC,
                      .h = 1 + i % 2,
                      .v = 1 + i % 4 / 2,
                      .progressive = i % 5 == 2};
    size_t bytes;
    uint8_t *jpeg = make_jpeg(&form, &bytes);
    put_bytes(root, picture_name(i), jpeg, bytes);
    free(jpeg);
  }
}

ull_loader_options picture_options(const ull_source *source, int side) {
  static ull_binding bindings[2];
  bindings[0] = ull_binding_default(source, 0);
  bindings[0].dtype = ULL_FLOAT32;
  bindings[0].shape[1] = bindings[0].shape[2] = side;
  assert_int_equal(ull_normalize_parse("auto", source, 0, &bindings[0].normalize), ULL_OK);
  bindings[1] = ull_binding_default(source, 1);
  ull_loader_options options = ull_loader_options_default(source);
  options.bindings = bindings;
  options.binding_count = 2;
  options.batch_size = 8;
  options.seed = 5;
  options.epochs = 1;
  options.augment = ull_augment_default_for_photos(true);
  options.large_bytes = 4 << 20;
  return options;
}

ull_loader *create_loader(const ull_loader_options *options) {
  ull_loader *loader;
  if (ull_loader_create(options, &loader) != ULL_OK) fail_msg("%s", ull_error_last()->message);
  return loader;
}

static uint32_t hash_sample(const ull_batch *batch, uint64_t sample) {
  uLong crc = crc32(0, (const Bytef *)&batch->sample_index[sample], sizeof(uint64_t));
  for (size_t i = 0; i < batch->array_count; i++) {
    uint64_t bytes = batch->arrays[i].bytes / batch->samples;
    crc = crc32(crc, (const Bytef *)batch->arrays[i].data + sample * bytes, (uInt)bytes);
  }
  return (uint32_t)crc;
}

int hash_samples(ull_loader *loader, uint32_t *hashes, int most) {
  const ull_batch *batch;
  int count = 0;
  while (count < most) {
    if (ull_loader_next(loader, &batch) != ULL_OK) fail_msg("%s", ull_error_last()->message);
    if (batch == NULL) return count;
    for (uint64_t i = 0; i < batch->samples; i++) hashes[count++] = hash_sample(batch, i);
    ull_loader_release(loader, batch);
  }
  return count;
}

int hash_stream(const ull_loader_options *options, uint32_t *hashes) {
  ull_loader *loader = create_loader(options);
  int count = hash_samples(loader, hashes, STREAM_MOST);
  ull_loader_destroy(loader);
  return count;
}
