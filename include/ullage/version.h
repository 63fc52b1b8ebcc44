/* The version of the library. */
#ifndef ULLAGE_VERSION_H
#define ULLAGE_VERSION_H

#ifdef __cplusplus
extern "C" {
#endif

#define ULL_VERSION "0.1.0"

/* Of the library that is linked, which may be newer than ULL_VERSION of the header. Static. */
const char *ull_version(void);

#ifdef __cplusplus
}
#endif
#endif
