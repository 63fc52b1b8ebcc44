/* One folder is open at a time, whatever the depth: its entries are listed first, then the folders
 * in it are entered. What the file system lists first shows nowhere: everything is sorted at the
 * end, and counts do not depend on order. */
#include "data/folder/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"

bool ull__is_picture_name(const char *name) {
  static const char *const ends[] = {"jpg", "jpeg", "png", "webp", "jpe", "jfif"};
  const char *dot = strrchr(name, '.');
  if (dot == NULL) return false;
  for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
    if (strcasecmp(dot + 1, ends[i]) == 0) return true;
  }
  return false;
}

static ull_status append_text(ull__tree *tree, const char *text, uint32_t *at) {
  return ull__index_add_text(&tree->texts, tree->root_path, text, strlen(text), at);
}

static ull_status cannot_list(const ull__tree *tree, const char *path, int error) {
  ULL__FAIL(error == ENOMEM ? ULL_ERROR_OUT_OF_MEMORY : ULL_ERROR_DATA,
            "%s%s%s: the folder cannot be listed: %s", tree->root_path, *path ? "/" : "", path,
            strerror(error));
  return ull__error_holder("%s%s%s", tree->root_path, *path ? "/" : "", path);
}

/* NULL with *error 0 where the folder is gone. */
static DIR *open_folder(const ull__tree *tree, const char *path, struct stat *about, int *error) {
  *error = 0;
  int descriptor =
      openat(tree->root, *path ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    *error = errno == ENOENT || errno == ENOTDIR ? 0 : errno;
    return NULL;
  }
  DIR *folder = fstat(descriptor, about) == 0 ? fdopendir(descriptor) : NULL;
  if (folder == NULL) {
    *error = errno;
    close(descriptor);
  }
  return folder;
}

typedef enum entry_kind { ENTRY_FILE, ENTRY_FOLDER, ENTRY_OTHER } entry_kind;

static entry_kind kind_of(DIR *folder, const struct dirent *entry) {
  if (entry->d_type == DT_REG) return ENTRY_FILE;
  if (entry->d_type == DT_DIR) return ENTRY_FOLDER;
  if (entry->d_type != DT_LNK && entry->d_type != DT_UNKNOWN) return ENTRY_OTHER;
  struct stat about;
  /* A link that leads nowhere is a file that cannot be read, and gets that verdict. */
  if (fstatat(dirfd(folder), entry->d_name, &about, 0) != 0) return ENTRY_FILE;
  return S_ISDIR(about.st_mode) ? ENTRY_FOLDER : S_ISREG(about.st_mode) ? ENTRY_FILE : ENTRY_OTHER;
}

static ull_status add_ignored(ull__tree *tree, const char *name) {
  if (tree->ignored++ > 0 && strcmp(name, tree->texts.items + tree->ignored_name) >= 0)
    return ULL_OK;
  return append_text(tree, name, &tree->ignored_name);
}

static ull_status add_file(ull__tree *tree, uint32_t folder, const char *name) {
  if (!ull__is_picture_name(name)) return add_ignored(tree, name);
  if (tree->files.count >= UINT32_MAX - 1) {
    return ULL__FAIL(ULL_ERROR_UNSUPPORTED, "%s: has more than 2^32 files", tree->root_path);
  }
  ull__tree_file file = {.folder = folder};
  ULL__TRY(append_text(tree, name, &file.name));
  tree->folders.items[folder].file_count++;
  return ull__vector_push(&tree->files, file);
}

/* Reads all entries; folders go to `below` as texts, files into the tree where `takes_files`. */
static ull_status read_entries(ull__tree *tree, DIR *folder, const char *path, uint32_t number,
                               bool takes_files, ull__tree_names *below) {
  for (;;) {
    errno = 0;
    struct dirent *entry = readdir(folder);
    if (entry == NULL) return errno ? cannot_list(tree, path, errno) : ULL_OK;
    if (entry->d_name[0] == '.') continue;
    entry_kind kind = kind_of(folder, entry);
    if (kind == ENTRY_FILE && takes_files) ULL__TRY(add_file(tree, number, entry->d_name));
    if (kind == ENTRY_OTHER && takes_files) ULL__TRY(add_ignored(tree, entry->d_name));
    if (kind != ENTRY_FOLDER || below == NULL) continue;
    uint32_t at;
    ULL__TRY(append_text(tree, entry->d_name, &at));
    ULL__TRY(ull__vector_push(below, at));
  }
}

static bool is_ancestor(const ull__tree *tree, const struct stat *about, int depth) {
  for (int i = 0; i < depth; i++) {
    if (tree->ancestors[i].device == (uint64_t)about->st_dev &&
        tree->ancestors[i].inode == (uint64_t)about->st_ino)
      return true;
  }
  return false;
}

static ull_status push_folder(ull__tree *tree, const char *path, uint32_t group,
                              const struct stat *about, uint32_t *number) {
  ull__tree_folder folder = {.group = group, .stamp = ull__stamp_of(about)};
  folder.first_file = (uint32_t)tree->files.count;
  *number = (uint32_t)tree->folders.count;
  ULL__TRY(append_text(tree, path, &folder.path));
  return ull__vector_push(&tree->folders, folder);
}

typedef struct walk {
  ull__tree *tree;
  uint32_t group;
  bool deep;
  char path[ULL__TREE_PATH]; /* of the folder that is entered */
} walk;

static ull_status enter(walk *walk, size_t length, int depth);

static ull_status enter_below(walk *walk, size_t length, int depth, uint32_t name_at) {
  const char *name = walk->tree->texts.items + name_at;
  size_t bytes = strlen(name), begin = length > 0 ? length + 1 : 0;
  if (depth + 1 > ULL__TREE_DEPTH || begin + bytes + 256 > sizeof walk->path) {
    ULL__FAIL(ULL_ERROR_UNSUPPORTED, "%s/%s/%s: folders are nested too deeply",
              walk->tree->root_path, walk->path, name);
    return ull__error_holder("%s", walk->tree->root_path);
  }
  if (length > 0) walk->path[length] = '/';
  memcpy(walk->path + begin, name, bytes + 1);
  ull_status status = enter(walk, begin + bytes, depth + 1);
  walk->path[length] = '\0';
  return status;
}

static ull_status enter(walk *walk, size_t length, int depth) {
  ull__tree *tree = walk->tree;
  struct stat about;
  int error;
  DIR *folder = open_folder(tree, walk->path, &about, &error);
  if (folder == NULL) return error ? cannot_list(tree, walk->path, error) : ULL_OK;
  if (is_ancestor(tree, &about, depth)) {
    closedir(folder);
    tree->loops++;
    return ULL_OK;
  }
  tree->ancestors[depth].device = (uint64_t)about.st_dev;
  tree->ancestors[depth].inode = (uint64_t)about.st_ino;
  ull__tree_names below = {0};
  uint32_t number;
  ull_status status = push_folder(tree, walk->path, walk->group, &about, &number);
  if (status == ULL_OK)
    status = read_entries(tree, folder, walk->path, number, true, walk->deep ? &below : NULL);
  closedir(folder);
  for (size_t i = 0; i < below.count && status == ULL_OK; i++)
    status = enter_below(walk, length, depth, below.items[i]);
  ull__vector_free(&below);
  return status;
}

ull_status ull__tree_add(ull__tree *tree, const char *path, uint32_t group, bool deep) {
  size_t length = strlen(path);
  walk *begin = ull__alloc(1, sizeof *begin);
  if (begin == NULL) return ull_error_last()->status;
  *begin = (walk){.tree = tree, .group = group, .deep = deep};
  ull_status status;
  if (length + 256 > sizeof begin->path) {
    status = cannot_list(tree, path, ENAMETOOLONG);
  } else {
    memcpy(begin->path, path, length + 1);
    status = enter(begin, length, 0);
  }
  ull__free(begin);
  return status;
}

/* ---- order ---- */

static int by_text(const void *a, const void *b, void *context) {
  const ull__tree *tree = context;
  return strcmp(tree->texts.items + *(const uint32_t *)a, tree->texts.items + *(const uint32_t *)b);
}

ull_status ull__tree_list(ull__tree *tree, const char *path, ull__tree_names *names) {
  struct stat about;
  int error;
  DIR *folder = open_folder(tree, path, &about, &error);
  if (folder == NULL) return cannot_list(tree, path, error ? error : ENOENT);
  uint32_t number;
  ull_status status = push_folder(tree, path, 0, &about, &number);
  if (status == ULL_OK) status = read_entries(tree, folder, path, number, false, names);
  closedir(folder);
  if (status == ULL_OK && names != NULL && names->count > 1)
    qsort_r(names->items, names->count, sizeof names->items[0], by_text, tree);
  return status;
}

static int by_name(const void *a, const void *b, void *context) {
  const ull__tree *tree = context;
  const ull__tree_file *first = a, *second = b;
  return strcmp(tree->texts.items + first->name, tree->texts.items + second->name);
}

static int by_path(const void *a, const void *b, void *context) {
  const ull__tree *tree = context;
  const ull__tree_folder *first = a, *second = b;
  if (first->group != second->group) return first->group < second->group ? -1 : 1;
  return strcmp(tree->texts.items + first->path, tree->texts.items + second->path);
}

/* The files of a folder lie together already; folders take their places, files follow. */
ull_status ull__tree_sort(ull__tree *tree) {
  size_t count = tree->files.count;
  ull__tree_file *sorted = ull__alloc(count + 1, sizeof *sorted);
  if (sorted == NULL) return ull_error_last()->status;
  if (tree->folders.count > 1)
    qsort_r(tree->folders.items, tree->folders.count, sizeof tree->folders.items[0], by_path, tree);
  size_t used = 0;
  for (size_t i = 0; i < tree->folders.count; i++) {
    ull__tree_folder *folder = &tree->folders.items[i];
    ull__tree_file *files = tree->files.items + folder->first_file;
    if (folder->file_count > 1) qsort_r(files, folder->file_count, sizeof *files, by_name, tree);
    folder->first_file = (uint32_t)used;
    for (uint32_t f = 0; f < folder->file_count; f++)
      sorted[used++] = (ull__tree_file){.name = files[f].name, .folder = (uint32_t)i};
  }
  ull__free(tree->files.items);
  tree->files.items = sorted;
  tree->files.count = used;
  tree->files.capacity = count + 1;
  return ULL_OK;
}

void ull__tree_free(ull__tree *tree) {
  ull__vector_free(&tree->texts);
  ull__vector_free(&tree->files);
  ull__vector_free(&tree->folders);
}
