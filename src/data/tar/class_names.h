/* classes.txt beside the shards: names of the classes that "cls" numbers, one a line. A courtesy:
 * without it, or where it does not suit the labels, classes are numbers. */
#ifndef ULL_DATA_TAR_CLASS_NAMES_H
#define ULL_DATA_TAR_CLASS_NAMES_H

#include "data/index_file.h"
#include "data/source.h"

typedef struct ull__class_names {
  char *text;      /* lines, each ended by 0 */
  uint32_t *lines; /* where each begins */
  uint64_t count;
} ull__class_names;

/* Looks beside `shard` and counts what it keeps as the source's. `labels` are int64 in that section
 * of the index; one that has no line makes the file be left alone, with a warning. */
ull_status ull__class_names_find(ull_source *source, const ull_source_options *options,
                                 const char *shard, const ull__index *index, int labels,
                                 ull__class_names *names);

/* `number` < count. */
void ull__class_names_copy(const ull__class_names *names, uint64_t number, char *buffer,
                           size_t bytes);

void ull__class_names_free(ull__class_names *names); /* zeroed: nothing to do */

#endif
