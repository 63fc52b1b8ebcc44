/* The table of element types, unfolded into its three columns. */
#include "ullage/dtype.h"

#include <stddef.h>

static const struct {
  const char *name;
  const char *safetensors;
  uint32_t bytes;
} dtypes[ULL_DTYPE_COUNT] = {
#define XX(name, text, bytes, safetensors) {text, safetensors, bytes},
    ULL_DTYPE_MAP(XX)
#undef XX
};

uint32_t ull_dtype_bytes(ull_dtype dtype) {
  return (size_t)dtype < ULL_DTYPE_COUNT ? dtypes[dtype].bytes : 0;
}

const char *ull_dtype_name(ull_dtype dtype) {
  return (size_t)dtype < ULL_DTYPE_COUNT ? dtypes[dtype].name : "?";
}

const char *ull_dtype_safetensors_name(ull_dtype dtype) {
  return (size_t)dtype < ULL_DTYPE_COUNT ? dtypes[dtype].safetensors : "?";
}
