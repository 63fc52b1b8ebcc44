/* The directory of a ZIP archive, as far as NPZ needs it: stored and deflated members, ZIP64, no
 * encryption. */
#ifndef ULL_DATA_ZIP_H
#define ULL_DATA_ZIP_H

#include "data/content.h"

enum { ULL__ZIP_STORED = 0, ULL__ZIP_DEFLATED = 8, ULL__ZIP_NAME_MAX = 255 };

typedef struct ull__zip_member {
  char name[ULL__ZIP_NAME_MAX + 1];
  int method;
  uint32_t crc32;
  uint64_t compressed_bytes;
  uint64_t bytes;
  ull__content data; /* the compressed bytes, inside the file */
} ull__zip_member;

typedef struct ull__zip {
  const ull__data_file *file;
  uint64_t member_count;
  uint64_t directory_offset, directory_bytes;
  uint64_t next; /* within the directory */
} ull__zip;

/* Finds the directory of an open file, which is borrowed. */
ull_status ull__zip_open(const ull__data_file *file, ull__zip *zip);

/* The next member in the order of the directory; call it member_count times. */
ull_status ull__zip_next(ull__zip *zip, ull__zip_member *member);

#endif
