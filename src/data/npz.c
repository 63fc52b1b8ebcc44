/* `npz:FILE` and `npy:DIR`: named arrays with a common first dimension, one sample a row.
 *
 * Stored members and NPY files are read in place; deflated members are decompressed into memory
 * once. With `verify` the checksum of stored members is compared at open as well. Members that are
 * not arrays are refused: an archive that holds something else is not what the user meant. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"
#include "base/vector.h"
#include "data/inflate.h"
#include "data/npy.h"
#include "data/stored.h"
#include "data/zip.h"

/* A content read from front to back. */
typedef struct cursor {
  const ull__content *content;
  uint64_t at;
  const char *what;
} cursor;

static ull_status truncated(const char *what, uint64_t wanted, uint64_t found) {
  ULL__FAIL(ULL_ERROR_DATA, "%s: is truncated: it needs %" PRIu64 " bytes and has %" PRIu64, what,
            wanted, found);
  ull__error_holder("%s", what);
  ull__error_change("fetch or write the file again");
  return ull__error_bytes(wanted, found);
}

static ull_status read_forward(void *context, void *to, uint64_t count) {
  cursor *cursor = context;
  if (count > cursor->content->bytes - cursor->at) {
    return truncated(cursor->what, cursor->at + count, cursor->content->bytes);
  }
  ULL__TRY(ull__content_read(cursor->content, cursor->at, to, count));
  cursor->at += count;
  return ULL_OK;
}

/* Describes the array to the source and checks that all its samples are there. */
static ull_status add_content(ull_source *source, const char *name, const char *what) {
  ull__stored *stored = source->state;
  ull__stored_array *array = &stored->arrays[source->array_count];
  cursor cursor = {.content = &array->content, .what = what};
  ull__npy_header header;
  ULL__TRY(ull__npy_read_header(read_forward, &cursor, what, &header));
  if (header.rank == 0) {
    ULL__FAIL(ULL_ERROR_DATA, "%s: is a single number; arrays need a first dimension of samples",
              what);
    return ull__error_holder("array '%s'", name);
  }
  uint64_t needed = header.header_bytes + header.data_bytes;
  if (array->content.bytes < needed) return truncated(what, needed, array->content.bytes);
  array->data_offset = header.header_bytes;
  ULL__TRY(ull__source_add_array(source, name, header.dtype, header.rank - 1, header.shape + 1));
  return ull__stored_agree(source, what, name, (uint64_t)header.shape[0]);
}

static ull_status wrong_checksum(const char *what) {
  ULL__FAIL(ULL_ERROR_DATA, "%s: its checksum does not match its content", what);
  ull__error_holder("%s", what);
  return ull__error_change("fetch or write the file again");
}

static ull_status verify_stored(const ull__zip_member *member, const char *what) {
  uint8_t buffer[16384];
  uLong crc = crc32(0, NULL, 0);
  for (uint64_t at = 0; at < member->bytes; at += sizeof buffer) {
    uint64_t count = member->bytes - at < sizeof buffer ? member->bytes - at : sizeof buffer;
    ULL__TRY(ull__content_read(&member->data, at, buffer, count));
    crc = crc32(crc, buffer, (uInt)count);
  }
  return crc == member->crc32 ? ULL_OK : wrong_checksum(what);
}

static ull_status inflate_whole(ull__inflater *inflater, const ull__zip_member *member,
                                const char *what, uint8_t *memory) {
  uint64_t got, extra;
  uint8_t byte;
  ULL__TRY(ull__inflater_read(inflater, memory, member->bytes, &got));
  if (got < member->bytes) return truncated(what, member->bytes, got);
  ULL__TRY(ull__inflater_read(inflater, &byte, 1, &extra));
  if (extra != 0) {
    ULL__FAIL(ULL_ERROR_DATA, "%s: holds more than the %" PRIu64 " bytes its archive says", what,
              member->bytes);
    return ull__error_holder("%s", what);
  }
  uLong crc = crc32_z(crc32(0, NULL, 0), memory, member->bytes);
  return crc == member->crc32 ? ULL_OK : wrong_checksum(what);
}

static ull_status run_inflater(const ull__zip_member *member, const char *what, uint8_t *memory) {
  ull__inflater *inflater = ull__alloc(1, sizeof *inflater);
  if (inflater == NULL) return ull_error_last()->status;
  ull_status status = ull__inflater_open(inflater, &member->data, ULL__FORMAT_RAW);
  if (status == ULL_OK) {
    status = inflate_whole(inflater, member, what, memory);
    ull__inflater_close(inflater);
  }
  ull__free(inflater);
  return status;
}

static ull_status load_deflated(ull_source *source, const ull_source_options *options,
                                const ull__zip_member *member, const char *what,
                                ull__content *content) {
  if (!ull__inflate_is_possible(member->compressed_bytes, member->bytes)) {
    ULL__FAIL(ULL_ERROR_DATA,
              "%s: claims %" PRIu64 " bytes, more than its %" PRIu64 " compressed bytes can hold",
              what, member->bytes, member->compressed_bytes);
    return ull__error_holder("%s", what);
  }
  ULL__TRY(ull__source_hold(source, options, what, member->bytes));
  content->file = member->data.file;
  content->bytes = member->bytes;
  content->memory = ull__alloc_aligned(64, member->bytes);
  if (content->memory == NULL) return ull_error_last()->status;
  return run_inflater(member, what, content->memory);
}

static ull_status load_member(ull_source *source, const ull_source_options *options,
                              const ull__zip_member *member, const char *name, const char *what) {
  ull__stored *stored = source->state;
  if (source->array_count == ULL_DATA_MAX_ARRAYS) {
    return ULL__FAIL(ULL_ERROR_UNSUPPORTED, "%s: has more than %d arrays", source->text,
                     ULL_DATA_MAX_ARRAYS);
  }
  ull__content *content = &stored->arrays[source->array_count].content;
  if (member->method == ULL__ZIP_DEFLATED) {
    ULL__TRY(load_deflated(source, options, member, what, content));
  } else {
    *content = member->data;
    if (options->verify) ULL__TRY(verify_stored(member, what));
  }
  return add_content(source, name, what);
}

/* The array's name: without the .npy ending. */
static ull_status array_name(const char *path, char *name) {
  size_t length = strlen(name);
  if (length > 4 && strcmp(name + length - 4, ".npy") == 0) {
    name[length - 4] = '\0';
    return ULL_OK;
  }
  ULL__FAIL(ULL_ERROR_DATA, "%s: holds '%s', which is not an NPY array", path, name);
  ull__error_holder("%s", path);
  return ull__error_change("write the file with numpy.savez");
}

static ull_status load_next(ull_source *source, const ull_source_options *options, ull__zip *zip) {
  ull__zip_member member;
  ULL__TRY(ull__zip_next(zip, &member));
  ULL__TRY(array_name(zip->file->path, member.name));
  char *what = ull__format("%s: '%s'", zip->file->path, member.name);
  if (what == NULL) return ull_error_last()->status;
  ull_status status = load_member(source, options, &member, member.name, what);
  ull__free(what);
  return status;
}

static ull_status no_arrays(const char *path) {
  ULL__FAIL(ULL_ERROR_DATA, "%s: holds no arrays", path);
  return ull__error_holder("%s", path);
}

static ull_status open_npz(ull_source *source, const char *path,
                           const ull_source_options *options) {
  ull__data_file *file;
  ull__zip zip;
  ULL__TRY(ull__stored_create(source));
  ULL__TRY(ull__stored_open_file(source, path, &file));
  ULL__TRY(ull__zip_open(file, &zip));
  for (uint64_t i = 0; i < zip.member_count; i++) ULL__TRY(load_next(source, options, &zip));
  return source->array_count > 0 ? ULL_OK : no_arrays(path);
}

typedef ULL__VECTOR(char *) name_list;

static ull_status add_name(name_list *names, const char *name) {
  char *copy = ull__strdup(name);
  if (copy == NULL) return ull_error_last()->status;
  ull_status status = ull__vector_push(names, copy);
  if (status != ULL_OK) ull__free(copy);
  return status;
}

static int compare_names(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static ull_status list_arrays(const char *folder, name_list *names) {
  DIR *directory = opendir(folder);
  if (directory == NULL) {
    ULL__FAIL(ULL_ERROR_DATA, "%s: cannot be opened: %s", folder, strerror(errno));
    ull__error_holder("%s", folder);
    return ull__error_change("check the path given with --data");
  }
  ull_status status = ULL_OK;
  for (struct dirent *entry; status == ULL_OK && (entry = readdir(directory)) != NULL;) {
    size_t length = strlen(entry->d_name);
    bool array = length > 4 && strcmp(entry->d_name + length - 4, ".npy") == 0;
    if (array) status = add_name(names, entry->d_name);
  }
  closedir(directory);
  if (names->count > 1) qsort(names->items, names->count, sizeof *names->items, compare_names);
  return status;
}

static ull_status load_array_file(ull_source *source, const char *folder, char *file_name) {
  char *path = ull__path_join(folder, file_name);
  if (path == NULL) return ull_error_last()->status;
  ull__data_file *file;
  ull_status status = ull__stored_open_file(source, path, &file);
  ull__free(path);
  ULL__TRY(status);
  ull__stored *stored = source->state;
  stored->arrays[source->array_count].content = (ull__content){.file = file, .bytes = file->bytes};
  ULL__TRY(array_name(folder, file_name));
  return add_content(source, file_name, file->path);
}

static ull_status load_folder(ull_source *source, const char *folder, name_list *names) {
  ULL__TRY(list_arrays(folder, names));
  for (size_t i = 0; i < names->count; i++) {
    ULL__TRY(load_array_file(source, folder, names->items[i]));
  }
  return names->count > 0 ? ULL_OK : no_arrays(folder);
}

static ull_status open_npy(ull_source *source, const char *folder,
                           const ull_source_options *options) {
  (void)options;
  name_list names = {0};
  ULL__TRY(ull__stored_create(source));
  ull_status status = load_folder(source, folder, &names);
  for (size_t i = 0; i < names.count; i++) ull__free(names.items[i]);
  ull__vector_free(&names);
  return status;
}

const ull__source_kind ull__source_npz = {
    .scheme = "npz",
    .argument = "FILE",
    .open = open_npz,
    .read = ull__stored_read,
    .close = ull__stored_close,
};

const ull__source_kind ull__source_npy = {
    .scheme = "npy",
    .argument = "DIR",
    .open = open_npy,
    .read = ull__stored_read,
    .close = ull__stored_close,
};
