/* A folder of pictures. Samples lie in the order of their classes, folders and names, by bytes, so
 * that the same files have the same numbers everywhere.
 *
 * The root stays open, so that later changes of the working directory do not matter; pictures are
 * opened one at a time, when they are needed. A picture that is gone by then is that sample's
 * fault; new ones are seen at the next open. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "data/folder/folder.h"

enum { NAMED_CLASSES = 5, LABEL_RUN = 512, KEY_BYTES = PATH_MAX + 16 };

typedef struct folder {
  int root;
  ull__index index;
} folder;

enum { ARRAY_IMAGE, ARRAY_OTHER /* label or mask */ };

static ull__folder_kind kind_of(const folder *folder) {
  return (ull__folder_kind)folder->index.header.numbers[ULL__FOLDER_KIND];
}

/* ---- opening ---- */

static ull_status open_root(const char *path, int *root) {
  *root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (*root >= 0) return ULL_OK;
  ULL__FAIL(ULL_ERROR_DATA, "%s: cannot be opened: %s", path, strerror(errno));
  ull__error_holder("--data %s", path);
  return ull__error_change("check the path given with --data");
}

static ull_status find_place(const char *path, const ull__folder_layout *layout, char **place) {
  char key[KEY_BYTES + 2 * ULL__FOLDER_PART] = "", real[PATH_MAX];
  *place = NULL;
  if (realpath(path, real) == NULL) return ULL_OK;
  int bytes = snprintf(key, sizeof key, "%s%c%s%c%s", real, '\0', layout->part, '\0',
                       layout->pairs ? layout->masks : layout->classes);
  return ull__index_place("folder", key, (size_t)bytes, place);
}

static ull_status find_index(ull_source *source, folder *folder, const ull_source_options *options,
                             const ull__folder_layout *layout) {
  char *place = NULL;
  ULL__TRY(find_place(source->text, layout, &place));
  ull_status status = ULL_OK;
  bool found = ull__index_find(place, ULL__FOLDER_VERSION, &folder->index);
  if (!found || !ull__folder_is_current(&folder->index, folder->root)) {
    ull__index_close(&folder->index);
    ull_error_clear();
    status = ull__folder_build(source, options, folder->root, layout, place, &folder->index);
  }
  ull__free(place);
  return status;
}

static ull_status read_class(const folder *folder, uint64_t class, ull__folder_class *out) {
  return ull__index_read(&folder->index, ULL__FOLDER_CLASSES_SECTION, class * sizeof *out, out,
                         sizeof *out);
}

static void name_class(const ull_source *source, uint64_t class, char *buffer, size_t bytes) {
  const folder *folder = source->state;
  ull__folder_class about;
  buffer[0] = '\0';
  if (read_class(folder, class, &about) != ULL_OK) return;
  ull__index_text(&folder->index, ULL__FOLDER_TEXTS, about.name, buffer, bytes);
}

/* Classes whose folder is there and holds nothing keep their number, and are said. */
static void report_empty_classes(const ull_source *source) {
  char list[512] = "", name[256];
  uint64_t empty = 0;
  size_t used = 0;
  for (uint64_t c = 0; c < source->class_count; c++) {
    ull__folder_class class;
    if (read_class(source->state, c, &class) != ULL_OK) return;
    if (!class.present || class.samples > 0) continue;
    if (empty++ >= NAMED_CLASSES || used >= sizeof list) continue;
    name_class(source, c, name, sizeof name);
    used += (size_t)snprintf(list + used, sizeof list - used, "%s'%s' (%" PRIu64 ")",
                             used ? ", " : "", name, c);
  }
  if (empty == 0) return;
  ULL__LOG_WARNING("%s: %" PRIu64 " class folder%s hold%s no pictures and count%s as class%s: %s%s",
                   source->text, empty, empty == 1 ? "" : "s", empty == 1 ? "s" : "",
                   empty == 1 ? "s" : "", empty == 1 ? "" : "es", list,
                   empty > NAMED_CLASSES ? ", ..." : "");
}

static void report(const ull_source *source) {
  const folder *folder = source->state;
  const uint64_t *numbers = folder->index.header.numbers;
  char name[256] = "";
  report_empty_classes(source);
  if (numbers[ULL__FOLDER_IGNORED] > 0) {
    ull__index_text(&folder->index, ULL__FOLDER_TEXTS, numbers[ULL__FOLDER_IGNORED_NAME], name,
                    sizeof name);
    ULL__LOG_WARNING("%s: %" PRIu64
                     " files are left out: by name, place or kind they are no pictures of "
                     "the set (the first: %s)",
                     source->text, numbers[ULL__FOLDER_IGNORED], name);
  }
  if (numbers[ULL__FOLDER_LOOPS] > 0)
    ULL__LOG_WARNING("%s: %" PRIu64 " links lead back to a folder above them and are not followed",
                     source->text, numbers[ULL__FOLDER_LOOPS]);
  if (numbers[ULL__FOLDER_LONE_IMAGES] + numbers[ULL__FOLDER_LONE_MASKS] > 0)
    ULL__LOG_WARNING(
        "%s: left out: %" PRIu64 " images without a mask, %" PRIu64 " masks without an image",
        source->text, numbers[ULL__FOLDER_LONE_IMAGES], numbers[ULL__FOLDER_LONE_MASKS]);
}

static void write_note(ull_source *source) {
  if (kind_of(source->state) == ULL__FOLDER_CLASSES)
    snprintf(source->note, sizeof source->note, "%" PRIu64 " classes", source->class_count);
  else
    snprintf(source->note, sizeof source->note, "%s",
             kind_of(source->state) == ULL__FOLDER_PAIRS ? "pairs with masks" : "no labels");
}

static ull_status describe(ull_source *source) {
  folder *folder = source->state;
  const ull__index_header *header = &folder->index.header;
  source->stored_count = header->sections[ULL__FOLDER_FILES].bytes / sizeof(ull__tree_file);
  ULL__TRY(ull__source_add_encoded(source, "image", ULL_CONTENT_IMAGE));
  if (kind_of(folder) == ULL__FOLDER_PAIRS)
    return ull__source_add_encoded(source, "mask", ULL_CONTENT_MASK);
  if (kind_of(folder) == ULL__FOLDER_FLAT) return ULL_OK;
  source->class_count =
      header->sections[ULL__FOLDER_CLASSES_SECTION].bytes / sizeof(ull__folder_class);
  return ull__source_add_array(source, "label", ULL_INT64, 0, NULL);
}

static ull_status open_folder(ull_source *source, const char *path,
                              const ull_source_options *options) {
  folder *folder = ull__alloc(1, sizeof *folder);
  if (folder == NULL) return ull_error_last()->status;
  source->state = folder;
  source->resident_bytes += sizeof *folder + sizeof *source;
  folder->root = -1;
  folder->index.file.descriptor = -1;
  ull__folder_layout layout;
  ULL__TRY(open_root(path, &folder->root));
  ULL__TRY(ull__folder_look(source, folder->root, options, &layout));
  source->has_evaluation = layout.has_evaluation;
  ULL__TRY(find_index(source, folder, options, &layout));
  ULL__TRY(describe(source));
  write_note(source);
  report(source);
  return ULL_OK;
}

static void close_folder(ull_source *source) {
  folder *folder = source->state;
  ull__index_close(&folder->index);
  if (folder->root >= 0) close(folder->root);
  ull__free(folder);
  source->state = NULL;
}

/* ---- samples ---- */

/* The path below the root. */
static ull_status locate(const folder *folder, uint64_t stored, size_t array, char *path,
                         size_t room) {
  const ull__index *index = &folder->index;
  int section = array == ARRAY_IMAGE ? ULL__FOLDER_FILES : ULL__FOLDER_MASKS;
  ull__tree_file file;
  ull__tree_folder in;
  ULL__TRY(ull__index_read(index, section, stored * sizeof file, &file, sizeof file));
  ULL__TRY(ull__index_read(index, ULL__FOLDER_FOLDERS, file.folder * sizeof in, &in, sizeof in));
  ULL__TRY(ull__index_text(index, ULL__FOLDER_TEXTS, in.path, path, room - 258));
  size_t used = strlen(path);
  if (used > 0) path[used++] = '/';
  return ull__index_text(index, ULL__FOLDER_TEXTS, file.name, path + used, room - used);
}

static ull_status open_record(const ull_source *source, uint64_t stored, size_t array,
                              ull__record *record) {
  const folder *folder = source->state;
  char path[ULL__TREE_PATH + 256];
  *record = (ull__record){.descriptor = -1};
  ULL__TRY(locate(folder, stored, array, path, sizeof path));
  snprintf(record->path, sizeof record->path, "%s/%s", source->text, path);
  return ull__record_open_file(record, folder->root, path);
}

static void name_sample(const ull_source *source, uint64_t stored, char *buffer, size_t bytes) {
  char path[ULL__TREE_PATH + 256];
  if (locate(source->state, stored, ARRAY_IMAGE, path, sizeof path) != ULL_OK) path[0] = '\0';
  snprintf(buffer, bytes, "%s/%s", source->text, path);
}

/* Labels follow from the folders; samples of one folder lie together. */
static ull_status read_labels(const ull_source *source, uint64_t first, uint64_t count,
                              size_t array, void *bytes) {
  const folder *folder = source->state;
  int64_t *labels = bytes;
  (void)array;
  ull__tree_file files[LABEL_RUN];
  ull__tree_folder in = {0};
  uint32_t known = UINT32_MAX;
  while (count > 0) {
    size_t run = count < LABEL_RUN ? (size_t)count : LABEL_RUN;
    ULL__TRY(ull__index_read(&folder->index, ULL__FOLDER_FILES, first * sizeof files[0], files,
                             run * sizeof files[0]));
    for (size_t i = 0; i < run; i++) {
      if (files[i].folder != known)
        ULL__TRY(ull__index_read(&folder->index, ULL__FOLDER_FOLDERS, files[i].folder * sizeof in,
                                 &in, sizeof in));
      known = files[i].folder;
      int64_t label = in.group;
      memcpy(&labels[i], &label, sizeof label);
    }
    labels += run;
    first += run;
    count -= run;
  }
  return ULL_OK;
}

const ull__source_kind ull__source_folder = {
    .scheme = "",
    .argument = "a folder",
    .open = open_folder,
    .read = read_labels,
    .open_record = open_record,
    .name_sample = name_sample,
    .name_class = name_class,
    .training_decides = true,
    .close = close_folder,
};
