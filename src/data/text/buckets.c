/* The best lengths are found exactly: least(k, b), what k buckets of which the last ends at cell b
 * take in all, follows from least(k - 1, a) for every a below b. */
#include "data/text/buckets.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

enum { GRAIN = 8 };

/* ---- what is asked for ---- */

static ull_status refuse(const char *text, const char *why, int64_t longest) {
  ULL__FAIL(ULL_ERROR_USAGE, "buckets=%.100s: %s", text, why);
  ull__error_holder("--buckets %.100s", text);
  return ull__error_change("a number of buckets from 1 to %d, or lengths that ascend to at most "
                           "the %" PRId64 " tokens of a sequence, such as 16,32",
                           ULL_DATA_MAX_BUCKETS, longest);
}

static bool read_number(const char **text, int64_t *out) {
  char *end;
  errno = 0;
  if (!isdigit((unsigned char)**text)) return false;
  long long number = strtoll(*text, &end, 10);
  *text = end;
  *out = number;
  return errno == 0 && number >= 1;
}

static ull_status add_longest(const char *text, int64_t longest, ull__bucket_lengths *out) {
  if (out->lengths[out->count - 1] == longest) return ULL_OK;
  if (out->count == ULL_DATA_MAX_BUCKETS)
    return refuse(text, "too many, together with the longest", longest);
  out->lengths[out->count++] = longest;
  return ULL_OK;
}

static ull_status parse_list(const char *text, int64_t longest, ull__bucket_lengths *out) {
  int64_t before = 0, length;
  for (const char *at = text;; at++) {
    if (!read_number(&at, &length)) return refuse(text, "no list of lengths", longest);
    if (length <= before) return refuse(text, "lengths must ascend", longest);
    if (length > longest) return refuse(text, "longer than a sequence", longest);
    if (out->count == ULL_DATA_MAX_BUCKETS) return refuse(text, "too many buckets", longest);
    out->lengths[out->count++] = before = length;
    bool ends = at[0] == '\0' || (at[0] == ',' && at[1] == '\0');
    if (ends) return add_longest(text, longest, out);
    if (*at != ',') return refuse(text, "no list of lengths", longest);
  }
}

ull_status ull__bucket_lengths_parse(const char *text, int64_t longest, ull__bucket_lengths *out) {
  *out = (ull__bucket_lengths){0};
  if (text == NULL || text[0] == '\0') return ULL_OK;
  if (strchr(text, ',') != NULL) return parse_list(text, longest, out);
  const char *at = text;
  int64_t count;
  if (!read_number(&at, &count) || *at != '\0') return refuse(text, "no number", longest);
  if (count > ULL_DATA_MAX_BUCKETS) return refuse(text, "too many buckets", longest);
  out->count = (size_t)count;
  return ULL_OK;
}

size_t ull__bucket_find(const ull__bucket_lengths *buckets, uint64_t length) {
  size_t bucket = 0;
  while (bucket + 1 < buckets->count && length > (uint64_t)buckets->lengths[bucket]) bucket++;
  return bucket;
}

/* ---- what suits ---- */

ull__length_counts ull__length_counts_create(int64_t longest) {
  int64_t width = (longest + ULL__LENGTH_CELLS - 1) / ULL__LENGTH_CELLS;
  width = (width + GRAIN - 1) / GRAIN * GRAIN;
  return (ull__length_counts){
      .longest = longest, .width = width, .cells = (size_t)((longest + width - 1) / width)};
}

void ull__length_counts_add(ull__length_counts *counts, uint64_t length) {
  counts->counts[(length - 1) / (uint64_t)counts->width]++;
}

static int64_t end_of(const ull__length_counts *counts, size_t cell) {
  int64_t end = (int64_t)(cell + 1) * counts->width;
  return end < counts->longest ? end : counts->longest;
}

/* least[k][b]: slots of tokens that k + 1 buckets take, the last of which ends with cell b;
 * from[k][b]: the cell with which the one before ends. */
typedef struct search {
  double least[ULL_DATA_MAX_BUCKETS][ULL__LENGTH_CELLS];
  uint16_t from[ULL_DATA_MAX_BUCKETS][ULL__LENGTH_CELLS];
  double below[ULL__LENGTH_CELLS + 1]; /* pieces in the cells before */
} search;

static double bucket_cost(const ull__length_counts *counts, const search *s, size_t begin,
                          size_t last) {
  return (s->below[last + 1] - s->below[begin]) * (double)end_of(counts, last);
}

static void fill_search(const ull__length_counts *counts, size_t buckets, search *s) {
  for (size_t b = 0; b < counts->cells; b++)
    s->below[b + 1] = s->below[b] + (double)counts->counts[b];
  for (size_t b = 0; b < counts->cells; b++) s->least[0][b] = bucket_cost(counts, s, 0, b);
  for (size_t k = 1; k < buckets; k++) {
    for (size_t b = k; b < counts->cells; b++) {
      s->least[k][b] = -1;
      for (size_t a = k - 1; a < b; a++) {
        double cost = s->least[k - 1][a] + bucket_cost(counts, s, a + 1, b);
        if (s->least[k][b] >= 0 && cost >= s->least[k][b]) continue;
        s->least[k][b] = cost;
        s->from[k][b] = (uint16_t)a;
      }
    }
  }
}

ull_status ull__bucket_lengths_choose(const ull__length_counts *counts, size_t count,
                                      ull__bucket_lengths *out) {
  search *s = ull__alloc(1, sizeof *s);
  if (s == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  *out = (ull__bucket_lengths){.count = count < counts->cells ? count : counts->cells};
  fill_search(counts, out->count, s);
  size_t last = counts->cells - 1;
  for (size_t k = out->count; k-- > 0;) {
    out->lengths[k] = end_of(counts, last);
    if (k > 0) last = s->from[k][last];
  }
  ull__free(s);
  return ULL_OK;
}
