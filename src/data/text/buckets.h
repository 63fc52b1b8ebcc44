/* Lengths of buckets: what `--buckets` says, and the lengths that suit documents best.
 *
 * A bucket of length L holds what is longer than the next smaller one and no longer than L; the
 * last one has the length of a sequence, so that everything has a bucket. */
#ifndef ULL_DATA_TEXT_BUCKETS_H
#define ULL_DATA_TEXT_BUCKETS_H

#include <stddef.h>
#include <stdint.h>

#include "ullage/source.h"

typedef struct ull__bucket_lengths {
  size_t count;
  int64_t lengths[ULL_DATA_MAX_BUCKETS]; /* ascending; [0] = 0: the count is all that is known */
} ull__bucket_lengths;

/* "4", "64,128,256" or "64,"; `longest` is the length of a sequence and is added where the list
 * ends below. Text NULL or empty: count 0. ULL_ERROR_USAGE says what is wrong. */
ull_status ull__bucket_lengths_parse(const char *text, int64_t longest, ull__bucket_lengths *out);

/* The bucket of a length from 1 to the last. */
size_t ull__bucket_find(const ull__bucket_lengths *buckets, uint64_t length);

/* How many pieces have which length, coarsely where sequences are long. */
enum { ULL__LENGTH_CELLS = 512 };

typedef struct ull__length_counts {
  int64_t longest;
  int64_t width; /* of a cell: a multiple of 8 */
  size_t cells;
  uint64_t counts[ULL__LENGTH_CELLS];
} ull__length_counts;

ull__length_counts ull__length_counts_create(int64_t longest);

/* `length` from 1 to the longest. */
void ull__length_counts_add(ull__length_counts *counts, uint64_t length);

/* The lengths, multiples of 8 but for the last, that leave least to be filled up; among equals the
 * same ones always. Fewer than `count` where there are fewer cells. ULL_ERROR_OUT_OF_MEMORY. */
ull_status ull__bucket_lengths_choose(const ull__length_counts *counts, size_t count,
                                      ull__bucket_lengths *out);

#endif
