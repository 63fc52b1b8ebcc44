/* Element types of values, arrays and files. */
#ifndef ULLAGE_DTYPE_H
#define ULLAGE_DTYPE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* name in C, name in files and messages, bytes of one element, name in safetensors */
#define ULL_DTYPE_MAP(XX)             \
  XX(FLOAT64, "float64", 8, "F64")    \
  XX(FLOAT32, "float32", 4, "F32")    \
  XX(FLOAT16, "float16", 2, "F16")    \
  XX(BFLOAT16, "bfloat16", 2, "BF16") \
  XX(INT64, "int64", 8, "I64")        \
  XX(INT32, "int32", 4, "I32")        \
  XX(UINT8, "uint8", 1, "U8")         \
  XX(BOOL, "bool", 1, "BOOL")

typedef enum ull_dtype {
#define XX(name, text, bytes, safetensors) ULL_##name,
  ULL_DTYPE_MAP(XX)
#undef XX
      ULL_DTYPE_COUNT
} ull_dtype;

/* Bytes of one element; 0 for a value outside the enum. */
uint32_t ull_dtype_bytes(ull_dtype dtype);

/* "float32"; "?" for a value outside the enum. Static strings. */
const char *ull_dtype_name(ull_dtype dtype);

/* "F32", the spelling of safetensors files. */
const char *ull_dtype_safetensors_name(ull_dtype dtype);

#ifdef __cplusplus
}
#endif
#endif
