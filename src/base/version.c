/* The version, in one place: the header. */
#include "ullage/version.h"

const char *ull_version(void) {
  return ULL_VERSION;
}
