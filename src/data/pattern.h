/* Files named by a pattern: {a,b} and {0000..0099} are written out, then * ? and [...] are looked
 * up; all files sorted by bytes, each once. */
#ifndef ULL_DATA_PATTERN_H
#define ULL_DATA_PATTERN_H

#include "base/vector.h"

typedef ULL__VECTOR(char *) ull__paths;

/* ULL_ERROR_DATA where a part of the pattern names nothing. Free the paths in any case. */
ull_status ull__pattern_expand(const char *pattern, ull__paths *paths);
void ull__paths_free(ull__paths *paths);

#endif
