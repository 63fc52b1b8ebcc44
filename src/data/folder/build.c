/* From a scan to an index. Classes are numbered by their folders' names, sorted by bytes; those of
 * an evaluation part are numbered as training numbers them, so that a class that has no pictures to
 * evaluate shifts nothing. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "data/folder/folder.h"

typedef struct build {
  ull_source *source;
  const ull__folder_layout *layout;
  ull__tree tree;
  ull__tree_names names, listed;
  ULL__VECTOR(ull__folder_class) classes;
  ull__folder_masks masks;
  uint64_t lone_images, lone_masks;
  ull__folder_kind kind;
} build;

static const char *text_at(const build *build, uint32_t at) {
  return build->tree.texts.items + at;
}

static ull_status unknown_class(const build *build, const char *name) {
  const ull__folder_layout *layout = build->layout;
  ULL__FAIL(ULL_ERROR_DATA, "%s: %s/ has the class '%s', which %s/ has not", build->source->text,
            layout->part, name, layout->classes);
  ull__error_holder("%s/%s/%s", build->source->text, layout->part, name);
  return ull__error_change("rename or remove that folder");
}

/* Names and listed names are sorted: one pass tells which classes the part has. */
static ull_status match_classes(build *build) {
  size_t at = 0;
  for (size_t i = 0; i < build->names.count; i++) {
    ull__folder_class class = {.name = build->names.items[i]};
    const char *name = text_at(build, class.name);
    int order =
        at < build->listed.count ? strcmp(text_at(build, build->listed.items[at]), name) : 1;
    if (order < 0) break;
    class.present = order == 0;
    at += class.present;
    ULL__TRY(ull__vector_push(&build->classes, class));
  }
  if (at == build->listed.count) return ULL_OK;
  return unknown_class(build, text_at(build, build->listed.items[at]));
}

static ull_status list_classes(build *build) {
  const ull__folder_layout *layout = build->layout;
  ULL__TRY(ull__tree_list(&build->tree, layout->classes, &build->names));
  ULL__TRY(ull__tree_list(&build->tree, layout->part, &build->listed));
  return match_classes(build);
}

static ull_status scan_classes(build *build) {
  const char *part = build->layout->part;
  for (size_t i = 0; i < build->classes.count; i++) {
    ull__folder_class *class = &build->classes.items[i];
    if (!class->present) continue;
    char path[ULL__FOLDER_PART + 512];
    snprintf(path, sizeof path, "%s%s%s", part, *part ? "/" : "", text_at(build, class->name));
    size_t before = build->tree.files.count;
    ULL__TRY(ull__tree_add(&build->tree, path, (uint32_t)i, true));
    class->samples = build->tree.files.count - before;
  }
  return ULL_OK;
}

/* Pictures beside class folders belong to no class; without classes they are what there is. */
static ull_status scan_top(build *build) {
  ull__tree *tree = &build->tree;
  size_t files = tree->files.count, folders = tree->folders.count;
  ULL__TRY(ull__tree_add(tree, build->layout->part, 0, false));
  size_t found = tree->files.count - files;
  if (files == 0 && found > 0) {
    build->kind = ULL__FOLDER_FLAT;
    build->classes.count = 0;
    return ULL_OK;
  }
  if (found > 0 && tree->ignored++ == 0) tree->ignored_name = tree->files.items[files].name;
  if (found > 1) tree->ignored += found - 1;
  tree->files.count = files;
  if (folders < tree->folders.count) tree->folders.items[folders].file_count = 0;
  return ULL_OK;
}

static ull_status scan(build *build) {
  const ull__folder_layout *layout = build->layout;
  if (!layout->pairs) {
    ULL__TRY(list_classes(build));
    ULL__TRY(scan_classes(build));
    ULL__TRY(scan_top(build));
    ULL__TRY(ull__tree_list(&build->tree, "", NULL));
    return ull__tree_sort(&build->tree);
  }
  build->kind = ULL__FOLDER_PAIRS;
  ULL__TRY(ull__tree_add(&build->tree, layout->part, 0, true));
  ULL__TRY(ull__tree_add(&build->tree, layout->masks, 1, true));
  ULL__TRY(ull__tree_list(&build->tree, "", NULL));
  ULL__TRY(ull__tree_sort(&build->tree));
  return ull__folder_match(&build->tree, layout, &build->masks, &build->lone_images,
                           &build->lone_masks);
}

static bool is_fresh(const build *build, int64_t now_ns) {
  for (size_t i = 0; i < build->tree.folders.count; i++) {
    if (ull__stamp_is_fresh(&build->tree.folders.items[i].stamp, now_ns)) return true;
  }
  return false;
}

static ull_status no_pictures(const build *build) {
  ULL__FAIL(ULL_ERROR_DATA, "%s%s%s: holds no pictures (.jpg, .jpeg, .png, .webp)",
            build->source->text, build->layout->part[0] ? "/" : "", build->layout->part);
  ull__error_holder("%s", build->source->text);
  return ull__error_change("give a folder with one sub-folder of pictures for each class");
}

static ull_status make(const build *build, const ull_source_options *options, const char *place,
                       int64_t began_ns, ull__index *index) {
  const ull__tree *tree = &build->tree;
  if (tree->files.count == 0) return no_pictures(build);
  ull__index_parts parts = {0};
  parts.numbers[ULL__FOLDER_KIND] = build->kind;
  parts.numbers[ULL__FOLDER_IGNORED] = tree->ignored;
  parts.numbers[ULL__FOLDER_IGNORED_NAME] = tree->ignored_name;
  parts.numbers[ULL__FOLDER_LOOPS] = tree->loops;
  parts.numbers[ULL__FOLDER_LONE_IMAGES] = build->lone_images;
  parts.numbers[ULL__FOLDER_LONE_MASKS] = build->lone_masks;
#define PART(section, vector)                    \
  parts.sections[section].data = (vector).items; \
  parts.sections[section].bytes = (vector).count * sizeof(vector).items[0]
  PART(ULL__FOLDER_FOLDERS, tree->folders);
  PART(ULL__FOLDER_FILES, tree->files);
  PART(ULL__FOLDER_MASKS, build->masks);
  PART(ULL__FOLDER_CLASSES_SECTION, build->classes);
  PART(ULL__FOLDER_TEXTS, tree->texts);
#undef PART
  bool keep = tree->files.count * sizeof tree->files.items[0] + tree->texts.count >=
                  ULL__INDEX_WORTH_KEEPING &&
              !is_fresh(build, began_ns);
  return ull__index_make(build->source, options, keep ? place : NULL, ULL__FOLDER_VERSION, &parts,
                         index);
}

ull_status ull__folder_build(ull_source *source, const ull_source_options *options, int root,
                             const ull__folder_layout *layout, const char *place,
                             ull__index *index) {
  int64_t began_ns = ull__stamp_now_ns();
  build build = {.source = source, .layout = layout};
  build.tree.root = root;
  build.tree.root_path = source->text;
  ull_status status = scan(&build);
  if (status == ULL_OK) status = make(&build, options, place, began_ns, index);
  ull__tree_free(&build.tree);
  ull__vector_free(&build.names);
  ull__vector_free(&build.listed);
  ull__vector_free(&build.classes);
  ull__vector_free(&build.masks);
  return status;
}

bool ull__folder_is_current(const ull__index *index, int root) {
  uint64_t bytes = index->header.sections[ULL__FOLDER_FOLDERS].bytes;
  char path[ULL__TREE_PATH];
  ull__tree_folder folder;
  for (uint64_t at = 0; at < bytes; at += sizeof folder) {
    struct stat about;
    if (ull__index_read(index, ULL__FOLDER_FOLDERS, at, &folder, sizeof folder) != ULL_OK ||
        ull__index_text(index, ULL__FOLDER_TEXTS, folder.path, path, sizeof path) != ULL_OK)
      return false;
    if (fstatat(root, *path ? path : ".", &about, 0) != 0 || !S_ISDIR(about.st_mode)) return false;
    ull__stamp now = ull__stamp_of(&about);
    if (!ull__stamp_equal(&now, &folder.stamp)) return false;
  }
  return true;
}
