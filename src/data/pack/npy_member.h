/* One sample's array of elements as an NPY file. */
#ifndef ULL_DATA_PACK_NPY_MEMBER_H
#define ULL_DATA_PACK_NPY_MEMBER_H

#include "data/source.h"

/* NumPy's name of a dtype ("<f4"), or NULL where it has none. */
const char *ull__npy_member_descriptor(ull_dtype dtype);

/* Fresh memory, freed with ull__free. */
ull_status ull__npy_member(const ull_source *source, uint64_t sample, size_t array, uint8_t **bytes,
                           uint64_t *count);

#endif
