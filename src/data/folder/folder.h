/* A folder as a source: what its parts mean (layout), the index of them (build), and access to
 * samples (folder). */
#ifndef ULL_DATA_FOLDER_FOLDER_H
#define ULL_DATA_FOLDER_FOLDER_H

#include "data/folder/tree.h"
#include "data/index_file.h"
#include "data/source.h"

typedef enum ull__folder_kind {
  ULL__FOLDER_CLASSES, /* one folder a class */
  ULL__FOLDER_FLAT,    /* pictures without labels */
  ULL__FOLDER_PAIRS,   /* images/ and masks/ */
} ull__folder_kind;

enum { ULL__FOLDER_VERSION = 1, ULL__FOLDER_PART = 32 };

/* Sections and numbers of the index. */
enum {
  ULL__FOLDER_FOLDERS, /* ull__tree_folder */
  ULL__FOLDER_FILES,   /* ull__tree_file, one a sample */
  ULL__FOLDER_MASKS,   /* ull__tree_file, one a sample, of pairs */
  ULL__FOLDER_CLASSES_SECTION,
  ULL__FOLDER_TEXTS,
};
enum {
  ULL__FOLDER_KIND,
  ULL__FOLDER_IGNORED,
  ULL__FOLDER_IGNORED_NAME,
  ULL__FOLDER_LOOPS,
  ULL__FOLDER_LONE_IMAGES, /* without a mask */
  ULL__FOLDER_LONE_MASKS,
};

typedef struct ull__folder_class {
  uint32_t name; /* in the texts */
  uint32_t present;
  uint64_t samples;
} ull__folder_class;

/* Which folders below the root are read. */
typedef struct ull__folder_layout {
  bool pairs;
  bool has_evaluation;
  char part[ULL__FOLDER_PART];  /* "" or "train", "val", ...: where samples are; of pairs, images */
  char masks[ULL__FOLDER_PART]; /* of pairs */
  char classes[ULL__FOLDER_PART]; /* the folder whose sub-folders number the classes */
} ull__folder_layout;

/* Looks at the names directly below the root. */
ull_status ull__folder_look(const ull_source *source, int root, const ull_source_options *options,
                            ull__folder_layout *layout);

/* Scans and makes the index. `root_path` as in messages; `place` may be NULL. */
ull_status ull__folder_build(ull_source *source, const ull_source_options *options, int root,
                             const ull__folder_layout *layout, const char *place,
                             ull__index *index);

/* Finds the mask of every image of `tree` (folders of group 0 below layout->part) among its masks
 * (group 1). Afterwards the tree's files are the matched images, in order, and `masks` theirs. */
typedef ULL__VECTOR(ull__tree_file) ull__folder_masks;
ull_status ull__folder_match(ull__tree *tree, const ull__folder_layout *layout,
                             ull__folder_masks *masks, uint64_t *lone_images, uint64_t *lone_masks);

/* Whether every folder that was listed is as it was. */
bool ull__folder_is_current(const ull__index *index, int root);

#endif
