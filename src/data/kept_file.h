/* A file in the user's cache folder that is made once from others, however large it becomes: tokens
 * of a text, documents of a token file, rows of Parquet. What it holds is written as it arises, in
 * two sections, through buffers of fixed size; readers see a whole file or none.
 *
 * Nothing in it is believed: its header is checked when it is found, and every read is checked
 * against its section. Where several processes want the same file, one makes it. */
#ifndef ULL_DATA_KEPT_FILE_H
#define ULL_DATA_KEPT_FILE_H

#include "data/content.h"
#include "data/index_file.h"

enum { ULL__KEPT_SECTIONS = 2, ULL__KEPT_NUMBERS = 16 };

typedef struct ull__kept_header {
  char magic[8];
  uint32_t version, header_bytes;
  uint64_t bytes;    /* of the file */
  uint64_t checksum; /* of the header with this field 0 */
  ull__stamp stamp;  /* of the file that it was made from */
  uint64_t numbers[ULL__KEPT_NUMBERS];
  struct {
    uint64_t offset, bytes;
  } sections[ULL__KEPT_SECTIONS];
} ull__kept_header;

typedef struct ull__kept {
  ull__kept_header header;
  ull__data_file file;
} ull__kept;

typedef struct ull__kept_writer ull__kept_writer;

/* Appends to a section. ULL_ERROR_IO names the file: mostly, the disk is full. */
ull_status ull__kept_write(ull__kept_writer *writer, int section, const void *data, size_t bytes);

/* What a file is made by: writes the sections and fills the numbers. */
typedef struct ull__kept_maker {
  ull_status (*make)(void *context, ull__kept_writer *writer, uint64_t numbers[ULL__KEPT_NUMBERS]);
  void *context;
  const char *kind; /* part of the file's name */
  const void *key;  /* all that the content follows from, beside the stamp */
  size_t key_bytes;
  uint32_t version;
  ull__stamp stamp;
  const char *apart; /* not NULL: `make` runs in a process of its own (base/apart.h), which is named
                        so. What it leaves in `context` is lost */
} ull__kept_maker;

/* Finds the file or has it made; close it with ull__kept_close also after a failure. Where the
 * stamp is too new to be told from that of a later change, the file serves this process alone. */
ull_status ull__kept_open(const ull__kept_maker *maker, ull__kept *out);

/* Copies bytes [at, at + bytes) of a section; ULL_ERROR_DATA where it ends earlier. Thread safe. */
ull_status ull__kept_read(const ull__kept *kept, int section, uint64_t at, void *to, size_t bytes);
void ull__kept_close(ull__kept *kept);

#endif
