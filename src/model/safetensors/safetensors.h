/* Files of named tensors in the safetensors format: 8 bytes with the length of a JSON header
 * (little-endian), the header, the tensors' bytes.
 *
 * Reading trusts nothing: a header of at most 100 MB that lies inside the file, offsets inside the
 * data without overlap or hole, a dtype and shape that give exactly a tensor's bytes, names that
 * come once. Data is read by pread when asked for, never mapped, so that a file that shrinks gives
 * an error. An opened file may be read from any number of threads.
 *
 * Writing streams: the header first, then each tensor at its place, into a file beside the target
 * that replaces it when all is written and synced. */
#ifndef ULL_MODEL_SAFETENSORS_SAFETENSORS_H
#define ULL_MODEL_SAFETENSORS_SAFETENSORS_H

#include "graph/shape.h"

#define ULL__SAFETENSORS_MOST_HEADER_BYTES UINT64_C(100000000)

/* ---- reading ---- */

typedef struct ull__safetensors ull__safetensors;

typedef struct ull__tensor_entry {
  const char *name;
  const char *stored_dtype; /* as the file spells it: "F32", "F8_E4M3" */
  ull_dtype dtype;          /* ULL_DTYPE_COUNT for a type that Ullage does not know */
  ull__shape shape;
  uint64_t offset_bytes; /* from the beginning of the file */
  uint64_t size_bytes;
} ull__tensor_entry;

/* ULL_ERROR_IO where the file cannot be read, ULL_ERROR_DATA where it is not a whole safetensors
 * file; both name it. */
ull_status ull__safetensors_open(const char *path, ull__safetensors **out);
void ull__safetensors_close(ull__safetensors *file); /* NULL is allowed */

const char *ull__safetensors_path(const ull__safetensors *file);
uint32_t ull__safetensors_count(const ull__safetensors *file);
const ull__tensor_entry *ull__safetensors_at(const ull__safetensors *file,
                                             uint32_t index); /* in name order */
const ull__tensor_entry *ull__safetensors_find(const ull__safetensors *file, const char *name);

/* A text of the header's __metadata__, or NULL. Borrowed until close. */
const char *ull__safetensors_metadata(const ull__safetensors *file, const char *key);

/* Reads a whole tensor as elements of `dtype`, row-major, into shape elements x dtype bytes.
 * Floating-point types are converted into one another; anything else must be stored as it is
 * wanted. */
ull_status ull__safetensors_read(const ull__safetensors *file, const ull__tensor_entry *entry,
                                 ull_dtype dtype, void *bytes);

/* ---- writing ---- */

typedef struct ull__safetensors_writer ull__safetensors_writer;

typedef struct ull__tensor_plan {
  const char *name;
  ull_dtype dtype;
  ull__shape shape; /* bound */
} ull__tensor_plan;

typedef struct ull__metadata_pair {
  const char *key, *value;
} ull__metadata_pair;

/* Creates the file beside `path` and writes the header. Larger elements come first, then names in
 * order, so that every tensor is aligned. Everything given is copied. ULL_ERROR_INVALID for a name
 * that comes twice. */
ull_status ull__safetensors_create(const char *path, const ull__tensor_plan *tensors,
                                   uint32_t tensor_count, const ull__metadata_pair *metadata,
                                   uint32_t metadata_count, ull__safetensors_writer **out);

/* Writes one tensor's bytes, all of them; tensors come in any order, each once. */
ull_status ull__safetensors_write(ull__safetensors_writer *writer, const char *name,
                                  const void *bytes, uint64_t size_bytes);

/* Syncs and puts the file in its place; every tensor must have been written. The writer is gone
 * afterwards, whatever the status, and so is the file beside. */
ull_status ull__safetensors_finish(ull__safetensors_writer *writer);

/* Gives up: removes the file beside. NULL is allowed. */
void ull__safetensors_discard(ull__safetensors_writer *writer);

#endif
