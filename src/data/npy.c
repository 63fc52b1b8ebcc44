/* The header is a Python dictionary in text: {'descr': '<f4', 'fortran_order': False, 'shape': (60,
 * 3), }. The parser accepts what NumPy writes, with any spacing and order of the three keys, and
 * nothing else. */
#include "data/npy.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "data/content.h"

enum { TEXT_MAX = 4096 };

typedef struct parser {
  const char *at;
  const char *what;
  char dtype_text[16];
  bool has_dtype, has_order, has_shape, fortran;
  ull__npy_header *header;
} parser;

static const struct {
  const char *text;
  ull_dtype dtype;
} dtypes[] = {
    {"<f8", ULL_FLOAT64}, {"<f4", ULL_FLOAT32}, {"<f2", ULL_FLOAT16}, {"<i8", ULL_INT64},
    {"<i4", ULL_INT32},   {"|u1", ULL_UINT8},   {"<u1", ULL_UINT8},   {"|b1", ULL_BOOL},
};

static ull_status broken(const parser *parser) {
  ULL__FAIL(ULL_ERROR_DATA, "%s: its NPY header cannot be read near '%.20s'", parser->what,
            parser->at);
  ull__error_holder("%s", parser->what);
  return ull__error_change("write the array again with numpy.save or numpy.savez");
}

static void skip_space(parser *parser) {
  while (*parser->at == ' ' || *parser->at == '\n' || *parser->at == '\t') parser->at++;
}

static bool accept(parser *parser, const char *text) {
  skip_space(parser);
  size_t length = strlen(text);
  if (strncmp(parser->at, text, length) != 0) return false;
  parser->at += length;
  return true;
}

static ull_status parse_string(parser *parser, char *to, size_t room) {
  skip_space(parser);
  char quote = *parser->at;
  if (quote != '\'' && quote != '"') return broken(parser);
  const char *end = strchr(parser->at + 1, quote);
  if (end == NULL || (size_t)(end - parser->at) > room) return broken(parser);
  size_t length = (size_t)(end - parser->at) - 1;
  memcpy(to, parser->at + 1, length);
  to[length] = '\0';
  parser->at = end + 1;
  return ULL_OK;
}

static ull_status parse_extent(parser *parser, int64_t *extent) {
  skip_space(parser);
  if (*parser->at < '0' || *parser->at > '9') return broken(parser);
  int64_t value = 0;
  while (*parser->at >= '0' && *parser->at <= '9') {
    if (value > (INT64_MAX - 9) / 10) {
      ULL__FAIL(ULL_ERROR_DATA, "%s: an extent in its shape is beyond 63 bits", parser->what);
      return ull__error_holder("%s", parser->what);
    }
    value = value * 10 + (*parser->at++ - '0');
  }
  *extent = value;
  return ULL_OK;
}

static ull_status parse_shape(parser *parser) {
  ull__npy_header *header = parser->header;
  if (!accept(parser, "(")) return broken(parser);
  while (!accept(parser, ")")) {
    if (header->rank > ULL_DATA_MAX_RANK) {
      ULL__FAIL(ULL_ERROR_UNSUPPORTED, "%s: has more than %d dimensions", parser->what,
                ULL_DATA_MAX_RANK + 1);
      return ull__error_holder("%s", parser->what);
    }
    ULL__TRY(parse_extent(parser, &header->shape[header->rank++]));
    if (accept(parser, ",")) continue;
    if (!accept(parser, ")")) return broken(parser);
    break;
  }
  parser->has_shape = true;
  return ULL_OK;
}

static ull_status parse_order(parser *parser) {
  parser->fortran = accept(parser, "True");
  if (!parser->fortran && !accept(parser, "False")) return broken(parser);
  parser->has_order = true;
  return ULL_OK;
}

static ull_status parse_dtype(parser *parser) {
  skip_space(parser);
  if (*parser->at == '[') {
    ULL__FAIL(ULL_ERROR_UNSUPPORTED, "%s: is a structured array", parser->what);
    ull__error_holder("%s", parser->what);
    return ull__error_change("save each field as an array of its own");
  }
  ULL__TRY(parse_string(parser, parser->dtype_text, sizeof parser->dtype_text));
  parser->has_dtype = true;
  return ULL_OK;
}

static ull_status parse_entry(parser *parser) {
  char key[16];
  ULL__TRY(parse_string(parser, key, sizeof key));
  if (!accept(parser, ":")) return broken(parser);
  if (strcmp(key, "descr") == 0 && !parser->has_dtype) return parse_dtype(parser);
  if (strcmp(key, "fortran_order") == 0 && !parser->has_order) return parse_order(parser);
  if (strcmp(key, "shape") == 0 && !parser->has_shape) return parse_shape(parser);
  return broken(parser);
}

static ull_status parse_dictionary(parser *parser) {
  if (!accept(parser, "{")) return broken(parser);
  while (!accept(parser, "}")) {
    ULL__TRY(parse_entry(parser));
    if (accept(parser, ",")) continue;
    if (!accept(parser, "}")) return broken(parser);
    break;
  }
  bool complete = parser->has_dtype && parser->has_order && parser->has_shape;
  return complete ? ULL_OK : broken(parser);
}

static ull_status find_dtype(const parser *parser, ull_dtype *dtype) {
  for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
    if (strcmp(parser->dtype_text, dtypes[i].text) != 0) continue;
    *dtype = dtypes[i].dtype;
    return ULL_OK;
  }
  ULL__FAIL(ULL_ERROR_UNSUPPORTED, "%s: has elements of dtype '%s'", parser->what,
            parser->dtype_text);
  ull__error_holder("%s", parser->what);
  return ull__error_change(
      "save it as '<f4', '<f8', '<f2', '<i8', '<i4', '|u1' or '|b1' with astype");
}

static ull_status interpret(const parser *parser) {
  ull__npy_header *header = parser->header;
  ULL__TRY(find_dtype(parser, &header->dtype));
  if (parser->fortran && header->rank > 1) {
    ULL__FAIL(ULL_ERROR_UNSUPPORTED, "%s: is stored in Fortran order", parser->what);
    ull__error_holder("%s", parser->what);
    return ull__error_change("save numpy.ascontiguousarray(array)");
  }
  header->data_bytes = ull_dtype_bytes(header->dtype);
  for (int i = 0; i < header->rank; i++) {
    uint64_t extent = (uint64_t)header->shape[i];
    if (ull__size_mul(header->data_bytes, extent, "an array", &header->data_bytes) == ULL_OK)
      continue;
    ULL__FAIL(ULL_ERROR_DATA, "%s: the extents in its shape multiply beyond 63 bits", parser->what);
    return ull__error_holder("%s", parser->what);
  }
  return ULL_OK;
}

static ull_status read_length(ull__read_bytes read, void *context, const char *what,
                              uint64_t *prefix, uint64_t *length) {
  uint8_t bytes[12];
  ULL__TRY(read(context, bytes, 10));
  if (memcmp(bytes, "\x93NUMPY", 6) != 0) {
    ULL__FAIL(ULL_ERROR_DATA, "%s: is not an NPY array", what);
    return ull__error_holder("%s", what);
  }
  if (bytes[6] < 1 || bytes[6] > 3) {
    ULL__FAIL(ULL_ERROR_UNSUPPORTED, "%s: is an NPY array of version %d.%d", what, bytes[6],
              bytes[7]);
    return ull__error_holder("%s", what);
  }
  *prefix = bytes[6] == 1 ? 10 : 12;
  if (*prefix == 12) ULL__TRY(read(context, bytes + 10, 2));
  *length = bytes[6] == 1 ? ull__little16(bytes + 8) : ull__little32(bytes + 8);
  if (*length < TEXT_MAX) return ULL_OK;
  ULL__FAIL(ULL_ERROR_DATA, "%s: has an NPY header of %" PRIu64 " bytes; at most %d are read", what,
            *length, TEXT_MAX - 1);
  return ull__error_holder("%s", what);
}

static ull_status parse_header(ull__read_bytes read, void *context, parser *parser,
                               char text[TEXT_MAX]) {
  uint64_t prefix = 0, length = 0;
  ULL__TRY(read_length(read, context, parser->what, &prefix, &length));
  ULL__TRY(read(context, text, length));
  text[length] = '\0';
  *parser->header = (ull__npy_header){.header_bytes = prefix + length};
  parser->at = text;
  return parse_dictionary(parser);
}

ull_status ull__npy_read_header(ull__read_bytes read, void *context, const char *what,
                                ull__npy_header *header) {
  char text[TEXT_MAX];
  parser parser = {.what = what, .header = header};
  ULL__TRY(parse_header(read, context, &parser, text));
  return interpret(&parser);
}

ull_status ull__npy_read_integers(ull__read_bytes read, void *context, const char *what,
                                  ull__npy_header *header, int *width, bool *is_signed) {
  char text[TEXT_MAX];
  parser parser = {.what = what, .header = header};
  ULL__TRY(parse_header(read, context, &parser, text));
  const char *dtype = parser.dtype_text;
  bool known = strcmp(dtype, "|u1") == 0 || strcmp(dtype, "<u1") == 0 ||
               strcmp(dtype, "<u2") == 0 || strcmp(dtype, "<u4") == 0 ||
               strcmp(dtype, "<i4") == 0 || strcmp(dtype, "<u8") == 0 || strcmp(dtype, "<i8") == 0;
  if (!known || header->rank != 1) {
    ULL__FAIL(ULL_ERROR_UNSUPPORTED, "%s: has %d dimensions of dtype '%s'; integers [n] are needed",
              what, header->rank, dtype);
    ull__error_holder("%s", what);
    return ull__error_change("save it as '<u2', '<u4', '<i4' or '<i8' with astype and ravel");
  }
  *width = dtype[2] - '0';
  *is_signed = dtype[1] == 'i';
  return ull__size_mul((uint64_t)header->shape[0], (uint64_t)*width, "an array",
                       &header->data_bytes);
}
