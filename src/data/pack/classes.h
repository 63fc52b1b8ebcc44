/* classes.txt beside the shards: names of the classes that KEY.cls numbers. */
#ifndef ULL_DATA_PACK_CLASSES_H
#define ULL_DATA_PACK_CLASSES_H

#include "data/pack/output.h"
#include "data/source.h"

/* Writes the file where the source's classes have names. One that is there must say the same:
 * ULL_ERROR_MISMATCH. */
ull_status ull__pack_classes(const ull_source *source, const ull__pack_output *output);

#endif
