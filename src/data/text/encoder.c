/* The way of a text through a tokenizer.
 *
 * Words come again and again: a cache of fixed size keeps the numbers of short ones, one word a
 * place, the newest stays. Everything else is scratch that grows to the largest text seen. */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/vector.h"
#include "data/text/tokenizer_internal.h"
#include "data/text/unicode.h"

enum { CACHE_PLACES = 1 << 15, CACHED_BYTES = 30, CACHED_TOKENS = 8 };

typedef struct cached_word {
  uint8_t length, count; /* length 0: free */
  uint8_t text[CACHED_BYTES];
  uint32_t ids[CACHED_TOKENS];
} cached_word;
_Static_assert(sizeof(cached_word) == 64, "a cache line each");

struct ull__encoder {
  const ull__tokenizer *tokenizer;
  cached_word *cache;
  ull__merge_room room;
  ull__token_list symbols;
  ull__byte_list repaired, normalized[2], marked, replaced;
};

ull_status ull__encoder_create(const ull__tokenizer *tokenizer, ull__encoder **out) {
  ull__encoder *encoder = ull__alloc(1, sizeof *encoder);
  *out = NULL;
  if (encoder == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  encoder->tokenizer = tokenizer;
  encoder->cache = ull__alloc(tokenizer->is_bytes ? 1 : CACHE_PLACES, sizeof *encoder->cache);
  if (encoder->cache == NULL) {
    ull__encoder_destroy(encoder);
    return ULL_ERROR_OUT_OF_MEMORY;
  }
  *out = encoder;
  return ULL_OK;
}

void ull__encoder_destroy(ull__encoder *encoder) {
  if (encoder == NULL) return;
  ull__merge_room_free(&encoder->room);
  ull__vector_free(&encoder->symbols);
  ull__vector_free(&encoder->repaired);
  ull__vector_free(&encoder->normalized[0]);
  ull__vector_free(&encoder->normalized[1]);
  ull__vector_free(&encoder->marked);
  ull__vector_free(&encoder->replaced);
  ull__free(encoder->cache);
  ull__free(encoder);
}

/* ---- a word ---- */

/* Characters of a word that are no tokens, on their way to <unk>. */
typedef struct unknown_run {
  bool is_open;
} unknown_run;

static void add_symbol(ull__encoder *e, uint32_t id) {
  e->symbols.items[e->symbols.count++] = id;
}

static void close_unknown(ull__encoder *e, unknown_run *run) {
  if (run->is_open) add_symbol(e, (uint32_t)e->tokenizer->unknown);
  run->is_open = false;
}

static void add_unknown(ull__encoder *e, const uint8_t *text, size_t length, unknown_run *run) {
  const ull__tokenizer *t = e->tokenizer;
  if (t->falls_back_to_bytes) {
    for (size_t i = 0; i < length; i++) add_symbol(e, t->byte_ids[text[i]]);
    return;
  }
  if (t->unknown == ULL__TOKENIZER_NONE) return;
  if (!t->fuses_unknown) close_unknown(e, run);
  run->is_open = true;
}

static void split_into_characters(ull__encoder *e, const uint8_t *word, size_t bytes) {
  const ull__tokenizer *t = e->tokenizer;
  unknown_run run = {false};
  for (size_t at = 0, length; at < bytes; at += length) {
    uint32_t code = ull__unicode_read(word + at, &length), id = UINT32_MAX;
    if (code < 128) {
      id = t->ascii_ids[code];
    } else if (!ull__vocabulary_find(&t->vocabulary, word + at, length, &id)) {
      id = UINT32_MAX;
    }
    if (id == UINT32_MAX) {
      add_unknown(e, word + at, length, &run);
    } else {
      close_unknown(e, &run);
      add_symbol(e, id);
    }
  }
  close_unknown(e, &run);
}

/* The numbers of a word into e->symbols. */
static ull_status merge_word(ull__encoder *e, const uint8_t *word, size_t bytes) {
  const ull__tokenizer *t = e->tokenizer;
  uint32_t whole;
  e->symbols.count = 0;
  ULL__TRY(ull__vector_reserve(&e->symbols, bytes + 1));
  if (t->ignores_merges && ull__vocabulary_find(&t->vocabulary, word, bytes, &whole)) {
    add_symbol(e, whole);
    return ULL_OK;
  }
  if (t->byte_level) {
    for (size_t i = 0; i < bytes; i++) add_symbol(e, t->byte_ids[word[i]]);
  } else {
    split_into_characters(e, word, bytes);
  }
  return ull__merges_apply(&t->merges, &e->room, e->symbols.items, e->symbols.count,
                           &e->symbols.count);
}

static ull_status append(ull__token_list *out, const uint32_t *ids, size_t count) {
  ULL__TRY(ull__vector_reserve(out, count));
  for (size_t i = 0; i < count; i++) out->items[out->count + i] = ids[i];
  out->count += count;
  return ULL_OK;
}

static void keep(cached_word *place, const uint8_t *word, size_t bytes,
                 const ull__token_list *symbols) {
  if (symbols->count > CACHED_TOKENS) return;
  place->length = (uint8_t)bytes;
  place->count = (uint8_t)symbols->count;
  memcpy(place->text, word, bytes);
  memcpy(place->ids, symbols->items, symbols->count * sizeof *symbols->items);
}

static ull_status encode_word(ull__encoder *e, const uint8_t *word, size_t bytes,
                              ull__token_list *out) {
  cached_word *place = NULL;
  if (bytes <= CACHED_BYTES) {
    place = &e->cache[ull__hash_bytes(word, bytes) & (CACHE_PLACES - 1)];
    if (place->length == bytes && memcmp(place->text, word, bytes) == 0)
      return append(out, place->ids, place->count);
  }
  ULL__TRY(merge_word(e, word, bytes));
  if (place != NULL) keep(place, word, bytes, &e->symbols);
  return append(out, e->symbols.items, e->symbols.count);
}

/* ---- a piece between added tokens ---- */

static bool begins_with(const uint8_t *text, size_t bytes, const ull__short_text *what) {
  return bytes >= what->length && memcmp(text, what->bytes, what->length) == 0;
}

/* `is_first`: the whole text begins here. */
static ull_status mark_spaces(ull__encoder *e, bool is_first, bool continues, const uint8_t **text,
                              size_t *bytes) {
  static const ull__short_text space = {.bytes = " ", .length = 1};
  const ull__tokenizer *t = e->tokenizer;
  if (t->replaces_spaces) {
    ULL__TRY(ull__bytes_replace(*text, *bytes, &space, &t->mark, &e->replaced));
    *text = e->replaced.items;
    *bytes = e->replaced.count;
  }
  bool wanted = t->prepend == ULL__PREPEND_ALWAYS || (t->prepend == ULL__PREPEND_FIRST && is_first);
  if (!wanted || continues || begins_with(*text, *bytes, &t->mark)) return ULL_OK;
  e->marked.count = 0;
  ULL__TRY(ull__bytes_add(&e->marked, t->mark.bytes, t->mark.length));
  ULL__TRY(ull__bytes_add(&e->marked, *text, *bytes));
  *text = e->marked.items;
  *bytes = e->marked.count;
  return ULL_OK;
}

static ull_status encode_piece(ull__encoder *e, const uint8_t *text, size_t bytes, bool is_first,
                               bool continues, ull__token_list *out) {
  if (bytes == 0) return ULL_OK;
  ULL__TRY(mark_spaces(e, is_first, continues, &text, &bytes));
  for (size_t at = 0; at < bytes;) {
    size_t length = ull__words_next(e->tokenizer->words, text + at, bytes - at);
    ULL__TRY(encode_word(e, text + at, length, out));
    at += length;
  }
  return ULL_OK;
}

/* A token may lie in the spaces that the one before it took along: Hugging Face's library has both,
 * and goes on behind the second. */
static size_t bytes_before(const ull__added_match *match, size_t taken) {
  return match->begin > taken ? match->begin - taken : 0;
}

/* A piece between added tokens that are looked for in the text as it is. */
static ull_status encode_normalized(ull__encoder *e, const uint8_t *raw, size_t raw_bytes,
                                    bool is_first, bool continues, ull__token_list *out) {
  const ull__tokenizer *t = e->tokenizer;
  const uint8_t *text;
  size_t bytes, taken = 0, from = 0;
  ull__added_match match;
  ULL__TRY(ull__tokenizer_normalize(t, raw, raw_bytes, continues, e->normalized, &text, &bytes));
  while (ull__added_tokens_find(&t->added_normalized, text, bytes, from, taken, &match, &from)) {
    ULL__TRY(encode_piece(e, text + taken, bytes_before(&match, taken), is_first && taken == 0,
                          continues && taken == 0, out));
    ULL__TRY(append(out, &match.id, 1));
    taken = match.end;
  }
  return encode_piece(e, text + taken, bytes - taken, is_first && taken == 0,
                      continues && taken == 0, out);
}

static ull_status encode_text(ull__encoder *e, const uint8_t *text, size_t bytes, bool continues,
                              ull__token_list *out) {
  size_t taken = 0, from = 0;
  ull__added_match match;
  while (ull__added_tokens_find(&e->tokenizer->added, text, bytes, from, taken, &match, &from)) {
    ULL__TRY(encode_normalized(e, text + taken, bytes_before(&match, taken), taken == 0,
                               continues && taken == 0, out));
    ULL__TRY(append(out, &match.id, 1));
    taken = match.end;
  }
  return encode_normalized(e, text + taken, bytes - taken, taken == 0, continues && taken == 0,
                           out);
}

static ull_status encode_bytes(const uint8_t *text, size_t bytes, ull__token_list *out) {
  ULL__TRY(ull__vector_reserve(out, bytes));
  for (size_t i = 0; i < bytes; i++) out->items[out->count + i] = text[i];
  out->count += bytes;
  return ULL_OK;
}

ull_status ull__encode(ull__encoder *encoder, const void *text, size_t bytes, bool continues,
                       ull__token_list *out) {
  if (encoder->tokenizer->is_bytes) return encode_bytes(text, bytes, out);
  if (ull__unicode_valid_prefix(text, bytes) == bytes)
    return encode_text(encoder, text, bytes, continues, out);
  encoder->repaired.count = 0;
  ULL__TRY(ull__vector_reserve(&encoder->repaired, 3 * bytes));
  encoder->repaired.count = ull__unicode_repair(text, bytes, encoder->repaired.items);
  return encode_text(encoder, encoder->repaired.items, encoder->repaired.count, continues, out);
}
