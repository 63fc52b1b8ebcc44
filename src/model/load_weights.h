/* Starting a model from a file of weights. */
#ifndef ULL_MODEL_LOAD_WEIGHTS_H
#define ULL_MODEL_LOAD_WEIGHTS_H

#include "model/model.h"

/* Takes the bytes (row-major, of the value's dtype and shape) of one parameter or state; borrowed
 * for the call. */
typedef ull_status (*ull__weights_sink)(void *context, const ull__value *value, const void *bytes,
                                        uint64_t size_bytes);

/* Gives every parameter and state of the model that the safetensors file `path` holds to `sink`, in
 * the order of model->initials, converted to the value's dtype. Names must match both ways; with
 * `is_partial`, values that the file lacks keep what they have, and tensors that the model lacks
 * are passed over. Always passed over are *.num_batches_tracked and the tied lm_head.weight.
 * Shapes must be equal. Everything is checked before the first call of `sink`. `loaded` (may be
 * NULL) = calls of `sink`. One buffer of the largest value is on loan meanwhile. */
ull_status ull__model_load_weights(const ull__model *model, const char *path, bool is_partial,
                                   ull__weights_sink sink, void *context, uint32_t *loaded);

#endif
