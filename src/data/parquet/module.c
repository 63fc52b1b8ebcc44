/* Looked for in $ULLAGE_PARQUET_MODULE alone where that is set; else beside the library or program
 * that this is part of, where both are installed, and where the system keeps libraries.
 * It is never closed: the library behind it is not made for that, and ends with the process of its
 * own in which Parquet is read (base/apart.h). */
#include "data/parquet/module.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

static const char NAME[] = "ullage_parquet.so";

enum { PATH_ROOM = 4096, WHY_ROOM = 512 };

static const ull__parquet_module *loaded;

static const ull__parquet_module *open_path(const char *path, char *why) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void *symbol = library != NULL ? dlsym(library, "ull__parquet_module_table") : NULL;
  if (symbol == NULL) {
    const char *error = dlerror();
    snprintf(why, WHY_ROOM, "%s", error != NULL ? error : path);
    return NULL;
  }
  ull__parquet_module_entry entry;
  memcpy(&entry, &symbol, sizeof entry);
  if (entry()->version == ULL__PARQUET_MODULE_VERSION) return entry();
  snprintf(why, WHY_ROOM, "%s: is of another version", path);
  return NULL;
}

/* The folder of what this code is in, with its slash; "" where it is not known. */
static void find_folder(char *folder) {
  Dl_info about;
  folder[0] = '\0';
  if (dladdr(&NAME, &about) != 0 && strstr(about.dli_fname, ".so") != NULL)
    snprintf(folder, PATH_ROOM, "%s", about.dli_fname);
  ssize_t length = folder[0] == '\0' ? readlink("/proc/self/exe", folder, PATH_ROOM - 1) : -1;
  if (length >= 0) folder[length] = '\0';
  char *slash = strrchr(folder, '/');
  folder[slash != NULL ? slash + 1 - folder : 0] = '\0';
}

/* What is there and cannot be opened is the reason given, rather than what is not there. */
static const ull__parquet_module *look(char *why) {
  static const char *const beside[] = {"", "ullage/", "../" ULL__LIBRARY_FOLDER "/ullage/"};
  const char *given = getenv("ULLAGE_PARQUET_MODULE");
  if (given != NULL && given[0] != '\0') return open_path(given, why);
  char folder[PATH_ROOM], path[2 * PATH_ROOM];
  find_folder(folder);
  for (size_t i = 0; folder[0] != '\0' && i < sizeof beside / sizeof beside[0]; i++) {
    snprintf(path, sizeof path, "%s%s%s", folder, beside[i], NAME);
    if (access(path, F_OK) == 0) return open_path(path, why);
  }
  return open_path(NAME, why);
}

ull_status ull__parquet_module_open(const ull__parquet_module **module) {
  char why[WHY_ROOM] = "";
  if (loaded == NULL) loaded = look(why);
  *module = loaded;
  if (*module != NULL) return ULL_OK;
  ULL__FAIL(ULL_ERROR_UNSUPPORTED, "Parquet is not read here: its module is missing: %s", why);
  ull__error_holder("%s", NAME);
  return ull__error_change(
      "build Ullage where Apache Arrow is, for example with python3 -m pip install pyarrow before "
      "./dev build, or write CSV with pandas.read_parquet(...).to_csv(..., index=False)");
}
