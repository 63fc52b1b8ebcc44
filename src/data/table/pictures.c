/* Samples are the rows, in their order. Labels that are whole numbers are taken as they are; where
 * one is not, all are names, and the names sorted by bytes give the numbers.
 *
 * Paths are relative to the sheet's folder, which stays open. Of a sheet that came with pictures,
 * "@OFFSET:BYTES" is one of these. */
#include "data/table/pictures.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash_map.h"
#include "base/vector.h"
#include "data/table/table.h"

enum { TEXTS, ROW_SECTION, CLASSES };

enum { VERSION = 1, MOST_CLASSES = 1 << 20 };

typedef struct row {
  uint32_t image, mask; /* in the texts; UINT32_MAX: the row lacks it */
  int64_t label;
} row;

typedef struct pictures {
  int folder;
  char *folder_path; /* for messages; "" for the working directory */
  bool has_mask, has_label;
  ull__data_file file;    /* of pictures that came with the sheet; else not open */
  ull__content delivered; /* and where in it they are */
  ull__index index;
} pictures;

static const int64_t NO_LABEL = INT64_MIN;

/* ---- columns ---- */

static int find_any(const ull__sheet *sheet, const char *const *names) {
  for (size_t i = 0; names[i] != NULL; i++) {
    int column = ull__sheet_find(sheet, names[i]);
    if (column != ULL__SHEET_NONE) return column;
  }
  return ULL__SHEET_NONE;
}

ull_status ull__picture_columns_find(const ull__sheet *sheet, const ull__source_text *text,
                                     ull__picture_columns *columns) {
  static const char *const images[] = {"path",      "image",    "file",       "filename",
                                       "file_name", "filepath", "image_path", NULL};
  static const char *const masks[] = {"mask", "mask_path", "segmentation", NULL};
  static const char *const labels[] = {"label", "class", "target", "labels", "category", NULL};
  ULL__TRY(ull__sheet_option(sheet, text, "image", &columns->image));
  ULL__TRY(ull__sheet_option(sheet, text, "mask", &columns->mask));
  ULL__TRY(ull__sheet_option(sheet, text, "label", &columns->label));
  if (columns->image == ULL__SHEET_NONE) columns->image = sheet->picture_column;
  if (sheet->has_heading) {
    if (columns->image == ULL__SHEET_NONE) columns->image = find_any(sheet, images);
    if (columns->mask == ULL__SHEET_NONE) columns->mask = find_any(sheet, masks);
    if (columns->label == ULL__SHEET_NONE && columns->mask == ULL__SHEET_NONE)
      columns->label = find_any(sheet, labels);
  } else if (columns->image == ULL__SHEET_NONE && sheet->first_is_picture) {
    columns->image = 0;
    if (columns->label == ULL__SHEET_NONE && columns->mask == ULL__SHEET_NONE &&
        sheet->column_count > 1)
      columns->label = 1;
  }
  return ULL_OK;
}

/* ---- the index ---- */

typedef struct scan {
  const ull__sheet *sheet;
  const ull__picture_columns *columns;
  ull__index_texts texts;
  ULL__VECTOR(row) rows;
  ULL__VECTOR(uint32_t) classes; /* in the texts */
  ull__text_map names;
  bool all_numbers;
  row row; /* that is being read */
  char label[ULL__CSV_FIELD + 1];
} scan;

static ull_status add_text(scan *scan, const char *text, size_t bytes, uint32_t *at) {
  return ull__index_add_text(&scan->texts, scan->sheet->file.path, text, bytes, at);
}

static ull_status take_field(void *context, const ull__csv_field *field) {
  scan *scan = context;
  int column = (int)field->column;
  bool usable = field->bytes > 0 && !field->cut && !memchr(field->text, '\0', field->bytes);
  if (!usable) return ULL_OK;
  if (column == scan->columns->image)
    return add_text(scan, field->text, field->bytes, &scan->row.image);
  if (column == scan->columns->mask)
    return add_text(scan, field->text, field->bytes, &scan->row.mask);
  if (column == scan->columns->label) {
    memcpy(scan->label, field->text, field->bytes);
    scan->label[field->bytes] = '\0';
  }
  return ULL_OK;
}

/* Labels are kept as numbers of names, in the order in which they are met, until all are known. */
static ull_status end_row(scan *scan) {
  int64_t number;
  scan->row.label = NO_LABEL;
  if (scan->label[0] != '\0') {
    scan->all_numbers &= ull__table_integer(scan->label, strlen(scan->label), &number);
    const uint64_t *known = ull__text_map_find(&scan->names, scan->label);
    if (known == NULL && scan->names.count == MOST_CLASSES)
      return ULL__FAIL(ULL_ERROR_UNSUPPORTED, "%s: has more than %d different labels",
                       scan->sheet->file.path, MOST_CLASSES);
    scan->row.label = known != NULL ? (int64_t)*known : (int64_t)scan->names.count;
    if (known == NULL) ULL__TRY(ull__text_map_put(&scan->names, scan->label, scan->names.count));
  }
  return ull__vector_push(&scan->rows, scan->row);
}

static ull_status read_rows(scan *scan, ull__csv_reader *reader) {
  ull__sheet_begin(scan->sheet, scan->sheet->first_offset, scan->sheet->first_line, reader);
  for (;;) {
    bool found;
    scan->row = (row){.image = UINT32_MAX, .mask = UINT32_MAX};
    scan->label[0] = '\0';
    ULL__TRY(ull__csv_row(reader, take_field, scan, &found));
    if (!found) return ULL_OK;
    ULL__TRY(end_row(scan));
  }
}

static int by_key(const void *a, const void *b) {
  return strcmp((*(const ull__text_entry *const *)a)->key,
                (*(const ull__text_entry *const *)b)->key);
}

/* From the order of meeting to numbers: what the labels say, or their place among the sorted. */
static ull_status number_labels(scan *scan) {
  size_t count = scan->names.count;
  int64_t *values = ull__alloc(count + 1, sizeof *values);
  const ull__text_entry **sorted = ull__alloc(count + 1, sizeof *sorted);
  ull_status status = values != NULL && sorted != NULL ? ULL_OK : ull_error_last()->status;
  for (size_t i = 0; status == ULL_OK && i < count; i++) {
    sorted[i] = &scan->names.items[i];
    if (scan->all_numbers) ull__table_integer(sorted[i]->key, strlen(sorted[i]->key), &values[i]);
  }
  if (status == ULL_OK && !scan->all_numbers) {
    qsort(sorted, count, sizeof *sorted, by_key);
    for (size_t i = 0; status == ULL_OK && i < count; i++) {
      uint32_t at;
      values[sorted[i]->value] = (int64_t)i;
      status = add_text(scan, sorted[i]->key, strlen(sorted[i]->key), &at);
      if (status == ULL_OK) status = ull__vector_push(&scan->classes, at);
    }
  }
  for (size_t i = 0; status == ULL_OK && i < scan->rows.count; i++) {
    if (scan->rows.items[i].label != NO_LABEL)
      scan->rows.items[i].label = values[scan->rows.items[i].label];
  }
  ull__free(values);
  ull__free(sorted);
  return status;
}

static ull_status make_index(ull_source *source, const ull_source_options *options, scan *scan,
                             const char *place, ull__index *index) {
  ull__index_parts parts = {0};
  memcpy(parts.numbers, &scan->sheet->stamp, sizeof scan->sheet->stamp);
  parts.sections[TEXTS].data = scan->texts.items;
  parts.sections[TEXTS].bytes = scan->texts.count;
  parts.sections[ROW_SECTION].data = scan->rows.items;
  parts.sections[ROW_SECTION].bytes = scan->rows.count * sizeof(row);
  parts.sections[CLASSES].data = scan->classes.items;
  parts.sections[CLASSES].bytes = scan->classes.count * sizeof(uint32_t);
  uint64_t bytes = parts.sections[TEXTS].bytes + parts.sections[ROW_SECTION].bytes;
  if (bytes < ULL__INDEX_WORTH_KEEPING) place = NULL;
  return ull__index_make(source, options, place, VERSION, &parts, index);
}

static ull_status build(ull_source *source, const ull_source_options *options,
                        const ull__sheet *sheet, const ull__picture_columns *columns,
                        const char *place, ull__index *index) {
  int64_t began_ns = ull__stamp_now_ns();
  scan *scan = ull__alloc(1, sizeof *scan);
  ull__csv_reader *reader = ull__alloc(1, sizeof *reader);
  ull_status status = scan != NULL && reader != NULL ? ULL_OK : ull_error_last()->status;
  if (status == ULL_OK) {
    scan->sheet = sheet;
    scan->columns = columns;
    scan->all_numbers = true;
    status = read_rows(scan, reader);
    if (status == ULL_OK) status = number_labels(scan);
    if (ull__stamp_is_fresh(&sheet->stamp, began_ns)) place = NULL;
    if (status == ULL_OK) status = make_index(source, options, scan, place, index);
    ull__vector_free(&scan->texts);
    ull__vector_free(&scan->rows);
    ull__vector_free(&scan->classes);
    ull__text_map_free(&scan->names);
  }
  ull__free(scan);
  ull__free(reader);
  return status;
}

/* ---- opening ---- */

static ull_status open_folder(pictures *pictures, const char *sheet_path) {
  const char *slash = strrchr(sheet_path, '/');
  size_t bytes = slash == NULL ? 0 : slash == sheet_path ? 1 : (size_t)(slash - sheet_path);
  pictures->folder_path = ull__strndup(sheet_path, bytes);
  if (pictures->folder_path == NULL) return ull_error_last()->status;
  pictures->folder =
      open(bytes > 0 ? pictures->folder_path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (pictures->folder >= 0) return ULL_OK;
  ULL__FAIL(ULL_ERROR_IO, "%s: its folder cannot be opened: %s", sheet_path, strerror(errno));
  return ull__error_holder("%s", sheet_path);
}

static ull_status take_delivered(pictures *pictures, const ull__sheet *sheet) {
  if (sheet->picture_column == ULL__SHEET_NONE) return ULL_OK;
  pictures->file = (ull__data_file){
      .path = ull__strdup(sheet->file.path), .descriptor = -1, .bytes = sheet->file.bytes};
  if (pictures->file.path == NULL) return ull_error_last()->status;
  pictures->file.descriptor = fcntl(sheet->file.descriptor, F_DUPFD_CLOEXEC, 3);
  if (pictures->file.descriptor < 0)
    return ULL__FAIL(ULL_ERROR_OUT_OF_MEMORY, "%s: too many files are open", sheet->file.path);
  pictures->delivered = sheet->pictures;
  pictures->delivered.file = &pictures->file;
  return ULL_OK;
}

static ull_status describe(ull_source *source) {
  const pictures *pictures = source->state;
  const ull__index_header *header = &pictures->index.header;
  source->stored_count = header->sections[ROW_SECTION].bytes / sizeof(row);
  source->class_count = header->sections[CLASSES].bytes / sizeof(uint32_t);
  if (source->class_count > 0)
    snprintf(source->note, sizeof source->note, "%" PRIu64 " classes", source->class_count);
  ULL__TRY(ull__source_add_encoded(source, "image", ULL_CONTENT_IMAGE));
  if (pictures->has_mask) ULL__TRY(ull__source_add_encoded(source, "mask", ULL_CONTENT_MASK));
  if (pictures->has_label) ULL__TRY(ull__source_add_array(source, "label", ULL_INT64, 0, NULL));
  return ULL_OK;
}

ull_status ull__pictures_open(ull_source *source, const ull_source_options *options,
                              const ull__sheet *sheet, const ull__picture_columns *columns,
                              const char *place) {
  pictures *pictures = ull__alloc(1, sizeof *pictures);
  if (pictures == NULL) return ull_error_last()->status;
  source->state = pictures;
  source->kind = &ull__source_csv_pictures;
  source->resident_bytes += sizeof *pictures + sizeof *source;
  pictures->folder = -1;
  pictures->index.file.descriptor = -1;
  pictures->has_mask = columns->mask != ULL__SHEET_NONE;
  pictures->has_label = columns->label != ULL__SHEET_NONE;
  ULL__TRY(open_folder(pictures, sheet->file.path));
  ULL__TRY(take_delivered(pictures, sheet));
  bool found = ull__index_find(place, VERSION, &pictures->index);
  if (!found || memcmp(pictures->index.header.numbers, &sheet->stamp, sizeof sheet->stamp) != 0) {
    ull__index_close(&pictures->index);
    ull_error_clear();
    ULL__TRY(build(source, options, sheet, columns, place, &pictures->index));
  }
  return describe(source);
}

static void close_pictures(ull_source *source) {
  pictures *pictures = source->state;
  ull__index_close(&pictures->index);
  ull__data_file_close(&pictures->file);
  if (pictures->folder >= 0) close(pictures->folder);
  ull__free(pictures->folder_path);
  ull__free(pictures);
  source->state = NULL;
}

/* ---- samples ---- */

static ull_status lacks(const ull_source *source, uint64_t stored, const char *what) {
  ULL__FAIL(ULL_ERROR_DATA, "%s: row %" PRIu64 " has no %s", source->text, stored + 1, what);
  return ull__error_holder("row %" PRIu64 " of %s", stored + 1, source->text);
}

static ull_status locate(const ull_source *source, uint64_t stored, size_t array, char *path,
                         size_t room) {
  const pictures *pictures = source->state;
  row row;
  ULL__TRY(ull__index_read(&pictures->index, ROW_SECTION, stored * sizeof row, &row, sizeof row));
  uint32_t at = array == 0 ? row.image : row.mask;
  if (at == UINT32_MAX) return lacks(source, stored, array == 0 ? "path" : "mask");
  return ull__index_text(&pictures->index, TEXTS, at, path, room);
}

static void full_path(const pictures *pictures, const char *path, char *buffer, size_t bytes) {
  bool beside = path[0] != '/' && pictures->folder_path[0] != '\0';
  snprintf(buffer, bytes, "%s%s%s", beside ? pictures->folder_path : "", beside ? "/" : "", path);
}

/* Whether the text is the place of a picture that came with the sheet. */
static bool find_delivered(const pictures *pictures, const char *text, ull__record *record) {
  char *end;
  if (pictures->file.path == NULL || text[0] != '@') return false;
  uint64_t offset = strtoull(text + 1, &end, 10);
  if (*end != ':') return false;
  uint64_t bytes = strtoull(end + 1, &end, 10);
  if (*end != '\0' || offset > pictures->delivered.bytes ||
      bytes > pictures->delivered.bytes - offset)
    return false;
  record->descriptor = pictures->file.descriptor;
  record->offset = pictures->delivered.offset + offset;
  record->bytes = bytes;
  return true;
}

static void name_row(const pictures *pictures, uint64_t stored, char *buffer, size_t bytes) {
  snprintf(buffer, bytes, "%s:%" PRIu64, pictures->file.path, stored + 1);
}

static ull_status open_record(const ull_source *source, uint64_t stored, size_t array,
                              ull__record *record) {
  const pictures *pictures = source->state;
  char path[ULL__CSV_FIELD + 1];
  *record = (ull__record){.descriptor = -1};
  snprintf(record->path, sizeof record->path, "%s: row %" PRIu64, source->text, stored + 1);
  ULL__TRY(locate(source, stored, array, path, sizeof path));
  if (find_delivered(pictures, path, record)) {
    name_row(pictures, stored, record->path, sizeof record->path);
    return ULL_OK;
  }
  full_path(pictures, path, record->path, sizeof record->path);
  return ull__record_open_file(record, pictures->folder, path);
}

static void name_sample(const ull_source *source, uint64_t stored, char *buffer, size_t bytes) {
  char path[ULL__CSV_FIELD + 1];
  if (((const pictures *)source->state)->file.path != NULL)
    name_row(source->state, stored, buffer, bytes);
  else if (locate(source, stored, 0, path, sizeof path) == ULL_OK)
    full_path(source->state, path, buffer, bytes);
}

static ull_status read_labels(const ull_source *source, uint64_t first, uint64_t count,
                              size_t array, void *bytes) {
  const pictures *pictures = source->state;
  uint8_t *to = bytes;
  row rows[256];
  (void)array;
  while (count > 0) {
    size_t run = count < 256 ? (size_t)count : 256;
    ULL__TRY(ull__index_read(&pictures->index, ROW_SECTION, first * sizeof(row), rows,
                             run * sizeof(row)));
    for (size_t i = 0; i < run; i++) {
      if (rows[i].label == NO_LABEL) return lacks(source, first + i, "label");
      memcpy(to + i * sizeof(int64_t), &rows[i].label, sizeof(int64_t));
    }
    to += run * sizeof(int64_t);
    first += run;
    count -= run;
  }
  return ULL_OK;
}

static void name_class(const ull_source *source, uint64_t number, char *buffer, size_t bytes) {
  const pictures *pictures = source->state;
  uint32_t at;
  if (ull__index_read(&pictures->index, CLASSES, number * sizeof at, &at, sizeof at) == ULL_OK)
    ull__index_text(&pictures->index, TEXTS, at, buffer, bytes);
}

const ull__source_kind ull__source_csv_pictures = {
    .scheme = "csv",
    .argument = "FILE",
    .read = read_labels,
    .open_record = open_record,
    .name_sample = name_sample,
    .name_class = name_class,
    .close = close_pictures,
};
