/* Huffman tables as arrays indexed by the bits that come next: by nine for a symbol, by ten for two
 * coefficients at once. The time from one look to the next is what decoding costs, so that fewer
 * looks are a gain although only the shorter pairs fit; with more bits the tables leave the
 * first-level cache and take longer to build than they save (many files have tables of their own).
 */
#include <limits.h>
#include <string.h>

#include "data/image/jpeg_huffman.h"

enum {
  LOOK = ULL__HUFFMAN_LOOK,
  PAIR_LOOK = ULL__HUFFMAN_PAIR_LOOK,
  LONGEST = ULL__HUFFMAN_LONGEST
};

/* All bit patterns that begin with one code of `length` <= LOOK bits. */
static void enter_code(ull__huffman_table *table, int code, int length, uint32_t entry) {
  uint32_t *first = &table->look[code << (LOOK - length)];
  for (int i = 0; i < 1 << (LOOK - length); i++) first[i] = entry;
}

static void build(ull__huffman_table *table, const JHUFF_TBL *from, bool is_dc) {
  memcpy(table->bits, from->bits, sizeof table->bits);
  memcpy(table->symbols, from->huffval, sizeof table->symbols);
  memset(table->look, 0, sizeof table->look);
  int code = 0, next = 0;
  for (int length = 1; length <= LONGEST; length++) {
    table->offset[length] = next - code;
    for (int i = 0; i < table->bits[length]; i++, code++, next++)
      if (length <= LOOK)
        enter_code(table, code, length, ull__huffman_entry(length, table->symbols[next], is_dc));
    table->most[length] = table->bits[length] > 0 ? code - 1 : -1;
    code <<= 1;
  }
  table->most[LONGEST + 1] = INT_MAX;
  table->built = true;
}

static bool is_ready(const ull__huffman_table *table, const JHUFF_TBL *from) {
  return table->built && memcmp(table->bits, from->bits, sizeof table->bits) == 0 &&
         memcmp(table->symbols, from->huffval, sizeof table->symbols) == 0;
}

void ull__huffman_prepare_dc(ull__huffman_table *table, const JHUFF_TBL *from) {
  if (!is_ready(table, from)) build(table, from, true);
}

/* ---- pairs ---- */

/* The entry of the code that the `have` bits begin with; 0 where it is not whole. */
static uint32_t look(const ull__huffman_table *table, uint32_t bits, int have) {
  uint32_t index = have >= LOOK ? bits >> (have - LOOK) : bits << (LOOK - have);
  uint32_t entry = table->look[index];
  return (int)(entry >> ULL__ENTRY_LENGTH & 63) <= have ? entry : 0;
}

static int value_of(int bits, int size) {
  return size > 0 && bits < 1 << (size - 1) ? bits - (1 << size) + 1 : bits;
}

/* The first symbol with what follows it in the `have` bits behind it, if that is there in full. */
static uint64_t with_second(const ull__huffman_table *table, uint32_t first, uint32_t bits,
                            int have) {
  uint32_t entry = look(table, bits, have);
  int total = (int)(entry & 63), size = 63 - (int)(entry >> ULL__ENTRY_REST & 63);
  if (entry == 0 || total > have) return first;
  int own = (int)(bits >> (have - total)) & ((1 << size) - 1);
  uint64_t step = (entry >> ULL__ENTRY_RUN & 63) + 1;
  return (first + (uint32_t)total) | step << ULL__PAIR_STEP |
         (uint64_t)(uint16_t)value_of(own, size) << ULL__PAIR_VALUE;
}

static uint64_t pair_of(const ull__huffman_table *table, uint32_t bits) {
  uint32_t first = look(table, bits, PAIR_LOOK);
  bool ends = (first >> ULL__ENTRY_RUN & 63) == ULL__HUFFMAN_END;
  int have = PAIR_LOOK - (int)(first & 63);
  if (first == 0 || ends || have <= 0) return first;
  return with_second(table, first, bits & ((1u << have) - 1), have);
}

void ull__huffman_prepare_ac(ull__huffman_ac *ac, const JHUFF_TBL *from) {
  if (is_ready(&ac->table, from)) return;
  build(&ac->table, from, false);
  for (uint32_t bits = 0; bits < 1u << PAIR_LOOK; bits++)
    ac->pairs[bits] = pair_of(&ac->table, bits);
}
