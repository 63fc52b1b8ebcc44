/* A fast hash of bytes, for tables and checksums that protect from accidents, not from intent. */
#ifndef ULL_BASE_HASH_H
#define ULL_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* The same on every machine of the same byte order, and in every version: files keep it. */
uint64_t ull__hash_bytes(const void *bytes, size_t count);

#endif
