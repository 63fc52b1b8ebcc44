/* Images find their masks by name: the same path below images/ and masks/ without the ending, or
 * with "_mask" behind it. What has no partner is left out and counted; two masks for one image are
 * refused. */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash_map.h"
#include "data/folder/folder.h"

enum { IMAGES, MASKS };

/* "below/the/root/name" without ending and, of masks, without "_mask". */
static const char *stem_of(const ull__tree *tree, const ull__tree_file *file, size_t above,
                           char *stem, size_t room) {
  const char *folder = tree->texts.items + tree->folders.items[file->folder].path;
  const char *name = tree->texts.items + file->name;
  size_t folder_bytes = strlen(folder), name_bytes = (size_t)(strrchr(name, '.') - name);
  folder += above < folder_bytes ? above : folder_bytes;
  folder_bytes = strlen(folder);
  if (tree->folders.items[file->folder].group == MASKS && name_bytes > 5 &&
      memcmp(name + name_bytes - 5, "_mask", 5) == 0)
    name_bytes -= 5;
  if (folder_bytes + 1 + name_bytes + 1 > room) return NULL;
  memcpy(stem, folder, folder_bytes);
  stem[folder_bytes] = '/';
  memcpy(stem + folder_bytes + 1, name, name_bytes);
  stem[folder_bytes + 1 + name_bytes] = '\0';
  return stem;
}

static ull_status two_masks(const ull__tree *tree, const char *stem) {
  ULL__FAIL(ULL_ERROR_DATA, "%s: there are two masks for %s", tree->root_path,
            stem[0] == '/' ? stem + 1 : stem);
  ull__error_holder("%s", tree->root_path);
  return ull__error_change("keep one of them");
}

static ull_status map_masks(const ull__tree *tree, const ull__folder_layout *layout,
                            ull__text_map *map) {
  char stem[ULL__TREE_PATH + 512];
  for (size_t i = 0; i < tree->files.count; i++) {
    const ull__tree_file *file = &tree->files.items[i];
    if (tree->folders.items[file->folder].group != MASKS ||
        stem_of(tree, file, strlen(layout->masks), stem, sizeof stem) == NULL)
      continue;
    if (ull__text_map_find(map, stem) != NULL) return two_masks(tree, stem);
    ULL__TRY(ull__text_map_put(map, stem, i));
  }
  return ULL_OK;
}

static ull_status match(ull__tree *tree, const ull__folder_layout *layout, const ull__text_map *map,
                        ull__folder_masks *masks, uint64_t *lone_images) {
  char stem[ULL__TREE_PATH + 512];
  size_t kept = 0;
  for (size_t i = 0; i < tree->files.count; i++) {
    ull__tree_file file = tree->files.items[i];
    if (tree->folders.items[file.folder].group != IMAGES) continue;
    const char *found = stem_of(tree, &file, strlen(layout->part), stem, sizeof stem);
    const uint64_t *mask = found != NULL ? ull__text_map_find(map, stem) : NULL;
    if (mask == NULL) {
      ++*lone_images;
      continue;
    }
    ULL__TRY(ull__vector_push(masks, tree->files.items[*mask]));
    tree->files.items[kept++] = file;
  }
  tree->files.count = kept;
  return ULL_OK;
}

/* Images come before masks in the tree's order, so that kept images overwrite images alone. */
ull_status ull__folder_match(ull__tree *tree, const ull__folder_layout *layout,
                             ull__folder_masks *masks, uint64_t *lone_images,
                             uint64_t *lone_masks) {
  ull__text_map map = {0};
  ull_status status = map_masks(tree, layout, &map);
  if (status == ULL_OK) status = match(tree, layout, &map, masks, lone_images);
  if (status == ULL_OK) *lone_masks = map.count >= masks->count ? map.count - masks->count : 0;
  ull__text_map_free(&map);
  return status;
}
