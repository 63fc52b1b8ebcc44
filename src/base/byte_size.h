/* Byte sizes as people write them. */
#ifndef ULL_BASE_BYTE_SIZE_H
#define ULL_BASE_BYTE_SIZE_H

#include <stdint.h>

#include "ullage/status.h"

/* "4GiB", "512MiB", "1.5GB", "1048576", "64 KiB": a decimal number and one of B, KiB, MiB, GiB, TiB
 * (powers of 1024), kB, MB, GB, TB (powers of 1000), in any case; no unit means bytes. Exact:
 * fractions of a byte are cut. ULL_ERROR_USAGE names the text and a right way to write it;
 * ULL_ERROR_OVERFLOW beyond 63 bits. */
ull_status ull__byte_size_parse(const char *text, uint64_t *out_bytes);

#define ULL__BYTE_SIZE_TEXT 32

/* "0 B", "1023 B", "1.5 KiB", "4.0 GiB": one digit after the point, rounded to nearest. Returns
 * `text`. */
char *ull__byte_size_format(uint64_t bytes, char text[ULL__BYTE_SIZE_TEXT]);

/* The shortest text that parses back to exactly these bytes: "4GiB", "1536MiB", "1000". */
char *ull__byte_size_exact(uint64_t bytes, char text[ULL__BYTE_SIZE_TEXT]);

#endif
