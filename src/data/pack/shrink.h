/* One picture for a pack: its verdict, and its smaller form where it is to have one. */
#ifndef ULL_DATA_PACK_SHRINK_H
#define ULL_DATA_PACK_SHRINK_H

#include <pthread.h>

#include "data/image/image.h"
#include "data/scratch.h"
#include "ullage/image_encode.h"

/* Bytes that all workers share. A thread waits until its picture's are free, holds them while it
 * works on that picture, and holds nothing while it waits: no two can wait for each other. */
typedef struct ull__pack_room {
  pthread_mutex_t mutex;
  pthread_cond_t given_back;
  uint64_t bytes, used;
} ull__pack_room;

/* One thread's. */
typedef struct ull__pack_shrinker {
  ull__image_reader *reader;
  ull__scratch fixed;
  ull__pack_room *room;
  int max_side;    /* of the shorter side; 0: none */
  int quality;     /* of JPEGs */
  bool encode_all; /* small pictures as well */
} ull__pack_shrinker;

ull_status ull__pack_shrinker_create(ull__pack_shrinker *shrinker, ull__pack_room *room);
void ull__pack_shrinker_destroy(ull__pack_shrinker *shrinker); /* zeroed: nothing to do */

typedef struct ull__pack_picture {
  ull__image_info info; /* with the final verdict */
  bool resized;
  int width, height;   /* upright, of the result; of a sound picture */
  ull_encoded encoded; /* empty: the file is taken as it is */
} ull__pack_picture;

/* Decodes an open record once. A bad picture is not a failure: out->info says so. Failures are
 * those of the machine: ULL_ERROR_IO, ULL_ERROR_OUT_OF_MEMORY. On failure `out` is empty. */
ull_status ull__pack_shrink(ull__pack_shrinker *shrinker, const ull__record *record,
                            ull__pack_picture *out);

/* The same for a mask; `lead` is the sample's picture, whose size it takes where that was resized.
 */
ull_status ull__pack_shrink_mask(ull__pack_shrinker *shrinker, const ull__record *record,
                                 const ull__pack_picture *lead, ull__pack_picture *out);

#endif
