/* A Hugging Face tokenizer.json into a tokenizer.
 *
 * Every part is either one that is known to the letter or refused with its name; what does not
 * change numbers (decoder, truncation, padding, offsets) is passed over. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/vector.h"
#include "data/text/tokenizer_internal.h"
#include "data/text/unicode.h"

static ull_status unsupported(const char *part, const char *what) {
  ULL__FAIL(ULL_ERROR_UNSUPPORTED, "%s '%.100s' is not one that Ullage knows", part, what);
  ull__error_holder("%s", part);
  return ull__error_change("use a tokenizer of GPT-2's or Llama's kind, or tokens:FILE");
}

static ull_status broken(const char *part, const char *why) {
  ULL__FAIL(ULL_ERROR_DATA, "%s: %s", part, why);
  return ull__error_holder("%s", part);
}

static const char *text_of(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : "";
}

static bool is_true(const json_t *object, const char *key, bool standard) {
  const json_t *value = json_object_get(object, key);
  return json_is_boolean(value) ? json_is_true(value) : standard;
}

static bool is_null(const json_t *value) {
  return value == NULL || json_is_null(value);
}

static ull_status read_id(const json_t *value, const char *part, uint32_t *id) {
  json_int_t number = json_is_integer(value) ? json_integer_value(value) : -1;
  if (number < 0 || number >= ULL__VOCABULARY_MOST)
    return broken(part, "a number of a token is missing or out of range");
  *id = (uint32_t)number;
  return ULL_OK;
}

static ull_status read_short(const json_t *value, const char *part, ull__short_text *out) {
  const char *text = json_string_value(value);
  if (text == NULL) return broken(part, "a text is missing");
  out->length = strlen(text);
  if (out->length > ULL__SHORT_TEXT) return unsupported(part, text);
  memcpy(out->bytes, text, out->length);
  return ULL_OK;
}

/* ---- normaliser ---- */

static ull_status read_replace(const json_t *object, ull__normalizer_step *step) {
  const json_t *pattern = json_object_get(json_object_get(object, "pattern"), "String");
  if (pattern == NULL) return unsupported("normalizer", "Replace by a regular expression");
  ULL__TRY(read_short(pattern, "normalizer", &step->pattern));
  if (step->pattern.length == 0) return broken("normalizer", "replaces an empty text");
  return read_short(json_object_get(object, "content"), "normalizer", &step->text);
}

static ull_status read_normalizer(ull__tokenizer *t, const json_t *object, int depth) {
  const char *type = text_of(object, "type");
  size_t index;
  json_t *part;
  if (is_null(object)) return ULL_OK;
  if (depth > 4) return unsupported("normalizer", "a deep sequence");
  if (strcmp(type, "Sequence") == 0) {
    json_array_foreach(json_object_get(object, "normalizers"), index, part)
        ULL__TRY(read_normalizer(t, part, depth + 1));
    return ULL_OK;
  }
  if (t->step_count == ULL__NORMALIZER_STEPS) return unsupported("normalizer", "a long sequence");
  ull__normalizer_step *step = &t->steps[t->step_count++];
  if (strcmp(type, "Replace") == 0) return read_replace(object, step);
  if (strcmp(type, "Prepend") == 0)
    return read_short(json_object_get(object, "prepend"), "normalizer", &step->text);
  return unsupported("normalizer", type);
}

/* ---- pre-tokenizer ---- */

static ull_status read_byte_level(ull__tokenizer *t, const json_t *object) {
  if (t->byte_level) return unsupported("pre_tokenizer", "ByteLevel behind another");
  if (is_true(object, "add_prefix_space", true)) {
    if (t->words != ULL__WORDS_WHOLE || t->replaces_spaces)
      return unsupported("pre_tokenizer", "a prefix space behind another part");
    t->prepend = ULL__PREPEND_ALWAYS;
    t->mark = (ull__short_text){.bytes = " ", .length = 1};
  }
  if (is_true(object, "use_regex", true)) {
    if (t->words != ULL__WORDS_WHOLE) return unsupported("pre_tokenizer", "two splits");
    t->words = ULL__WORDS_GPT2;
  }
  t->byte_level = true;
  return ULL_OK;
}

static ull_status read_split(ull__tokenizer *t, const json_t *object) {
  const char *expression = text_of(json_object_get(object, "pattern"), "Regex");
  ull__word_pattern words = ull__words_find(expression);
  if (words == ULL__WORDS_WHOLE) return unsupported("pre_tokenizer: the pattern", expression);
  if (strcmp(text_of(object, "behavior"), "Isolated") != 0 || is_true(object, "invert", false))
    return unsupported("pre_tokenizer: Split's behavior", text_of(object, "behavior"));
  if (t->words != ULL__WORDS_WHOLE || t->byte_level)
    return unsupported("pre_tokenizer", "two splits");
  t->words = words;
  return ULL_OK;
}

static ull_status read_metaspace(ull__tokenizer *t, const json_t *object) {
  const char *scheme = text_of(object, "prepend_scheme");
  if (scheme[0] == '\0') scheme = is_true(object, "add_prefix_space", true) ? "always" : "never";
  if (t->words != ULL__WORDS_WHOLE || t->byte_level || t->replaces_spaces)
    return unsupported("pre_tokenizer", "Metaspace behind another");
  ULL__TRY(read_short(json_object_get(object, "replacement"), "pre_tokenizer", &t->mark));
  if (strcmp((const char *)t->mark.bytes, "\xe2\x96\x81") != 0)
    return unsupported("pre_tokenizer: Metaspace by", (const char *)t->mark.bytes);
  t->replaces_spaces = true;
  t->prepend = strcmp(scheme, "always") == 0  ? ULL__PREPEND_ALWAYS
               : strcmp(scheme, "first") == 0 ? ULL__PREPEND_FIRST
                                              : ULL__PREPEND_NEVER;
  if (t->prepend == ULL__PREPEND_NEVER && strcmp(scheme, "never") != 0)
    return unsupported("pre_tokenizer: prepend_scheme", scheme);
  if (is_true(object, "split", true)) t->words = ULL__WORDS_SPACE;
  return ULL_OK;
}

static ull_status read_pre_tokenizer(ull__tokenizer *t, const json_t *object, int depth) {
  const char *type = text_of(object, "type");
  size_t index;
  json_t *part;
  if (is_null(object)) return ULL_OK;
  if (strcmp(type, "Sequence") == 0 && depth == 0) {
    json_array_foreach(json_object_get(object, "pretokenizers"), index, part)
        ULL__TRY(read_pre_tokenizer(t, part, depth + 1));
    return ULL_OK;
  }
  if (strcmp(type, "ByteLevel") == 0) return read_byte_level(t, object);
  if (strcmp(type, "Split") == 0) return read_split(t, object);
  if (strcmp(type, "Metaspace") == 0) return read_metaspace(t, object);
  return unsupported("pre_tokenizer", type);
}

/* ---- model ---- */

/* GPT-2 writes bytes as characters: those that print in Latin-1 as themselves, the rest from U+0100
 * on in their order. The byte of a character, or -1. */
static int byte_of_character(uint32_t code) {
  static const int edges[] = {0x21, 0x7f, 0xa1, 0xad, 0xae, 0x100};
  for (int i = 0; i < 6; i += 2) {
    if ((int)code >= edges[i] && (int)code < edges[i + 1]) return (int)code;
  }
  if (code < 0x100) return -1;
  uint32_t left = code - 0x100; /* of the bytes that do not print */
  if (left < 0x21) return (int)left;
  if (left < 0x21 + 0x22) return (int)(left - 0x21 + 0x7f);
  return left == 0x21 + 0x22 ? 0xad : -1;
}

/* The bytes that a byte-level token stands for; false where it is no such token. */
static bool read_bytes(const char *text, ull__byte_list *out) {
  const uint8_t *at = (const uint8_t *)text;
  size_t length;
  out->count = 0;
  for (; *at != 0; at += length) {
    int byte = byte_of_character(ull__unicode_read(at, &length));
    if (byte < 0 || out->count >= out->capacity) return false;
    out->items[out->count++] = (uint8_t)byte;
  }
  return true;
}

/* The text of a token as symbols have it. What cannot be one is put where nothing finds it: behind
 * a byte that no UTF-8 has, in the plain form. */
static ull_status symbol_text(const ull__tokenizer *t, const char *text, ull__byte_list *out) {
  size_t length = strlen(text);
  out->count = 0;
  ULL__TRY(ull__bytes_add(out, text, length));
  if (!t->byte_level || read_bytes(text, out)) return ULL_OK;
  out->count = 0;
  ULL__TRY(ull__bytes_add(out, "\xff\xff\xff\xff", 4));
  return ull__bytes_add(out, text, length);
}

static ull_status read_vocabulary(ull__tokenizer *t, json_t *vocabulary, ull__byte_list *room) {
  const char *text;
  json_t *value;
  if (!json_is_object(vocabulary)) return broken("model", "has no vocabulary");
  json_object_foreach(vocabulary, text, value) {
    uint32_t id;
    ULL__TRY(read_id(value, "model: vocab", &id));
    ULL__TRY(symbol_text(t, text, room));
    ULL__TRY(ull__vocabulary_put(&t->vocabulary, room->items, room->count, id));
  }
  return ULL_OK;
}

/* "a b", or ["a", "b"]. */
static ull_status read_pair(const json_t *merge, char *room, size_t size, const char **left,
                            const char **right) {
  const char *text = json_string_value(merge);
  *left = json_string_value(json_array_get(merge, 0));
  *right = json_string_value(json_array_get(merge, 1));
  if (text == NULL)
    return *left && *right && json_array_size(merge) == 2 ? ULL_OK
                                                          : broken("model: merges", "not a pair");
  const char *space = strchr(text, ' ');
  size_t length = strlen(text);
  if (space == NULL || length >= size || strchr(space + 1, ' '))
    return broken("model: merges", "not a pair");
  memcpy(room, text, length + 1);
  room[space - text] = '\0';
  *left = room;
  *right = room + (space - text) + 1;
  return ULL_OK;
}

static ull_status find_symbol(const ull__tokenizer *t, const char *text, ull__byte_list *room,
                              uint32_t *id) {
  ULL__TRY(symbol_text(t, text, room));
  if (ull__vocabulary_find(&t->vocabulary, room->items, room->count, id)) return ULL_OK;
  return ULL__FAIL(ULL_ERROR_DATA, "model: merges: '%.100s' is not in the vocabulary", text);
}

static ull_status read_merge(ull__tokenizer *t, const json_t *merge, uint32_t rank,
                             ull__byte_list *room, ull__byte_list *whole) {
  char split[4096];
  const char *left, *right;
  uint32_t left_id, right_id, id;
  ULL__TRY(read_pair(merge, split, sizeof split, &left, &right));
  ULL__TRY(find_symbol(t, left, room, &left_id));
  whole->count = 0;
  ULL__TRY(ull__bytes_add(whole, room->items, room->count));
  ULL__TRY(find_symbol(t, right, room, &right_id));
  ULL__TRY(ull__bytes_add(whole, room->items, room->count));
  if (!ull__vocabulary_find(&t->vocabulary, whole->items, whole->count, &id))
    return ULL__FAIL(ULL_ERROR_DATA,
                     "model: merges: '%.100s' with '%.100s' is not in the vocabulary", left, right);
  return ull__merges_put(&t->merges, left_id, right_id, rank, id);
}

static ull_status read_merges(ull__tokenizer *t, const json_t *merges, ull__byte_list *room) {
  ull__byte_list whole = {0};
  ull_status status = json_is_array(merges) ? ULL_OK : broken("model", "has no merges");
  size_t index;
  json_t *merge;
  json_array_foreach(merges, index, merge) {
    if (status == ULL_OK) status = read_merge(t, merge, (uint32_t)index, room, &whole);
  }
  ull__vector_free(&whole);
  return status;
}

/* Byte level: a symbol for every byte. Else the tokens <0x00> to <0xFF>, all or none. */
static ull_status find_bytes(ull__tokenizer *t, bool falls_back) {
  if (!t->byte_level && !falls_back) return ULL_OK;
  for (int byte = 0; byte < 256; byte++) {
    char name[8];
    uint8_t raw = (uint8_t)byte;
    snprintf(name, sizeof name, "<0x%02X>", (unsigned)byte);
    if (t->byte_level
            ? ull__vocabulary_find(&t->vocabulary, &raw, 1, &t->byte_ids[byte])
            : ull__vocabulary_find(&t->vocabulary, name, strlen(name), &t->byte_ids[byte]))
      continue;
    ULL__FAIL(ULL_ERROR_UNSUPPORTED, "model: the vocabulary has no token for byte %s", name);
    return ull__error_holder("model");
  }
  t->falls_back_to_bytes = !t->byte_level;
  return ULL_OK;
}

static void find_ascii(ull__tokenizer *t) {
  for (uint32_t code = 0; code < 128; code++) {
    uint8_t byte = (uint8_t)code;
    if (!ull__vocabulary_find(&t->vocabulary, &byte, 1, &t->ascii_ids[code]))
      t->ascii_ids[code] = UINT32_MAX;
  }
}

static ull_status read_unknown(ull__tokenizer *t, const json_t *model) {
  const char *text = text_of(model, "unk_token");
  uint32_t id;
  t->unknown = ULL__TOKENIZER_NONE;
  if (text[0] == '\0' || t->byte_level) return ULL_OK;
  if (!ull__vocabulary_find(&t->vocabulary, text, strlen(text), &id))
    return broken("model", "its unk_token is not in the vocabulary");
  t->unknown = id;
  return ULL_OK;
}

static ull_status read_model(ull__tokenizer *t, const json_t *model) {
  const char *type = text_of(model, "type");
  ull__byte_list room = {0};
  if (!json_is_object(model)) return broken("model", "is missing");
  if (type[0] != '\0' && strcmp(type, "BPE") != 0) return unsupported("model", type);
  if (!is_null(json_object_get(model, "dropout")) &&
      json_number_value(json_object_get(model, "dropout")) != 0)
    return unsupported("model", "dropout");
  if (text_of(model, "continuing_subword_prefix")[0] || text_of(model, "end_of_word_suffix")[0])
    return unsupported("model", "a prefix or suffix of symbols");
  ull_status status = read_vocabulary(t, json_object_get(model, "vocab"), &room);
  if (status == ULL_OK) status = read_merges(t, json_object_get(model, "merges"), &room);
  ull__vector_free(&room);
  ULL__TRY(status);
  t->ignores_merges = is_true(model, "ignore_merges", false);
  t->fuses_unknown = is_true(model, "fuse_unk", false);
  find_ascii(t);
  ULL__TRY(read_unknown(t, model));
  return find_bytes(t, is_true(model, "byte_fallback", false));
}

/* ---- added tokens and post-processor ---- */

/* Hugging Face's library numbers added tokens itself: one that the vocabulary has keeps its number,
 * others come behind all there are. A file that says otherwise means other numbers. */
static ull_status check_id(const ull__tokenizer *t, const char *text, uint32_t id) {
  ull__byte_list room = {0};
  size_t before = t->added_names.id_limit, own = t->vocabulary.count;
  uint32_t known = (uint32_t)(before > own ? before : own);
  ull_status status = symbol_text(t, text, &room);
  if (status == ULL_OK) ull__vocabulary_find(&t->vocabulary, room.items, room.count, &known);
  ull__vector_free(&room);
  ULL__TRY(status);
  if (known == id) return ULL_OK;
  ULL__FAIL(ULL_ERROR_UNSUPPORTED, "added_tokens: '%.100s' has number %u, where %u comes next",
            text, id, known);
  return ull__error_holder("added_tokens");
}

static ull_status add_normalized(ull__tokenizer *t, const char *text,
                                 const ull__added_token *token) {
  ull__byte_list lists[2] = {{0}, {0}};
  const uint8_t *form;
  size_t length;
  ull_status status = ull__tokenizer_normalize(t, (const uint8_t *)text, strlen(text), false, lists,
                                               &form, &length);
  if (status == ULL_OK) status = ull__added_tokens_put(&t->added_normalized, form, length, token);
  ull__vector_free(&lists[0]);
  ull__vector_free(&lists[1]);
  return status;
}

static ull_status read_added(ull__tokenizer *t, const json_t *object) {
  const char *text = text_of(object, "content");
  ull__added_token token = {.strips_before = is_true(object, "lstrip", false),
                            .strips_behind = is_true(object, "rstrip", false)};
  if (text[0] == '\0') return ULL_OK;
  ULL__TRY(read_id(json_object_get(object, "id"), "added_tokens", &token.id));
  if (is_true(object, "single_word", false)) return unsupported("added_tokens: single_word", text);
  ULL__TRY(check_id(t, text, token.id));
  ULL__TRY(ull__vocabulary_put(&t->added_names, text, strlen(text), token.id));
  if (is_true(object, "normalized", !is_true(object, "special", false)))
    return add_normalized(t, text, &token);
  return ull__added_tokens_put(&t->added, (const uint8_t *)text, strlen(text), &token);
}

static ull_status add_prefix(ull__tokenizer *t, const json_t *ids) {
  size_t index;
  json_t *id;
  json_array_foreach(ids, index, id) {
    if (t->prefix_count == ULL__PREFIX_TOKENS)
      return unsupported("post_processor", "a long template");
    ULL__TRY(read_id(id, "post_processor", &t->prefix[t->prefix_count]));
    t->prefix_count++;
  }
  return ULL_OK;
}

/* Special tokens before the text; those behind it are the end of text's concern. */
static ull_status read_template(ull__tokenizer *t, const json_t *object) {
  size_t index;
  json_t *piece;
  bool has_text = false;
  if (t->has_template) return unsupported("post_processor", "a second TemplateProcessing");
  t->has_template = true;
  json_array_foreach(json_object_get(object, "single"), index, piece) {
    const json_t *special = json_object_get(piece, "SpecialToken");
    if (special == NULL && has_text) return unsupported("post_processor", "a text twice");
    has_text |= special == NULL;
    if (has_text) continue;
    const json_t *known =
        json_object_get(json_object_get(object, "special_tokens"), text_of(special, "id"));
    if (known == NULL) return broken("post_processor", "a special token without numbers");
    ULL__TRY(add_prefix(t, json_object_get(known, "ids")));
  }
  return has_text ? ULL_OK : unsupported("post_processor", "a template without the text");
}

static ull_status read_post_processor(ull__tokenizer *t, const json_t *object, int depth) {
  const char *type = text_of(object, "type");
  size_t index;
  json_t *part;
  if (is_null(object) || strcmp(type, "ByteLevel") == 0) return ULL_OK;
  if (strcmp(type, "TemplateProcessing") == 0) return read_template(t, object);
  if (strcmp(type, "Sequence") == 0 && depth == 0) {
    json_array_foreach(json_object_get(object, "processors"), index, part)
        ULL__TRY(read_post_processor(t, part, depth + 1));
    return ULL_OK;
  }
  return unsupported("post_processor", type);
}

ull_status ull__tokenizer_read(ull__tokenizer *t, const json_t *root) {
  size_t index;
  json_t *added;
  ULL__TRY(read_normalizer(t, json_object_get(root, "normalizer"), 0));
  ULL__TRY(read_pre_tokenizer(t, json_object_get(root, "pre_tokenizer"), 0));
  ULL__TRY(read_model(t, json_object_get(root, "model")));
  json_array_foreach(json_object_get(root, "added_tokens"), index, added)
      ULL__TRY(read_added(t, added));
  return read_post_processor(t, json_object_get(root, "post_processor"), 0);
}
