/* The inside of a tokenizer, shared by what reads it (tokenizer_json.c) and what runs it
 * (encoder.c). */
#ifndef ULL_DATA_TEXT_TOKENIZER_INTERNAL_H
#define ULL_DATA_TEXT_TOKENIZER_INTERNAL_H

#include "base/json.h"
#include "data/text/added_tokens.h"
#include "data/text/merges.h"
#include "data/text/tokenizer.h"
#include "data/text/vocabulary.h"
#include "data/text/words.h"

enum { ULL__NORMALIZER_STEPS = 8, ULL__PREFIX_TOKENS = 8, ULL__SHORT_TEXT = 32 };

/* A short text that a normaliser puts in, with its length; texts hold no 0. */
typedef struct ull__short_text {
  uint8_t bytes[ULL__SHORT_TEXT];
  size_t length;
} ull__short_text;

/* Puts `text` in front where `pattern` is empty; else replaces every `pattern` by it. */
typedef struct ull__normalizer_step {
  ull__short_text pattern, text;
} ull__normalizer_step;

typedef enum ull__prepend {
  ULL__PREPEND_NEVER,
  ULL__PREPEND_FIRST,
  ULL__PREPEND_ALWAYS
} ull__prepend;

struct ull__tokenizer {
  bool is_bytes;
  char hash[65];

  ull__added_tokens added;            /* looked for in the text as it is */
  ull__added_tokens added_normalized; /* looked for when it is normalised */
  ull__vocabulary added_names;        /* of both */

  ull__normalizer_step steps[ULL__NORMALIZER_STEPS];
  size_t step_count;

  bool byte_level;      /* symbols are bytes, else characters */
  ull__prepend prepend; /* `mark` before a text that does not begin with it */
  ull__short_text mark; /* what stands for a space: U+2581, or a space */
  bool replaces_spaces; /* by the mark */
  ull__word_pattern words;

  ull__vocabulary vocabulary; /* byte level: of the bytes that a token stands for */
  ull__merges merges;
  bool ignores_merges; /* a word that is a token is that token */
  bool fuses_unknown;
  int64_t unknown; /* ULL__TOKENIZER_NONE: there is none */
  bool falls_back_to_bytes;
  uint32_t byte_ids[256];  /* byte level: of each byte; else of the fallback's tokens */
  uint32_t ascii_ids[128]; /* of single characters; UINT32_MAX: no token */

  uint32_t prefix[ULL__PREFIX_TOKENS];
  size_t prefix_count;
  bool has_template;
  bool cuts_at_spaces, cuts_at_lines; /* for ull__tokenizer_find_cut */
  bool ends_added[256];               /* bytes behind which there is no cut */
};

/* Fills a zeroed tokenizer. */
ull_status ull__tokenizer_read(ull__tokenizer *tokenizer, const json_t *root);

typedef struct ull__byte_list {
  uint8_t *items;
  size_t count, capacity;
} ull__byte_list;

/* Appends bytes. */
ull_status ull__bytes_add(ull__byte_list *list, const void *bytes, size_t count);

/* Empties `out` and fills it with the text in which every `pattern` is replaced. */
ull_status ull__bytes_replace(const uint8_t *text, size_t bytes, const ull__short_text *pattern,
                              const ull__short_text *by, ull__byte_list *out);

/* The text after all steps: `*out` points to it, in one of the two lists or where it was.
 * `continues`: nothing is put in front. */
ull_status ull__tokenizer_normalize(const ull__tokenizer *tokenizer, const uint8_t *text,
                                    size_t bytes, bool continues, ull__byte_list lists[2],
                                    const uint8_t **out, size_t *out_bytes);

#endif
