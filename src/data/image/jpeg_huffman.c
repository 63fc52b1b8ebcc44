/* The bit stream is read as libjpeg reads it, damage included: a marker ends the data, zeros follow
 * behind it, and the first block that needs them is warned about; a restart begins anew.
 *
 * Invariants: bits below `count` of the 64 are zero or those that come next in the file, so that
 * reading them again changes nothing; no byte behind a marker is ever taken. */
#include "data/image/jpeg_huffman.h"

#include <string.h>

#include "base/isa.h"
#include "data/image/jpeg.h"

/* After jpeglib.h. */
#include <jpegint.h>

enum {
  LOOK = ULL__HUFFMAN_LOOK,
  PAIR_LOOK = ULL__HUFFMAN_PAIR_LOOK,
  LONGEST = ULL__HUFFMAN_LONGEST,
  AT_ONCE = 2, /* looks between refills: 2 * (PAIR_LOOK + 15) bits of 56 */
  LAST = DCTSIZE2 - 1,
  QUIET_BYTES = 128, /* of input for each block of an MCU: with so many the library passes over bad
                        codes in silence */
};

/* Zigzag to natural order; damaged data runs up to 15 beyond the end. */
static const uint8_t natural_order[DCTSIZE2 + 16] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33,
    40, 48, 41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36,
    29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54,
    47, 55, 62, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63};

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
  const uint8_t *clean_to; /* no 0xff from the window on up to here; NULL: nothing is known */
  const uint8_t *fast_end; /* up to here 8 clean bytes can be taken at once; NULL behind a marker */
  j_decompress_ptr cinfo;
  bool warns; /* of bad codes */
} reader;

#define HOT static inline __attribute__((always_inline))
#define RARE static __attribute__((noinline))
#define LIKELY(condition) __builtin_expect(condition, 1)

static void set_fast_end(reader *r, const uint8_t *next) {
  bool fast = r->cinfo->unread_marker == 0 && r->clean_to - next >= 8;
  r->fast_end = fast ? r->clean_to - 8 : NULL;
}

/* Looks for the next 0xff. */
static void find_clean(reader *r, const uint8_t *next) {
  const uint8_t *found = r->end > next ? memchr(next, 0xff, (size_t)(r->end - next)) : NULL;
  r->clean_to = found != NULL ? found : r->end;
  set_fast_end(r, next);
}

static int next_byte(reader *r, window *w) {
  if (w->next == r->end) {
    r->cinfo->src->bytes_in_buffer = 0;
    (*r->cinfo->src->fill_input_buffer)(r->cinfo);
    w->next = r->cinfo->src->next_input_byte;
    r->end = w->next + r->cinfo->src->bytes_in_buffer;
    r->clean_to = w->next; /* known once a byte was read beyond it */
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
  if (w->next > r->clean_to) find_clean(r, w->next);
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
  if (!LIKELY(w->next <= r->fast_end)) {
    refill_copy(r, w);
    return;
  }
  uint64_t bytes;
  memcpy(&bytes, w->next, sizeof bytes);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  bytes = __builtin_bswap64(bytes);
#endif
  w->bits |= bytes >> w->count;
  w->next += (63 - w->count) >> 3;
  w->count |= 56;
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
    return ull__huffman_entry(length, table->symbols[(code + table->offset[length]) & 0xff], is_dc);
  if (r->warns) WARNMS(r->cinfo, JWRN_HUFF_BAD_CODE);
  return ull__huffman_entry(length, 0, is_dc);
}

/* ---- blocks ---- */

/* The coefficient of an entry, whose code the bits begin with. Of a negative one the first bit is 0
 * and all stand inverted. */
HOT int value_of(uint64_t bits, uint64_t entry) {
  uint64_t own = bits << (entry >> ULL__ENTRY_LENGTH & 63);
  uint64_t negative = ~(uint64_t)((int64_t)own >> 63);
  uint64_t size = (own ^ negative) >> 1 >> (entry >> ULL__ENTRY_REST & 63);
  return (int)((size ^ negative) - negative);
}

/* The next coefficient, consumed; returns the zeros before it. 31 bits must be there, and are left
 * as few. */
HOT uint32_t read(reader *r, window *w, const ull__huffman_table *table, bool is_dc, int *value) {
  uint32_t entry = table->look[w->bits >> (64 - LOOK)];
  if (__builtin_expect(entry == 0, 0)) {
    refill_copy(r, w);
    entry = look_far(r, table, w->bits, is_dc);
  }
  *value = value_of(w->bits, entry);
  consume(w, entry);
  return entry >> ULL__ENTRY_RUN & 63;
}

HOT void store(JCOEF *block, uint32_t k, int value) {
  if (block != NULL) block[natural_order[k]] = (JCOEF)value;
}

/* A symbol that no pair begins with. Returns where the next coefficient stands. */
HOT uint32_t read_single(reader *r, window *w, const ull__huffman_table *table, uint32_t k,
                         JCOEF *block) {
  int value;
  uint32_t run = read(r, w, table, false, &value);
  k += run;
  if (k < DCTSIZE2 || run != ULL__HUFFMAN_END) store(block, k, value);
  return k + 1;
}

/* The pair with which a block ends, or may end: the second symbol counts only where the first
 * leaves room for it, and its bits are given back where it does not. `first` is where the first
 * coefficient stands; the window is behind both symbols. Returns where the next one stands. */
HOT uint32_t end_with_pair(window *w, uint64_t before, uint64_t entry, uint32_t first,
                           JCOEF *block) {
  uint32_t low = (uint32_t)entry, step = low >> ULL__PAIR_STEP;
  if ((low >> ULL__ENTRY_RUN & 63) == ULL__HUFFMAN_END) return DCTSIZE2;
  store(block, first, value_of(before, low));
  if (first >= LAST) {
    uint32_t first_total = (low >> ULL__ENTRY_LENGTH & 63) + 63 - (low >> ULL__ENTRY_REST & 63);
    w->count += (int)(low & 63) - (int)first_total;
    w->bits = before << first_total;
    return DCTSIZE2;
  }
  if (step == ULL__HUFFMAN_END + 1) return DCTSIZE2;
  if (step != 0) store(block, first + step, (int16_t)(entry >> ULL__PAIR_VALUE));
  return first + step + 1;
}

/* The 63 coefficients behind the first; `block` is zero there, or NULL where nobody wants them. A
 * run of sixteen zeros is stored as fifteen and a zero; damaged data that runs over the end is
 * stored as the last coefficient, as the library does. Without a second symbol the first is stored
 * twice, which spares a branch that nobody could foretell. */
HOT void read_ac(reader *r, window *w, const ull__huffman_ac *ac, JCOEF *block) {
  for (uint32_t k = 1; k < DCTSIZE2;) {
    refill(r, w);
    for (int i = 0; i < AT_ONCE && k < DCTSIZE2; i++) {
      uint64_t before = w->bits, entry = ac->pairs[before >> (64 - PAIR_LOOK)];
      if (__builtin_expect(entry == 0, 0)) {
        k = read_single(r, w, &ac->table, k, block);
        break;
      }
      uint32_t low = (uint32_t)entry, step = low >> ULL__PAIR_STEP;
      consume(w, (uint32_t)entry);
      k += low >> ULL__ENTRY_RUN & 63;
      if (k + step >= LAST) {
        k = end_with_pair(w, before, entry, k, block);
        continue;
      }
      int value = value_of(before, low);
      store(block, k, value);
      store(block, k + step, step != 0 ? (int16_t)(entry >> ULL__PAIR_VALUE) : value);
      k += step + 1;
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
    const ull__huffman_ac *ac = &h->ac[component->ac_tbl_no];
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

HOT void read_mcu(j_decompress_ptr cinfo, ull__huffman *h, JBLOCKROW *blocks) {
  struct jpeg_source_mgr *source = cinfo->src;
  size_t quiet = (size_t)QUIET_BYTES * (size_t)cinfo->blocks_in_MCU;
  window w = {.bits = h->bits, .next = source->next_input_byte, .count = h->count};
  reader r = {.cinfo = cinfo,
              .warns = source->bytes_in_buffer < quiet || cinfo->unread_marker != 0 ||
                       cinfo->restart_interval != 0};
  r.end = w.next + source->bytes_in_buffer;
  r.clean_to = h->clean_to;
  if (h->clean_from != NULL && w.next >= h->clean_from && w.next <= h->clean_to)
    set_fast_end(&r, w.next);
  else
    find_clean(&r, w.next);
  read_blocks(h, &r, &w, blocks);
  source->next_input_byte = w.next;
  source->bytes_in_buffer = (size_t)(r.end - w.next);
  h->bits = w.bits;
  h->count = w.count;
  h->clean_from = w.next;
  h->clean_to = r.clean_to;
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
  h->clean_from = NULL; /* the library may have moved the source's window */
}

static boolean restart(j_decompress_ptr cinfo, ull__huffman *h) {
  cinfo->marker->discarded_bytes += (unsigned)h->count / 8;
  h->count = 0;
  if (!(*cinfo->marker->read_restart_marker)(cinfo)) return FALSE;
  begin_interval(h, cinfo);
  if (cinfo->unread_marker == 0) cinfo->entropy->insufficient_data = FALSE;
  return TRUE;
}

HOT boolean decode(j_decompress_ptr cinfo, JBLOCKROW *blocks) {
  ull__jpeg *jpeg = cinfo->client_data;
  ull__huffman *h = &jpeg->huffman;
  if (cinfo->restart_interval != 0 && h->restarts_to_go == 0 && !restart(cinfo, h)) return FALSE;
  if (!cinfo->entropy->insufficient_data) read_mcu(cinfo, h, blocks);
  if (cinfo->restart_interval != 0) h->restarts_to_go--;
  return TRUE;
}

static boolean decode_mcu(j_decompress_ptr cinfo, JBLOCKROW *blocks) {
  return decode(cinfo, blocks);
}

#if defined(__x86_64__)
/* The same with shifts by any register. */
__attribute__((target("bmi,bmi2"))) static boolean decode_mcu_bmi2(j_decompress_ptr cinfo,
                                                                   JBLOCKROW *blocks) {
  return decode(cinfo, blocks);
}
#endif

/* ---- taking over ---- */

typedef boolean (*mcu_decoder)(j_decompress_ptr cinfo, JBLOCKROW *blocks);

static mcu_decoder choose_decoder(void) {
#if defined(__x86_64__)
  if (ull__cpu_isa() >= ULL__ISA_AVX2 && __builtin_cpu_supports("bmi2")) return decode_mcu_bmi2;
#endif
  return decode_mcu;
}

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
    ull__huffman_prepare_dc(&h->dc[dc], cinfo->dc_huff_tbl_ptrs[dc]);
    ull__huffman_prepare_ac(&h->ac[ac], cinfo->ac_huff_tbl_ptrs[ac]);
  }
  begin_interval(h, cinfo);
  cinfo->entropy->decode_mcu = choose_decoder();
}
