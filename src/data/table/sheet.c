/* The separator is the one of tab, comma, semicolon and bar that the first row has most of. The
 * first row is a heading where none of its fields is a number, a picture's name or empty, and no
 * two are the same. */
#include "data/table/sheet.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/error.h"
#include "data/folder/tree.h"

/* Digits and a point: exact where the digits fit into a double and the power of ten does as well
 * (W. D. Clinger, "How to read floating point numbers accurately", 1990). */
static bool parse_plain(const char *text, size_t bytes, double *value) {
  static const double powers[] = {1,   1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                  1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
  bool negative = text[0] == '-';
  uint64_t digits = 0;
  size_t count = 0, behind = 0, point = 0;
  if (bytes > 17) return false;
  for (size_t i = negative; i < bytes; i++) {
    bool is_point = text[i] == '.' && point == 0;
    if (!is_point && (text[i] < '0' || text[i] > '9')) return false;
    if (!is_point) digits = digits * 10 + (uint64_t)(text[i] - '0');
    behind += !is_point && point > 0;
    count += !is_point;
    point += is_point;
  }
  if (count == 0 || count > 15) return false;
  double magnitude = (double)digits / powers[behind];
  *value = negative ? -magnitude : magnitude;
  return true;
}

bool ull__parse_number(const char *text, size_t bytes, double *value) {
  char copy[64], *end;
  while (bytes > 0 && text[0] == ' ') text++, bytes--;
  while (bytes > 0 && text[bytes - 1] == ' ') bytes--;
  if (bytes == 0 || bytes >= sizeof copy) return false;
  if (parse_plain(text, bytes, value)) return true;
  /* strtod reads words and hexadecimal as well. */
  for (size_t i = 0; i < bytes; i++) {
    if (strchr("0123456789+-.eE", text[i]) == NULL || text[i] == '\0') return false;
  }
  memcpy(copy, text, bytes);
  copy[bytes] = '\0';
  *value = strtod(copy, &end);
  return *end == '\0' && isfinite(*value);
}

bool ull__is_missing(const char *text, size_t bytes) {
  static const char *const words[] = {"na", "n/a", "nan", "null", "none", "?"};
  while (bytes > 0 && text[0] == ' ') text++, bytes--;
  while (bytes > 0 && text[bytes - 1] == ' ') bytes--;
  if (bytes == 0) return true;
  if (bytes > 4 || strchr("nN?", text[0]) == NULL) return false;
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
    if (strlen(words[i]) == bytes && strncasecmp(words[i], text, bytes) == 0) return true;
  }
  return false;
}

/* ---- the first rows ---- */

typedef struct first_row {
  ull__sheet *sheet;
  bool numbers, pictures, empties;
} first_row;

static bool has_lone_return(const ull__csv_field *field) {
  for (size_t i = 0; i + 1 < field->bytes; i++) {
    if (field->text[i] == '\r' && field->text[i + 1] != '\n') return true;
  }
  return false;
}

static bool is_blank(char letter) {
  return letter == ' ' || letter == '\t';
}

static char *trimmed(const ull__csv_field *field) {
  const char *text = field->text;
  size_t bytes = field->bytes;
  while (bytes > 0 && is_blank(text[bytes - 1])) bytes--;
  for (; bytes > 0 && is_blank(text[0]); bytes--) text++;
  return ull__strndup(text, bytes);
}

static ull_status take_name(void *context, const ull__csv_field *field) {
  first_row *row = context;
  ull__sheet *sheet = row->sheet;
  double value;
  if (field->column >= ULL__SHEET_COLUMNS) {
    return ULL__FAIL(ULL_ERROR_UNSUPPORTED, "%s: has more than %d columns", sheet->file.path,
                     ULL__SHEET_COLUMNS);
  }
  if (has_lone_return(field)) {
    ULL__FAIL(ULL_ERROR_UNSUPPORTED, "%s: its lines end in CR alone", sheet->file.path);
    ull__error_holder("%s", sheet->file.path);
    return ull__error_change("convert it to line ends of LF");
  }
  char *name = trimmed(field);
  if (name == NULL) return ull_error_last()->status;
  sheet->names[sheet->column_count++] = name;
  row->numbers |= ull__parse_number(field->text, field->bytes, &value);
  row->empties |= ull__is_missing(field->text, field->bytes);
  row->pictures |= ull__is_picture_name(name);
  if (field->column == 0) sheet->first_is_picture = ull__is_picture_name(name);
  return ULL_OK;
}

static bool names_repeat(const ull__sheet *sheet) {
  /* Wide tables have headings of their own making: a look at the first columns does. */
  int count = sheet->column_count < 256 ? sheet->column_count : 256;
  for (int i = 0; i < count; i++) {
    for (int j = i + 1; j < count; j++) {
      if (strcmp(sheet->names[i], sheet->names[j]) == 0) return true;
    }
  }
  return false;
}

static ull_status number_names(ull__sheet *sheet) {
  for (int i = 0; i < sheet->column_count; i++) {
    char *number = ull__format("%d", i + 1);
    if (number == NULL) return ull_error_last()->status;
    ull__free(sheet->names[i]);
    sheet->names[i] = number;
  }
  return ULL_OK;
}

static char guess_separator(const char *line, size_t bytes) {
  static const char candidates[] = {'\t', ',', ';', '|'};
  char best = ',';
  size_t most = 0;
  for (size_t s = 0; s < sizeof candidates; s++) {
    size_t count = 0;
    for (size_t i = 0; i < bytes; i++) count += line[i] == candidates[s];
    if (count > most) best = candidates[s];
    if (count > most) most = count;
  }
  return best;
}

static ull_status choose_separator(const char *scheme, const ull__source_text *text,
                                   ull__sheet *sheet) {
  static const struct {
    const char *name;
    char separator;
  } known[] = {{"comma", ','}, {"tab", '\t'}, {"semicolon", ';'}, {"bar", '|'},
               {"space", ' '}, {",", ','},    {";", ';'},         {"|", '|'}};
  const char *given = ull__source_text_get(text, "sep");
  if (given == NULL && strcmp(scheme, "tsv") == 0) given = "tab";
  for (size_t i = 0; given != NULL && i < sizeof known / sizeof known[0]; i++) {
    if (strcmp(known[i].name, given) == 0) {
      sheet->separator = known[i].separator;
      return ULL_OK;
    }
  }
  if (given != NULL) {
    ULL__FAIL(ULL_ERROR_USAGE, "'%s' is no separator", given);
    ull__error_holder("option sep");
    return ull__error_change("use comma, tab, semicolon, bar or space");
  }
  char line[4096];
  size_t count = sheet->content.bytes < sizeof line ? (size_t)sheet->content.bytes : sizeof line;
  ULL__TRY(ull__content_read(&sheet->content, 0, line, count));
  const char *end = memchr(line, '\n', count);
  sheet->separator = guess_separator(line, end != NULL ? (size_t)(end - line) : count);
  return ULL_OK;
}

/* Whether the file can be read as text at all, and where that begins. */
static ull_status check_begin(const ull__sheet *sheet, uint64_t *begin) {
  uint8_t bytes[4] = {0};
  size_t count = sheet->content.bytes < sizeof bytes ? (size_t)sheet->content.bytes : sizeof bytes;
  ULL__TRY(ull__content_read(&sheet->content, 0, bytes, count));
  *begin = bytes[0] == 0xef && bytes[1] == 0xbb && bytes[2] == 0xbf ? 3 : 0;
  const char *what = NULL;
  if (bytes[0] == 0x1f && bytes[1] == 0x8b) what = "is compressed; unpack it first";
  if (ull__little32(bytes) == 0xfd2fb528u) what = "is compressed; unpack it first";
  if (memcmp(bytes, "PAR1", 4) == 0) what = "is a Parquet file; name it as parquet:FILE";
  if (memcmp(bytes, "PK\3\4", 4) == 0) what = "is an archive or a spreadsheet; convert it to CSV";
  if ((bytes[0] == 0xff && bytes[1] == 0xfe) || (bytes[0] == 0xfe && bytes[1] == 0xff))
    what = "is UTF-16; convert it to UTF-8";
  if (what == NULL) return ULL_OK;
  ULL__FAIL(ULL_ERROR_UNSUPPORTED, "%s: %s", sheet->file.path, what);
  return ull__error_holder("%s", sheet->file.path);
}

static ull_status choose_heading(const ull__source_text *text, const first_row *row,
                                 ull__sheet *sheet) {
  const char *given = ull__source_text_get(text, "header");
  sheet->has_heading = !row->numbers && !row->pictures && !row->empties && !names_repeat(sheet);
  if (given == NULL || strcmp(given, "auto") == 0) return ULL_OK;
  sheet->has_heading = strcmp(given, "yes") == 0;
  if (sheet->has_heading || strcmp(given, "no") == 0) return ULL_OK;
  ULL__FAIL(ULL_ERROR_USAGE, "header=%s: yes, no or auto is needed", given);
  return ull__error_holder("option header");
}

static ull_status read_heading(const ull__source_text *text, uint64_t begin, ull__sheet *sheet) {
  ull__csv_reader *reader = ull__alloc(1, sizeof *reader);
  if (reader == NULL) return ull_error_last()->status;
  first_row row = {.sheet = sheet};
  bool found;
  ull__csv_begin(reader, &sheet->content, sheet->separator, begin, 1);
  ull_status status = ull__csv_row(reader, take_name, &row, &found);
  if (status == ULL_OK && !found) {
    status = ULL__FAIL(ULL_ERROR_DATA, "%s: is empty", sheet->file.path);
    ull__error_holder("%s", sheet->file.path);
  }
  if (status == ULL_OK) status = choose_heading(text, &row, sheet);
  sheet->first_offset = sheet->has_heading ? ull__csv_offset(reader) : reader->row_offset;
  sheet->first_line = sheet->has_heading ? reader->line : reader->row_line;
  ull__free(reader);
  if (status != ULL_OK || sheet->has_heading) return status;
  return number_names(sheet);
}

ull_status ull__sheet_open(const char *scheme, const ull__source_text *text, ull__sheet *sheet) {
  *sheet = (ull__sheet){.file.descriptor = -1, .picture_column = ULL__SHEET_NONE};
  sheet->names = ull__alloc(ULL__SHEET_COLUMNS, sizeof *sheet->names);
  if (sheet->names == NULL) return ull_error_last()->status;
  ULL__TRY(ull__data_file_open(text->path, &sheet->file));
  struct stat about;
  if (fstat(sheet->file.descriptor, &about) != 0)
    return ULL__FAIL(ULL_ERROR_IO, "%s: cannot be inspected", text->path);
  sheet->stamp = ull__stamp_of(&about);
  sheet->content = (ull__content){.file = &sheet->file, .bytes = sheet->file.bytes};
  uint64_t begin;
  ULL__TRY(check_begin(sheet, &begin));
  ULL__TRY(choose_separator(scheme, text, sheet));
  return read_heading(text, begin, sheet);
}

void ull__sheet_close(ull__sheet *sheet) {
  for (int i = 0; sheet->names != NULL && i < sheet->column_count; i++) ull__free(sheet->names[i]);
  ull__free(sheet->names);
  ull__data_file_close(&sheet->file);
}

void ull__sheet_begin(const ull__sheet *sheet, uint64_t offset, uint64_t line,
                      ull__csv_reader *reader) {
  ull__csv_begin(reader, &sheet->content, sheet->separator, offset, line);
  reader->counts_rows = sheet->has_rows;
}

/* ---- columns ---- */

int ull__sheet_find(const ull__sheet *sheet, const char *name) {
  for (int i = 0; i < sheet->column_count; i++) {
    if (strcasecmp(sheet->names[i], name) == 0) return i;
  }
  char *end;
  long number = strtol(name, &end, 10);
  bool whole = isdigit((unsigned char)name[0]) && *end == '\0';
  return whole && number >= 1 && number <= sheet->column_count ? (int)number - 1 : ULL__SHEET_NONE;
}

static ull_status no_such_column(const ull__sheet *sheet, const char *option, const char *name) {
  ULL__FAIL(ULL_ERROR_USAGE, "%s: has no column '%s'", sheet->file.path, name);
  ull__error_holder("option %s", option);
  return ull__error_change("there are %d columns, the first is '%s'; numbers from 1 do as well",
                           sheet->column_count, sheet->names[0]);
}

ull_status ull__sheet_option(const ull__sheet *sheet, const ull__source_text *text,
                             const char *option, int *column) {
  const char *name = ull__source_text_get(text, option);
  *column = ULL__SHEET_NONE;
  if (name == NULL) return ULL_OK;
  *column = ull__sheet_find(sheet, name);
  return *column != ULL__SHEET_NONE ? ULL_OK : no_such_column(sheet, option, name);
}

ull_status ull__sheet_option_list(const ull__sheet *sheet, const ull__source_text *text,
                                  const char *option, bool *marks) {
  const char *list = ull__source_text_get(text, option);
  if (list == NULL) return ULL_OK;
  char *copy = ull__strdup(list), *rest = copy;
  if (copy == NULL) return ull_error_last()->status;
  ull_status status = ULL_OK;
  for (char *name; status == ULL_OK && (name = strsep(&rest, ",")) != NULL;) {
    int column = ull__sheet_find(sheet, name);
    if (column == ULL__SHEET_NONE)
      status = no_such_column(sheet, option, name);
    else
      marks[column] = true;
  }
  ull__free(copy);
  return status;
}
