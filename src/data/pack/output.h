/* The files of a pack. Whatever has its final name is whole and on the disk: files are made as
 * NAME.part, synced, renamed, and the folder synced. The folder is locked while it is written to.
 */
#ifndef ULL_DATA_PACK_OUTPUT_H
#define ULL_DATA_PACK_OUTPUT_H

#include <stdbool.h>

#include "data/pack/tar_writer.h"

enum { ULL__PACK_PATH = 4096 };

typedef struct ull__pack_output {
  int folder;                  /* descriptor, locked; -1 while closed */
  char prefix[ULL__PACK_PATH]; /* whole, for messages */
  const char *name;            /* the part of `prefix` behind the folder */
  int part;                    /* the shard in the making; -1: none */
  char part_path[ULL__PACK_PATH + 64];
  ull__tar_writer tar;
} ull__pack_output;

/* Makes the folder of `prefix` where it is missing, and locks it. ULL_ERROR_IO, ULL_ERROR_BUSY. On
 * failure close still has to be called. */
ull_status ull__pack_output_open(ull__pack_output *output, const char *prefix);

/* Removes the shard in the making, if any, and unlocks. */
void ull__pack_output_close(ull__pack_output *output);

/* "NAME-000012.tar" */
void ull__pack_shard_name(const ull__pack_output *output, uint64_t shard, char *name, size_t room);

/* Whether a file of that name is in the folder, and its size. */
bool ull__pack_output_find(const ull__pack_output *output, const char *name, uint64_t *bytes);

/* Begins a shard: output->tar takes its members. */
ull_status ull__pack_shard_begin(ull__pack_output *output, uint64_t shard);

/* Ends it: from here on it has its name. */
ull_status ull__pack_shard_commit(ull__pack_output *output, uint64_t shard);

/* Writes a small file as a whole. */
ull_status ull__pack_output_write(const ull__pack_output *output, const char *name,
                                  const void *data, size_t bytes);

/* Reads a small file. *text NULL: there is none. Else freed with ull__free. */
ull_status ull__pack_output_read(const ull__pack_output *output, const char *name, char **text,
                                 size_t *bytes);

/* The path of a name in the folder, for messages. Returns `buffer`. */
const char *ull__pack_output_path(const ull__pack_output *output, const char *name, char *buffer,
                                  size_t room);

#endif
