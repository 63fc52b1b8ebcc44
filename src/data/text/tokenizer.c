/* A tokenizer's life, and what follows from its tables: where texts may be cut, what ends them. */
#include "data/text/tokenizer.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"
#include "data/content.h"
#include "data/text/tokenizer_internal.h"
#include "data/text/unicode.h"

/* Several times the largest published ones. */
#define TOKENIZER_LIMIT_BYTES ((uint64_t)256 << 20)

enum { HASH_BYTES = 16384 };

static const ull__short_text space_mark = {.bytes = "\xe2\x96\x81", .length = 3};

/* ---- cuts ---- */

/* Whether a symbol made by merging holds U+2581 behind something else. */
static bool holds_late_mark(const uint8_t *text, size_t length) {
  bool other = false;
  for (size_t at = 0, bytes; at < length; at += bytes) {
    bytes = 1;
    bool is_mark = length - at >= 3 && memcmp(text + at, space_mark.bytes, 3) == 0;
    if (is_mark && other) return true;
    if (is_mark) bytes = 3;
    other |= !is_mark;
  }
  return false;
}

/* Symbols of characters: no merge may reach over a cut. */
static void study_merges(ull__tokenizer *t) {
  bool crosses_spaces = false, crosses_lines = false;
  for (size_t i = 0; i < t->merges.slot_count; i++) {
    size_t length;
    if (t->merges.slots[i].id == UINT32_MAX) continue;
    const uint8_t *text = ull__vocabulary_text(&t->vocabulary, t->merges.slots[i].id, &length);
    crosses_spaces |= holds_late_mark(text, length);
    crosses_lines |= memchr(text, '\n', length) != NULL;
  }
  uint32_t id;
  bool has_mark = ull__vocabulary_find(&t->vocabulary, space_mark.bytes, 3, &id);
  bool keeps_lines = t->falls_back_to_bytes || t->ascii_ids['\n'] != UINT32_MAX;
  bool whole = t->words == ULL__WORDS_WHOLE;
  t->cuts_at_spaces = (!crosses_spaces && has_mark && !t->ignores_merges) || !whole;
  t->cuts_at_lines = !crosses_lines && keeps_lines && !t->ignores_merges;
  if (whole && t->cuts_at_spaces) t->words = ULL__WORDS_SPACES;
}

/* Whether what stands behind an added token depends on its being there. */
static bool changes_what_follows(const ull__tokenizer *t) {
  bool changes = t->prepend == ULL__PREPEND_ALWAYS;
  for (size_t i = 0; i < t->step_count; i++) changes |= t->steps[i].pattern.length == 0;
  for (size_t i = 0; i < t->added.count; i++) changes |= t->added.tokens[i].strips_behind;
  for (size_t i = 0; i < t->added_normalized.count; i++)
    changes |= t->added_normalized.tokens[i].strips_behind;
  return changes;
}

static bool takes_lines(const ull__added_tokens *added) {
  for (size_t i = 0; i < added->count; i++) {
    if (added->tokens[i].strips_before) return true;
  }
  return false;
}

/* Added tokens may hold what looks like a cut, and stand before one. */
static void study_added(ull__tokenizer *t) {
  const ull__vocabulary *names = &t->added_names;
  bool changes = changes_what_follows(t);
  if (takes_lines(&t->added) || takes_lines(&t->added_normalized)) t->cuts_at_lines = false;
  for (size_t i = 0; i < names->count; i++) {
    const uint8_t *text = names->bytes + names->entries[i].at;
    size_t length = names->entries[i].length;
    for (size_t k = 0; k + 1 < length; k++) {
      if (text[k] != ' ' && text[k + 1] == ' ') t->cuts_at_spaces = false;
    }
    if (memchr(text, '\n', length) != NULL) t->cuts_at_lines = false;
    if (changes) t->ends_added[text[length - 1]] = true;
  }
}

static void study_cuts(ull__tokenizer *t) {
  bool makes_marks = t->replaces_spaces;
  for (size_t i = 0; i < t->step_count; i++) {
    const ull__normalizer_step *step = &t->steps[i];
    if (step->pattern.length == 0) continue;
    bool is_plain = step->pattern.length == 1 && step->pattern.bytes[0] == ' ' &&
                    step->text.length == 3 && memcmp(step->text.bytes, space_mark.bytes, 3) == 0;
    if (!is_plain) return;
    makes_marks = true;
  }
  if (t->byte_level) {
    t->cuts_at_spaces = t->cuts_at_lines = t->words != ULL__WORDS_WHOLE && !makes_marks;
  } else if (makes_marks) {
    study_merges(t);
  }
  study_added(t);
}

/* Whether `text` is one character, and neither a space nor what stands for one. */
static bool is_solid(const uint8_t *text, size_t bytes) {
  size_t length;
  if (bytes == 0 || bytes > 4 || ull__unicode_valid_prefix(text, bytes) != bytes) return false;
  uint32_t code = ull__unicode_read(text, &length);
  return length == bytes && code != 0x2581 && ull__unicode_class_of(code) != ULL__UNICODE_SPACE;
}

static bool is_solid_before(const ull__tokenizer *t, const uint8_t *text, size_t at) {
  size_t begin = at > 0 ? at - 1 : 0;
  if (t->ends_added[text[begin]]) return false;
  while (begin > 0 && (text[begin] & 0xc0) == 0x80) begin--;
  return is_solid(text + begin, at - begin);
}

static bool is_solid_behind(const uint8_t *text, size_t at, size_t bytes) {
  size_t length;
  ull__unicode_read(text + at, &length);
  return bytes - at >= length && is_solid(text + at, length);
}

size_t ull__tokenizer_find_cut(const ull__tokenizer *t, const uint8_t *text, size_t bytes) {
  if (t->is_bytes) return bytes;
  for (size_t at = bytes > 0 ? bytes - 1 : 0; at > 0; at--) {
    if (t->cuts_at_spaces && text[at] == ' ' && is_solid_before(t, text, at)) return at;
    /* A line end alone. */
    if (t->cuts_at_lines && text[at - 1] == '\n' && is_solid_before(t, text, at - 1) &&
        is_solid_behind(text, at, bytes))
      return at;
  }
  return 0;
}

/* ---- life ---- */

static void hash_bytes(const char *json, size_t bytes, char hash[65]) {
  ull__sha256 state;
  ull__sha256_begin(&state);
  ull__sha256_add(&state, json, bytes);
  ull__sha256_end_hex(&state, hash);
}

static ull_status parse(ull__tokenizer *t, const char *json, size_t bytes, const char *name) {
  json_t *root;
  hash_bytes(json, bytes, t->hash);
  ULL__TRY(ull__json_parse(json, bytes, name, &root));
  ull_status status = ull__tokenizer_read(t, root);
  json_decref(root);
  if (status != ULL_OK) return ull__error_context("%s", name);
  study_cuts(t);
  return ULL_OK;
}

ull_status ull__tokenizer_parse(const char *json, size_t bytes, const char *name,
                                ull__tokenizer **out) {
  ull__tokenizer *t = ull__alloc(1, sizeof *t);
  *out = NULL;
  if (t == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  ull_status status = parse(t, json, bytes, name);
  if (status != ULL_OK) {
    ull__tokenizer_close(t);
    return status;
  }
  *out = t;
  return ULL_OK;
}

static ull_status open_bytes(ull__tokenizer **out) {
  ull__tokenizer *t = ull__alloc(1, sizeof *t);
  if (t == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  t->is_bytes = true;
  t->unknown = ULL__TOKENIZER_NONE;
  snprintf(t->hash, sizeof t->hash, "bytes");
  *out = t;
  return ULL_OK;
}

static ull_status cannot_read(const char *path) {
  ull__error_holder("--tokenizer %s", path);
  return ull__error_change("give the path of a tokenizer.json, or bytes");
}

ull_status ull__tokenizer_open(const char *text, ull__tokenizer **out) {
  char *json;
  size_t bytes;
  *out = NULL;
  if (strcmp(text, "bytes") == 0) return open_bytes(out);
  if (ull__file_read(text, TOKENIZER_LIMIT_BYTES, &json, &bytes) != ULL_OK)
    return cannot_read(text);
  ull_status status = ull__tokenizer_parse(json, bytes, text, out);
  ull__free(json);
  return status;
}

static ull_status hash_content(const ull__data_file *file, char hash[65]) {
  uint8_t part[HASH_BYTES];
  const ull__content whole = {.file = file, .bytes = file->bytes};
  ull__sha256 state;
  ull__sha256_begin(&state);
  for (uint64_t at = 0; at < whole.bytes; at += sizeof part) {
    uint64_t left = whole.bytes - at;
    size_t count = left < sizeof part ? (size_t)left : sizeof part;
    ULL__TRY(ull__content_read(&whole, at, part, count));
    ull__sha256_add(&state, part, count);
  }
  ull__sha256_end_hex(&state, hash);
  return ULL_OK;
}

ull_status ull__tokenizer_hash_file(const char *text, char hash[65]) {
  ull__data_file file;
  snprintf(hash, 65, "bytes");
  if (strcmp(text, "bytes") == 0) return ULL_OK;
  ull_status status = ull__data_file_open(text, &file);
  if (status != ULL_OK) return cannot_read(text);
  status = hash_content(&file, hash);
  ull__data_file_close(&file);
  return status;
}

void ull__tokenizer_close(ull__tokenizer *t) {
  if (t == NULL) return;
  ull__added_tokens_free(&t->added);
  ull__added_tokens_free(&t->added_normalized);
  ull__vocabulary_free(&t->added_names);
  ull__vocabulary_free(&t->vocabulary);
  ull__merges_free(&t->merges);
  ull__free(t);
}

/* ---- questions ---- */

uint32_t ull__tokenizer_id_limit(const ull__tokenizer *t) {
  uint32_t added = t->added_names.id_limit, own = t->vocabulary.id_limit;
  if (t->is_bytes) return ULL__BYTES_END_OF_TEXT + 1;
  return added > own ? added : own;
}

int64_t ull__tokenizer_find(const ull__tokenizer *t, const char *text) {
  uint32_t id;
  if (t->is_bytes) return ULL__TOKENIZER_NONE;
  if (ull__vocabulary_find(&t->added_names, text, strlen(text), &id)) return id;
  if (ull__vocabulary_find(&t->vocabulary, text, strlen(text), &id)) return id;
  return ULL__TOKENIZER_NONE;
}

int64_t ull__tokenizer_end_of_text(const ull__tokenizer *t) {
  static const char *const usual[] = {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"};
  if (t->is_bytes) return ULL__BYTES_END_OF_TEXT;
  for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
    int64_t id = ull__tokenizer_find(t, usual[i]);
    if (id != ULL__TOKENIZER_NONE) return id;
  }
  return ULL__TOKENIZER_NONE;
}

const uint32_t *ull__tokenizer_prefix(const ull__tokenizer *t, size_t *count) {
  *count = t->prefix_count;
  return t->prefix;
}

const char *ull__tokenizer_hash(const ull__tokenizer *t) {
  return t->hash;
}
