/* The header of a safetensors file as a checked table. */
#ifndef ULL_MODEL_SAFETENSORS_HEADER_H
#define ULL_MODEL_SAFETENSORS_HEADER_H

#include "base/json.h"
#include "model/safetensors/safetensors.h"

typedef struct ull__safetensors_header {
  json_t *json; /* names and metadata lie in it */
  ull__tensor_entry *entries;
  uint32_t count;
} ull__safetensors_header;

/* Checks `bytes` of JSON text against `data_bytes` of tensors that begin at `data_offset` of the
 * file; `path` is for messages. */
ull_status ull__safetensors_parse_header(const char *path, const char *text, size_t bytes,
                                         uint64_t data_offset, uint64_t data_bytes,
                                         ull__safetensors_header *out);
void ull__safetensors_free_header(ull__safetensors_header *header);

#endif
