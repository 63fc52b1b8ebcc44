/* Whole files: read with a limit, written so that a reader sees the old or the new one. */
#ifndef ULL_BASE_FILE_H
#define ULL_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ullage/status.h"

/* Reads a regular file of at most `limit_bytes`. `*out` gets fresh memory (owned by the caller,
 * ull__free) with a 0 byte behind the `*out_bytes` read. ULL_ERROR_IO names the path and why. */
ull_status ull__file_read(const char *path, uint64_t limit_bytes, char **out, size_t *out_bytes);

/* The same of a file that need not be there: `*out` is NULL and no record is left where it cannot
 * be read. ULL_ERROR_OUT_OF_MEMORY. */
ull_status ull__file_read_optional(const char *path, uint64_t limit_bytes, char **out,
                                   size_t *out_bytes);

/* Writes beside `path`, syncs, renames over it, syncs the folder: after a crash `path` is whole,
 * old or new. */
ull_status ull__file_write_atomic(const char *path, const void *data, size_t bytes);

/* mkdir -p. */
ull_status ull__make_folders(const char *path);

bool ull__file_exists(const char *path);

/* ---- for those who write a file piece by piece ---- */

/* Writes all of it, however often the system stops in between; false, with errno, where it cannot.
 */
bool ull__write_all(int file, const void *data, uint64_t bytes);

/* Makes sure that the name of a file that was renamed to `path` survives a crash. */
ull_status ull__sync_folder_of(const char *path);

/* ULL_ERROR_IO "cannot ACTION PATH: what errno says", with the path as holder. */
ull_status ull__fail_io(const char *path, const char *action);

/* folder + "/" + name in fresh memory; NULL with a record when memory is out. */
char *ull__path_join(const char *folder, const char *name);

#endif
