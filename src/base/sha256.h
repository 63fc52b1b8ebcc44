/* SHA-256 in pieces. */
#ifndef ULL_BASE_SHA256_H
#define ULL_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define ULL__SHA256_BYTES 32
#define ULL__SHA256_HEX (2 * ULL__SHA256_BYTES + 1)

/* Contents belong to sha256.c. */
typedef struct ull__sha256 {
  uint64_t opaque[16];
} ull__sha256;

void ull__sha256_begin(ull__sha256 *state);
void ull__sha256_add(ull__sha256 *state, const void *data, size_t bytes);

/* Ends the digest; the state must be begun again before further use. */
void ull__sha256_end(ull__sha256 *state, uint8_t digest[ULL__SHA256_BYTES]);

/* As end, in lower-case hexadecimal, terminated. */
void ull__sha256_end_hex(ull__sha256 *state, char text[ULL__SHA256_HEX]);

#endif
