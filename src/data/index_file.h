/* The index of a source (names, offsets, lengths) as one block of sections: in memory where it is
 * small, else a file in the user's cache folder, so that millions of samples cost no memory and the
 * next open costs no scan.
 *
 * A block says nothing that is believed: its checksum is compared when it is found, every read is
 * checked against its section, and the caller compares stamps of the folders or files that it was
 * made from. What does not fit is made anew. */
#ifndef ULL_DATA_INDEX_FILE_H
#define ULL_DATA_INDEX_FILE_H

#include <sys/stat.h>

#include "base/vector.h"
#include "data/content.h"
#include "data/source.h"

enum { ULL__INDEX_SECTIONS = 8, ULL__INDEX_NUMBERS = 12 };

/* What tells whether a folder's list, or a file's content, is still the one that was indexed. */
typedef struct ull__stamp {
  uint64_t device, inode, bytes;
  int64_t modified_ns, changed_ns;
} ull__stamp;

/* Of a folder the size says nothing and is 0. */
ull__stamp ull__stamp_of(const struct stat *about);
bool ull__stamp_equal(const ull__stamp *a, const ull__stamp *b);

/* Whether a change could follow that leaves the stamp as it is, since the clock of file systems is
 * coarse: such an index serves this process alone. `now_ns`: when the scan began. */
bool ull__stamp_is_fresh(const ull__stamp *stamp, int64_t now_ns);
int64_t ull__stamp_now_ns(void);

typedef struct ull__index_header {
  char magic[8];
  uint32_t version;
  uint32_t header_bytes;
  uint64_t bytes;    /* of the block */
  uint64_t checksum; /* of all behind the header, and of the header with this field 0 */
  uint64_t numbers[ULL__INDEX_NUMBERS]; /* the kind's */
  struct {
    uint64_t offset, bytes;
  } sections[ULL__INDEX_SECTIONS];
} ull__index_header;

typedef struct ull__index {
  ull__index_header header;
  ull__content content; /* memory owned, or the cached file */
  ull__data_file file;
} ull__index;

/* What a block is made of; everything is borrowed. */
typedef struct ull__index_parts {
  uint64_t numbers[ULL__INDEX_NUMBERS];
  struct {
    const void *data;
    uint64_t bytes;
  } sections[ULL__INDEX_SECTIONS];
} ull__index_parts;

/* Where an index is kept: "$XDG_CACHE_HOME/ullage/KIND-HASH.index". NULL without a record where
 * there is no such folder and none can be made; ULL_OK even so. `key` holds all that the index
 * follows from: the real path, and options. */
ull_status ull__index_place(const char *kind, const void *key, size_t key_bytes, char **place);

/* Texts of an index in the making, one behind the other, each with its 0. */
typedef ULL__VECTOR(char) ull__index_texts;

/* Appends one; `*at` is its offset. ULL_ERROR_UNSUPPORTED, naming `path`, beyond 4 GiB. */
ull_status ull__index_add_text(ull__index_texts *texts, const char *path, const char *text,
                               size_t bytes, uint32_t *at);

/* Opens the index that is kept there. False, without a record, where there is none of this version
 * or it is damaged. `place` may be NULL. */
bool ull__index_find(const char *place, uint32_t version, ull__index *out);

/* Makes the block: kept at `place` where that is not NULL and works, else in memory, counted as
 * resident by the source. */
ull_status ull__index_make(ull_source *source, const ull_source_options *options, const char *place,
                           uint32_t version, const ull__index_parts *parts, ull__index *out);

/* Copies [at, at + bytes) of a section; ULL_ERROR_DATA where the section ends earlier. */
ull_status ull__index_read(const ull__index *index, int section, uint64_t at, void *to,
                           size_t bytes);

/* Copies the 0-terminated text at `at`, cut to `room`; ULL_ERROR_DATA beyond the section. */
ull_status ull__index_text(const ull__index *index, int section, uint64_t at, char *to,
                           size_t room);

/* A zeroed index is left alone. */
void ull__index_close(ull__index *index);

/* A block below this is not worth a file. */
enum { ULL__INDEX_WORTH_KEEPING = 256 * 1024 };

#endif
