/* The pictures below a folder, listed once: names in one run of bytes, 32-bit offsets, an order
 * that does not depend on the file system's.
 *
 * Pictures are known by the ends of their names (.jpg .jpeg .jpe .jfif .png .webp in any case);
 * what they are is the decoder's to find out. Names that begin with a dot are left out. Symbolic
 * links are followed; a folder that is its own ancestor is not entered again. */
#ifndef ULL_DATA_FOLDER_TREE_H
#define ULL_DATA_FOLDER_TREE_H

#include "base/vector.h"
#include "data/index_file.h"

enum { ULL__TREE_DEPTH = 32, ULL__TREE_PATH = 4096 };

typedef struct ull__tree_file {
  uint32_t name;   /* in the texts, without folder */
  uint32_t folder; /* number of a folder */
} ull__tree_file;

typedef struct ull__tree_folder {
  uint32_t path; /* in the texts; below the root, "" for the root itself */
  uint32_t group;
  uint32_t first_file, file_count; /* while scanning */
  ull__stamp stamp;
} ull__tree_folder;

typedef struct ull__tree {
  int root; /* descriptor, borrowed */
  const char *root_path;
  ull__index_texts texts;
  ULL__VECTOR(ull__tree_file) files;
  ULL__VECTOR(ull__tree_folder) folders;
  uint64_t ignored;      /* files that are no pictures by name or kind */
  uint32_t ignored_name; /* the first of them in order, where ignored > 0 */
  uint64_t loops;
  struct {
    uint64_t device, inode;
  } ancestors[ULL__TREE_DEPTH + 1];
} ull__tree;

/* Whether decoders exist for what a name promises. */
bool ull__is_picture_name(const char *name);

/* Adds the folder `path` below the root and all below it. `group` is given to every folder. A
 * folder that is absent adds nothing. `deep` false: this folder alone. */
ull_status ull__tree_add(ull__tree *tree, const char *path, uint32_t group, bool deep);

/* The names of the folders directly below `path`, sorted by bytes, as offsets into the texts. Adds
 * the folder itself, without files, for its stamp; `names` NULL: that alone. */
typedef ULL__VECTOR(uint32_t) ull__tree_names;
ull_status ull__tree_list(ull__tree *tree, const char *path, ull__tree_names *names);

/* Files by (group, folder, name), folders by (group, path), by bytes. */
ull_status ull__tree_sort(ull__tree *tree);

void ull__tree_free(ull__tree *tree);

#endif
