/* NPY, format version 1: ten bytes, a text padded to 64, the elements in C order. */
#include "data/pack/npy_member.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

enum { LEAD = 10, HEADER = 320 };

const char *ull__npy_member_descriptor(ull_dtype dtype) {
  switch (dtype) {
  case ULL_FLOAT64:
    return "<f8";
  case ULL_FLOAT32:
    return "<f4";
  case ULL_FLOAT16:
    return "<f2";
  case ULL_INT64:
    return "<i8";
  case ULL_INT32:
    return "<i4";
  case ULL_UINT8:
    return "|u1";
  case ULL_BOOL:
    return "|b1";
  default:
    return NULL;
  }
}

static size_t write_header(const ull_array_info *info, char header[HEADER]) {
  size_t used = LEAD + (size_t)snprintf(header + LEAD, HEADER - LEAD,
                                        "{'descr': '%s', 'fortran_order': False, 'shape': (",
                                        ull__npy_member_descriptor(info->dtype));
  for (int i = 0; i < info->rank; i++)
    used += (size_t)snprintf(header + used, HEADER - used, "%s%" PRId64 "%s", i > 0 ? " " : "",
                             info->shape[i], i + 1 < info->rank || info->rank == 1 ? "," : "");
  used += (size_t)snprintf(header + used, HEADER - used, "), }");
  while ((used + 1) % 64 != 0) header[used++] = ' ';
  header[used++] = '\n';
  memcpy(header, "\x93NUMPY\x01\x00", 8);
  header[8] = (char)((used - LEAD) & 0xFF);
  header[9] = (char)((used - LEAD) >> 8);
  return used;
}

ull_status ull__npy_member(const ull_source *source, uint64_t sample, size_t array, uint8_t **bytes,
                           uint64_t *count) {
  const ull_array_info *info = &source->arrays[array];
  char header[HEADER];
  size_t used = write_header(info, header);
  *count = used + info->sample_bytes;
  *bytes = ull__alloc_aligned(64, *count); /* the elements lie at 64 as well */
  if (*bytes == NULL) return ull_error_last()->status;
  memcpy(*bytes, header, used);
  ull_status status = ull_source_read(source, sample, array, *bytes + used, NULL);
  if (status == ULL_OK) return ULL_OK;
  ull__free(*bytes);
  *bytes = NULL;
  return status;
}
