/* SHA-256 by nettle, whose context lives inside ull__sha256. */
#include "base/sha256.h"

#include <nettle/sha2.h>

_Static_assert(sizeof(struct sha256_ctx) <= sizeof(ull__sha256), "the context must fit");
_Static_assert(_Alignof(struct sha256_ctx) <= _Alignof(ull__sha256), "the context must be aligned");

static struct sha256_ctx *context(ull__sha256 *state) {
  return (void *)state->opaque;
}

void ull__sha256_begin(ull__sha256 *state) {
  sha256_init(context(state));
}

void ull__sha256_add(ull__sha256 *state, const void *data, size_t bytes) {
  if (bytes > 0) sha256_update(context(state), bytes, data);
}

void ull__sha256_end(ull__sha256 *state, uint8_t digest[ULL__SHA256_BYTES]) {
  sha256_digest(context(state), ULL__SHA256_BYTES, digest);
}

void ull__sha256_end_hex(ull__sha256 *state, char text[ULL__SHA256_HEX]) {
  static const char digits[] = "0123456789abcdef";
  uint8_t digest[ULL__SHA256_BYTES];
  ull__sha256_end(state, digest);
  for (int i = 0; i < ULL__SHA256_BYTES; i++) {
    text[2 * i] = digits[digest[i] >> 4];
    text[2 * i + 1] = digits[digest[i] & 15];
  }
  text[2 * ULL__SHA256_BYTES] = '\0';
}
