/* One number for all weights: SHA-256 over the tensors in name order (byte order of names).
 *
 * Each tensor adds its name, a zero byte, its dtype as safetensors spells it, a zero byte, its
 * shape as decimal numbers with commas between them ("64,3,7,7"; nothing for a scalar), a zero
 * byte, and its elements in row-major order, little-endian. */
#ifndef ULL_MODEL_WEIGHTS_HASH_H
#define ULL_MODEL_WEIGHTS_HASH_H

#include "base/sha256.h"
#include "graph/shape.h"

typedef struct ull__weights_hash {
  ull__sha256 sha256;
  char last_name[256]; /* longer names are refused */
  bool is_first;
  uint64_t left_bytes; /* of the current tensor */
} ull__weights_hash;

void ull__weights_hash_begin(ull__weights_hash *hash);

/* Starts a tensor. Its name must come after the last one's and its shape be bound; the last
 * tensor's bytes must be complete. */
ull_status ull__weights_hash_tensor(ull__weights_hash *hash, const char *name, ull_dtype dtype,
                                    const ull__shape *shape);

/* Adds bytes of the current tensor, in pieces of any size. */
ull_status ull__weights_hash_add(ull__weights_hash *hash, const void *bytes, uint64_t size_bytes);

/* Lower-case hexadecimal, terminated. */
ull_status ull__weights_hash_end(ull__weights_hash *hash, char text[ULL__SHA256_HEX]);

#endif
