/* `cifar:DIR`: the binary files of CIFAR-10 (data_batch_1.bin and on, test_batch.bin) and CIFAR-100
 * (train.bin, test.bin), in DIR or in the folder that their archives unpack to.
 *
 * A record is one label byte (CIFAR-10) or a coarse and a fine one (CIFAR-100, where the fine one
 * is the label), then 32 x 32 red, green and blue. Records are read in place; the length of a file
 * says how many there are and is checked. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"
#include "data/content.h"
#include "data/source.h"

enum {
  PIXELS = 3 * 32 * 32,
  MOST_FILES = 32,
  MOST_NAMES = 100,
  NAME_BYTES = 48,
  NAMES_FILE_MOST = 64 * 1024,
  ARRAY_IMAGE = 0,
};

typedef struct cifar {
  int label_bytes; /* before the pixels; the last of them is the label */
  int file_count;
  ull__data_file files[MOST_FILES];
  uint64_t first[MOST_FILES + 1]; /* sample */
  char names[MOST_NAMES][NAME_BYTES];
} cifar;

static uint64_t record_bytes(const cifar *cifar) {
  return (uint64_t)cifar->label_bytes + PIXELS;
}

static ull_status add_file(cifar *cifar, const char *path) {
  ull__data_file *file = &cifar->files[cifar->file_count];
  ULL__TRY(ull__data_file_open(path, file));
  cifar->file_count++;
  uint64_t records = file->bytes / record_bytes(cifar);
  if (records == 0 || file->bytes % record_bytes(cifar) != 0) {
    ULL__FAIL(ULL_ERROR_DATA,
              "%s: has %" PRIu64 " bytes, which is no whole number of records of %" PRIu64, path,
              file->bytes, record_bytes(cifar));
    ull__error_holder("%s", path);
    return ull__error_change("fetch the file again");
  }
  cifar->first[cifar->file_count] = cifar->first[cifar->file_count - 1] + records;
  return ULL_OK;
}

/* Adds FOLDER/name where it is there. */
static ull_status try_file(cifar *cifar, const char *folder, const char *name, bool *found) {
  char *path = ull__path_join(folder, name);
  if (path == NULL) return ull_error_last()->status;
  *found = access(path, F_OK) == 0;
  ull_status status = *found ? add_file(cifar, path) : ULL_OK;
  ull__free(path);
  return status;
}

static ull_status add_files(cifar *cifar, const char *folder, bool training) {
  bool found;
  char name[32];
  cifar->label_bytes = 1;
  if (!training) ULL__TRY(try_file(cifar, folder, "test_batch.bin", &found));
  for (int i = 1; training && i <= MOST_FILES; i++) {
    snprintf(name, sizeof name, "data_batch_%d.bin", i);
    ULL__TRY(try_file(cifar, folder, name, &found));
    if (!found) break;
  }
  if (cifar->file_count > 0) return ULL_OK;
  cifar->label_bytes = 2;
  return try_file(cifar, folder, training ? "train.bin" : "test.bin", &found);
}

/* Names of classes are a courtesy of the archives: one a line, and nothing is missing without. */
static ull_status read_names(ull_source *source, cifar *cifar, const char *folder) {
  char *path =
      ull__path_join(folder, cifar->label_bytes == 1 ? "batches.meta.txt" : "fine_label_names.txt");
  if (path == NULL) return ull_error_last()->status;
  char *text = NULL;
  size_t bytes;
  ull_status status = ull__file_read_optional(path, NAMES_FILE_MOST, &text, &bytes);
  ull__free(path);
  if (text == NULL) return status;
  char *rest = text;
  for (char *line; (line = strsep(&rest, "\r\n")) != NULL;) {
    if (line[0] == '\0' || source->class_count == MOST_NAMES) continue;
    snprintf(cifar->names[source->class_count++], NAME_BYTES, "%s", line);
  }
  ull__free(text);
  return ULL_OK;
}

static ull_status not_there(const char *folder, bool training) {
  ULL__FAIL(ULL_ERROR_DATA, "%s: has neither %s nor %s", folder,
            training ? "data_batch_1.bin" : "test_batch.bin", training ? "train.bin" : "test.bin");
  ull__error_holder("--data cifar:%s", folder);
  return ull__error_change("give the folder that holds the binary version's .bin files");
}

static ull_status open_below(ull_source *source, const char *folder, const char *below,
                             bool training) {
  cifar *cifar = source->state;
  char *path = below[0] == '\0' ? ull__strdup(folder) : ull__path_join(folder, below);
  if (path == NULL) return ull_error_last()->status;
  ull_status status = add_files(cifar, path, training);
  if (status == ULL_OK && cifar->file_count > 0) status = read_names(source, cifar, path);
  ull__free(path);
  return status;
}

static ull_status open_cifar(ull_source *source, const char *folder,
                             const ull_source_options *options) {
  static const char *const places[] = {"", "cifar-10-batches-bin", "cifar-100-binary"};
  static const int64_t shape[3] = {3, 32, 32};
  cifar *cifar = ull__alloc(1, sizeof *cifar);
  if (cifar == NULL) return ull_error_last()->status;
  source->state = cifar;
  source->resident_bytes += sizeof *cifar + sizeof *source;
  source->has_evaluation = true;
  bool training = options->split == ULL_SPLIT_TRAIN || options->val_split > 0;
  for (size_t i = 0; i < sizeof places / sizeof places[0] && cifar->file_count == 0; i++)
    ULL__TRY(open_below(source, folder, places[i], training));
  if (cifar->file_count == 0) return not_there(folder, training);
  source->stored_count = cifar->first[cifar->file_count];
  ULL__TRY(ull__source_add_array(source, "image", ULL_UINT8, 3, shape));
  return ull__source_add_array(source, "label", ULL_UINT8, 0, NULL);
}

static void close_cifar(ull_source *source) {
  cifar *cifar = source->state;
  for (int i = 0; i < cifar->file_count; i++) ull__data_file_close(&cifar->files[i]);
  ull__free(cifar);
  source->state = NULL;
}

static ull_status read_one(const cifar *cifar, uint64_t sample, size_t array, uint8_t *to) {
  int file = 0;
  while (sample >= cifar->first[file + 1]) file++;
  ull__content content = {.file = &cifar->files[file], .bytes = cifar->files[file].bytes};
  uint64_t at = (sample - cifar->first[file]) * record_bytes(cifar);
  if (array == ARRAY_IMAGE)
    return ull__content_read(&content, at + (uint64_t)cifar->label_bytes, to, PIXELS);
  return ull__content_read(&content, at + (uint64_t)cifar->label_bytes - 1, to, 1);
}

static ull_status read_cifar(const ull_source *source, uint64_t first, uint64_t count, size_t array,
                             void *bytes) {
  uint8_t *to = bytes;
  for (uint64_t i = 0; i < count; i++)
    ULL__TRY(
        read_one(source->state, first + i, array, to + i * source->arrays[array].sample_bytes));
  return ULL_OK;
}

static void name_class(const ull_source *source, uint64_t number, char *buffer, size_t bytes) {
  const cifar *cifar = source->state;
  snprintf(buffer, bytes, "%s", cifar->names[number]);
}

static void name_sample(const ull_source *source, uint64_t stored, char *buffer, size_t bytes) {
  const cifar *cifar = source->state;
  int file = 0;
  while (stored >= cifar->first[file + 1]) file++;
  snprintf(buffer, bytes, "%s:%" PRIu64, cifar->files[file].path, stored - cifar->first[file]);
}

const ull__source_kind ull__source_cifar = {
    .scheme = "cifar",
    .argument = "DIR",
    .open = open_cifar,
    .read = read_cifar,
    .name_sample = name_sample,
    .name_class = name_class,
    .training_decides = true,
    .close = close_cifar,
};
