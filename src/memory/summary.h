/* Where bytes are: planned, live now, at the peak, and lost to padding, per tag and tier.
 *
 * `live` and `peak` are counted by whoever sees ranges born and die; `planned` is what a plan said.
 * Nothing here allocates except the two writers. Not thread-safe: one counter, one thread. */
#ifndef ULL_MEMORY_SUMMARY_H
#define ULL_MEMORY_SUMMARY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"
#include "memory/tag.h"
#include "ullage/status.h"

typedef struct ull__summary_cell {
  uint64_t planned_bytes; /* the plan's largest sum of live bytes */
  uint64_t live_bytes;
  uint64_t peak_bytes; /* the most live_bytes has been */
} ull__summary_cell;

typedef struct ull__summary {
  ull__summary_cell cells[ULL__TAG_COUNT][ULL__TIER_COUNT];
  ull__summary_cell totals[ULL__TIER_COUNT]; /* of all tags together, which peak at other moments */
  uint64_t planned_padding_bytes[ULL__TIER_COUNT]; /* committed beyond the largest live sum */
} ull__summary;

/* A range is born or dies. A death of more bytes than live is ULL_ERROR_INTERNAL. */
void ull__summary_add(ull__summary *summary, ull__tag tag, ull__tier tier, uint64_t bytes);
ull_status ull__summary_remove(ull__summary *summary, ull__tag tag, ull__tier tier, uint64_t bytes);

/* Peaks start again from what is live. */
void ull__summary_restart_peaks(ull__summary *summary);

/* Whether planned and counted peaks agree in every cell and total; the first that does not is named
 * in a record of ULL_ERROR_MISMATCH. */
ull_status ull__summary_check(const ull__summary *summary);

typedef enum ull__summary_field {
  ULL__SUMMARY_PLANNED,
  ULL__SUMMARY_LIVE,
  ULL__SUMMARY_PEAK
} ull__summary_field;

/* {"device":n,"host":n,"disk":n}: the totals of one field, padding included in planned and peak. */
ull_status ull__summary_tiers_json(const ull__summary *summary, ull__summary_field field,
                                   json_t **out);

/* {"activation":{"device":n,...},...}: every tag, in the order of the tag table. */
ull_status ull__summary_tags_json(const ull__summary *summary, ull__summary_field field,
                                  json_t **out);

/* A table for people in fresh memory (ull__free): a line for each tag and tier with bytes, then
 * padding and total. */
ull_status ull__summary_table(const ull__summary *summary, char **out);

#endif
