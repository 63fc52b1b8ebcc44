/* The bit stream is read as libjpeg reads it, damage included: a marker ends the data, zeros follow
 * behind it, and the first block that needs them is warned about; a restart begins anew.
 *
 * Invariants: bits below `count` of the 64 are zero or those that come next in the file, so that
 * reading them again changes nothing; no byte behind a marker is ever taken. */
#include "data/image/jpeg_huffman.h"

#include <limits.h>
#include <string.h>

#include "data/image/jpeg.h"

/* After jpeglib.h. */
#include <jpegint.h>

enum {
  LOOK = ULL__HUFFMAN_LOOK,
  LONGEST = 16,      /* bits of a code */
  AT_ONCE = 2,       /* coefficients between refills: 2 * (LOOK + 15) bits of 56 */
  END_RUN = 63,      /* "no more coefficients" as a run */
  QUIET_BYTES = 128, /* of input for each block of an MCU: with so many the library passes over bad
                        codes in silence */
};

/* An entry of a look-up: the symbol that the next LOOK bits begin with. What is consumed stands
 * where a shift takes it from, so that little stands between one symbol and the next. */
enum {
  ENTRY_TOTAL = 0,  /* 6 bits: the code and the coefficient's own bits */
  ENTRY_RUN = 6,    /* 6 bits: zeros before the coefficient */
  ENTRY_SIZE = 12,  /* 4 bits: the coefficient's own bits */
  ENTRY_LENGTH = 16 /* 5 bits: of the code; 0: longer than LOOK, or none */
};

/* Zigzag to natural order; damaged data runs up to 15 beyond the end. */
static const uint8_t natural_order[DCTSIZE2 + 16] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33,
    40, 48, 41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36,
    29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54,
    47, 55, 62, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63};

/* ---- tables ---- */

static uint32_t make_entry(int length, int symbol, bool is_dc) {
  int run = is_dc ? 0 : symbol >> 4, size = symbol & 15;
  if (size == 0 && run != 15 && !is_dc) run = END_RUN;
  return (uint32_t)(length + size) << ENTRY_TOTAL | (uint32_t)run << ENTRY_RUN |
         (uint32_t)size << ENTRY_SIZE | (uint32_t)length << ENTRY_LENGTH;
}

/* All bit patterns that begin with one code of `length` <= LOOK bits. */
static void enter_code(ull__huffman_table *table, int code, int length, int symbol, bool is_dc) {
  uint32_t entry = make_entry(length, symbol, is_dc),
           *first = &table->look[code << (LOOK - length)];
  for (int i = 0; i < 1 << (LOOK - length); i++) first[i] = entry;
}

/* The library has checked the table: lengths and symbols fit. */
static void build(ull__huffman_table *table, const JHUFF_TBL *from, bool is_dc) {
  memcpy(table->bits, from->bits, sizeof table->bits);
  memcpy(table->symbols, from->huffval, sizeof table->symbols);
  memset(table->look, 0, sizeof table->look);
  int code = 0, next = 0;
  for (int length = 1; length <= LONGEST; length++) {
    table->offset[length] = next - code;
    for (int i = 0; i < table->bits[length]; i++, code++, next++)
      if (length <= LOOK) enter_code(table, code, length, table->symbols[next], is_dc);
    table->most[length] = table->bits[length] > 0 ? code - 1 : -1;
    code <<= 1;
  }
  table->most[LONGEST + 1] = INT_MAX;
  table->built = true;
}

static void prepare(ull__huffman_table *table, const JHUFF_TBL *from, bool is_dc) {
  bool same = table->built && memcmp(table->bits, from->bits, sizeof table->bits) == 0 &&
              memcmp(table->symbols, from->huffval, sizeof table->symbols) == 0;
  if (!same) build(table, from, is_dc);
}

/* ---- bits ---- */

/* Where reading is. The hot loops hold one whose address goes nowhere, so that it lives in
 * registers; what is rare works on a copy. */
typedef struct window {
  uint64_t bits;
  const uint8_t *next;
  int count; /* below 0: zeros were read behind the end */
} window;

typedef struct reader {
  const uint8_t *end;
  const uint8_t *fast_end; /* up to here 8 bytes can be looked at; NULL behind a marker */
  j_decompress_ptr cinfo;
  bool warns; /* of bad codes */
} reader;

#define HOT static inline __attribute__((always_inline))
#define RARE static __attribute__((noinline))
#define LIKELY(condition) __builtin_expect(condition, 1)

static void set_end(reader *r, const uint8_t *next, size_t count) {
  r->end = next + count;
  r->fast_end = count >= 8 && r->cinfo->unread_marker == 0 ? r->end - 8 : NULL;
}

static int next_byte(reader *r, window *w) {
  if (w->next == r->end) {
    r->cinfo->src->bytes_in_buffer = 0;
    (*r->cinfo->src->fill_input_buffer)(r->cinfo);
    w->next = r->cinfo->src->next_input_byte;
    set_end(r, w->next, r->cinfo->src->bytes_in_buffer);
  }
  return *w->next++;
}

/* Byte by byte: past stuffed zeros, up to a marker. */
RARE void refill_slowly(reader *r, window *w) {
  while (w->count >= 0 && w->count <= 56 && r->cinfo->unread_marker == 0) {
    int byte = next_byte(r, w);
    if (byte == 0xff) {
      do byte = next_byte(r, w);
      while (byte == 0xff);
      if (byte != 0) {
        r->cinfo->unread_marker = byte;
        r->fast_end = NULL;
        return;
      }
      byte = 0xff;
    }
    w->bits |= (uint64_t)byte << (56 - w->count);
    w->count += 8;
  }
}

HOT void refill_copy(reader *r, window *w) {
  window copy = {.bits = w->bits, .next = w->next, .count = w->count};
  refill_slowly(r, &copy);
  w->bits = copy.bits;
  w->next = copy.next;
  w->count = copy.count;
}

/* At least 56 bits, or all that there are. No byte of 0xff is among those taken at once, so none is
 * behind a marker, and none is stuffed. */
HOT void refill(reader *r, window *w) {
  if (LIKELY(w->next <= r->fast_end)) {
    uint64_t bytes;
    memcpy(&bytes, w->next, sizeof bytes);
    uint64_t has_ff = (~bytes - 0x0101010101010101u) & bytes & 0x8080808080808080u;
    if (LIKELY(has_ff == 0)) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
      bytes = __builtin_bswap64(bytes);
#endif
      w->bits |= bytes >> w->count;
      w->next += (63 - w->count) >> 3;
      w->count |= 56;
      return;
    }
  }
  refill_copy(r, w);
}

HOT void consume(window *w, uint32_t count) {
  w->bits <<= count & 63;
  w->count -= (int)(count & 63);
}

/* The entry of a code longer than LOOK, or of none: symbol 0 then, as the library has it. */
RARE uint32_t look_far(reader *r, const ull__huffman_table *table, uint64_t bits, bool is_dc) {
  int length = LOOK + 1;
  int32_t code = (int32_t)(bits >> (64 - length));
  while (code > table->most[length]) {
    length++;
    code = (int32_t)(bits >> (64 - length));
  }
  if (length <= LONGEST)
    return make_entry(length, table->symbols[(code + table->offset[length]) & 0xff], is_dc);
  if (r->warns) WARNMS(r->cinfo, JWRN_HUFF_BAD_CODE);
  return make_entry(length, 0, is_dc);
}

/* ---- blocks ---- */

/* The next coefficient, consumed; returns the zeros before it. 31 bits must be there, and are left
 * as few. */
HOT uint32_t read(reader *r, window *w, const ull__huffman_table *table, bool is_dc, int *value) {
  uint32_t entry = table->look[w->bits >> (64 - LOOK)];
  if (__builtin_expect(entry == 0, 0)) {
    refill_copy(r, w);
    entry = look_far(r, table, w->bits, is_dc);
  }
  uint64_t own = w->bits << (entry >> ENTRY_LENGTH);
  uint32_t size = entry >> ENTRY_SIZE & 15;
  int negative = (int)(~own >> 63); /* the first bit of a negative coefficient is 0 */
  *value = (int)(own >> 1 >> (63 - size)) - (((1 << size) - 1) & -negative);
  consume(w, entry);
  return entry >> ENTRY_RUN & 63;
}

/* The 63 coefficients behind the first; `block` is zero there, or NULL where nobody wants them. A
 * run of sixteen zeros is stored as fifteen and a zero; damaged data that runs over the end is
 * stored as the last coefficient, as the library does. */
HOT void read_ac(reader *r, window *w, const ull__huffman_table *table, JCOEF *block) {
  for (uint32_t k = 1; k < DCTSIZE2;) {
    refill(r, w);
    for (int i = 0; i < AT_ONCE; i++) {
      int value;
      uint32_t run = read(r, w, table, false, &value);
      k += run;
      if (k >= DCTSIZE2 && (run == END_RUN || block == NULL)) return;
      if (block != NULL) block[natural_order[k]] = (JCOEF)value;
      if (++k >= DCTSIZE2) return;
    }
  }
}

static void add_dc(j_decompress_ptr cinfo, int *last, int difference) {
  if (__builtin_add_overflow(*last, difference, last)) ERREXIT(cinfo, JERR_BAD_DCT_COEF);
}

/* ---- MCUs: what the library calls ---- */

HOT void read_blocks(ull__huffman *h, reader *r, window *w, JBLOCKROW *blocks) {
  j_decompress_ptr cinfo = r->cinfo;
  for (int i = 0; i < cinfo->blocks_in_MCU; i++) {
    int place = cinfo->MCU_membership[i], difference;
    const jpeg_component_info *component = cinfo->cur_comp_info[place];
    const ull__huffman_table *ac = &h->ac[component->ac_tbl_no];
    refill(r, w);
    read(r, w, &h->dc[component->dc_tbl_no], true, &difference);
    JCOEF *block = blocks != NULL && component->component_needed ? *blocks[i] : NULL;
    if (component->component_needed) add_dc(cinfo, &h->last_dc[place], difference);
    if (block != NULL) block[0] = (JCOEF)h->last_dc[place];
    if (block != NULL && component->DCT_scaled_size > 1)
      read_ac(r, w, ac, block);
    else
      read_ac(r, w, ac, NULL);
  }
}

static void read_mcu(j_decompress_ptr cinfo, ull__huffman *h, JBLOCKROW *blocks) {
  struct jpeg_source_mgr *source = cinfo->src;
  size_t quiet = (size_t)QUIET_BYTES * (size_t)cinfo->blocks_in_MCU;
  window w = {.bits = h->bits, .next = source->next_input_byte, .count = h->count};
  reader r = {.cinfo = cinfo,
              .warns = source->bytes_in_buffer < quiet || cinfo->unread_marker != 0 ||
                       cinfo->restart_interval != 0};
  set_end(&r, w.next, source->bytes_in_buffer);
  read_blocks(h, &r, &w, blocks);
  source->next_input_byte = w.next;
  source->bytes_in_buffer = (size_t)(r.end - w.next);
  h->bits = w.bits;
  h->count = w.count;
  if (w.count >= 0) return;
  WARNMS(cinfo, JWRN_HIT_MARKER);
  cinfo->entropy->insufficient_data = TRUE;
  h->bits = 0;
  h->count = 0;
}

static void begin_interval(ull__huffman *h, const struct jpeg_decompress_struct *cinfo) {
  h->bits = 0;
  h->count = 0;
  memset(h->last_dc, 0, sizeof h->last_dc);
  h->restarts_to_go = cinfo->restart_interval;
}

static boolean restart(j_decompress_ptr cinfo, ull__huffman *h) {
  cinfo->marker->discarded_bytes += (unsigned)h->count / 8;
  h->count = 0;
  if (!(*cinfo->marker->read_restart_marker)(cinfo)) return FALSE;
  begin_interval(h, cinfo);
  if (cinfo->unread_marker == 0) cinfo->entropy->insufficient_data = FALSE;
  return TRUE;
}

static boolean decode_mcu(j_decompress_ptr cinfo, JBLOCKROW *blocks) {
  ull__jpeg *jpeg = cinfo->client_data;
  ull__huffman *h = &jpeg->huffman;
  if (cinfo->restart_interval != 0 && h->restarts_to_go == 0 && !restart(cinfo, h)) return FALSE;
  if (!cinfo->entropy->insufficient_data) read_mcu(cinfo, h, blocks);
  if (cinfo->restart_interval != 0) h->restarts_to_go--;
  return TRUE;
}

/* ---- taking over ---- */

static bool has_tables(const struct jpeg_decompress_struct *cinfo) {
  for (int i = 0; i < cinfo->comps_in_scan; i++) {
    int dc = cinfo->cur_comp_info[i]->dc_tbl_no, ac = cinfo->cur_comp_info[i]->ac_tbl_no;
    if (dc < 0 || dc >= ULL__HUFFMAN_TABLES || ac < 0 || ac >= ULL__HUFFMAN_TABLES) return false;
    if (cinfo->dc_huff_tbl_ptrs[dc] == NULL || cinfo->ac_huff_tbl_ptrs[ac] == NULL) return false;
  }
  return true;
}

void ull__huffman_take_over(ull__jpeg *jpeg) {
  j_decompress_ptr cinfo = &jpeg->cinfo;
  ull__huffman *h = &jpeg->huffman;
  if (cinfo->progressive_mode || cinfo->arith_code || jpeg_has_multiple_scans(cinfo)) return;
  if (!has_tables(cinfo)) return;
  for (int i = 0; i < cinfo->comps_in_scan; i++) {
    int dc = cinfo->cur_comp_info[i]->dc_tbl_no, ac = cinfo->cur_comp_info[i]->ac_tbl_no;
    prepare(&h->dc[dc], cinfo->dc_huff_tbl_ptrs[dc], true);
    prepare(&h->ac[ac], cinfo->ac_huff_tbl_ptrs[ac], false);
  }
  begin_interval(h, cinfo);
  cinfo->entropy->decode_mcu = decode_mcu;
}
