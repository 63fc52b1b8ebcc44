/* What a folder is, told by the names directly below it. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "data/folder/folder.h"

static bool has_folder(int root, const char *name) {
  struct stat about;
  return fstatat(root, name, &about, 0) == 0 && S_ISDIR(about.st_mode);
}

/* The name of the part for evaluation below `above` ("" or "images/"), or NULL. */
static const char *evaluation_part(int root, const char *above) {
  static const char *const names[] = {"val", "valid", "validation", "test"};
  char path[ULL__FOLDER_PART];
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    snprintf(path, sizeof path, "%s%s", above, names[i]);
    if (has_folder(root, path)) return names[i];
  }
  return NULL;
}

static ull_status no_evaluation(const ull_source *source) {
  ULL__FAIL(ULL_ERROR_DATA, "%s: has train/ but no val/", source->text);
  ull__error_holder("%s", source->text);
  return ull__error_change("hold samples out with --val-split 0.1, or give --val-data");
}

/* "" where the samples are not divided. */
static ull_status choose_part(const ull_source *source, int root, const char *above,
                              const ull_source_options *options, const char **part,
                              bool *has_evaluation) {
  char train[ULL__FOLDER_PART];
  snprintf(train, sizeof train, "%strain", above);
  *part = "";
  *has_evaluation = false;
  if (!has_folder(root, train)) return ULL_OK;
  const char *evaluation = evaluation_part(root, above);
  *has_evaluation = evaluation != NULL;
  bool training = options->split == ULL_SPLIT_TRAIN || options->val_split > 0;
  if (!training && evaluation == NULL) return no_evaluation(source);
  *part = training ? "train" : evaluation;
  return ULL_OK;
}

static bool has_pairs(int root, const char *part, ull__folder_layout *layout) {
  const char *slash = *part ? "/" : "";
  snprintf(layout->part, sizeof layout->part, "%s%simages", part, slash);
  snprintf(layout->masks, sizeof layout->masks, "%s%smasks", part, slash);
  layout->pairs = has_folder(root, layout->part) && has_folder(root, layout->masks);
  return layout->pairs;
}

/* images/train beside masks/train. */
static ull_status divide_pairs(const ull_source *source, int root,
                               const ull_source_options *options, ull__folder_layout *layout) {
  const char *part;
  ULL__TRY(choose_part(source, root, "images/", options, &part, &layout->has_evaluation));
  if (*part == '\0') return ULL_OK;
  snprintf(layout->part, sizeof layout->part, "images/%s", part);
  snprintf(layout->masks, sizeof layout->masks, "masks/%s", part);
  return ULL_OK;
}

ull_status ull__folder_look(const ull_source *source, int root, const ull_source_options *options,
                            ull__folder_layout *layout) {
  *layout = (ull__folder_layout){0};
  const char *part;
  ULL__TRY(choose_part(source, root, "", options, &part, &layout->has_evaluation));
  if (has_pairs(root, part, layout))
    return *part ? ULL_OK : divide_pairs(source, root, options, layout);
  snprintf(layout->part, sizeof layout->part, "%s", part);
  snprintf(layout->classes, sizeof layout->classes, "%s", *part ? "train" : "");
  return ULL_OK;
}
