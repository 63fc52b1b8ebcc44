/* Texts to numbers of tokens: the bytes themselves, or a byte pair encoding read from a Hugging
 * Face tokenizer.json of GPT-2's kind (byte level) or Llama's (Llama 2: characters with byte
 * fallback; Llama 3: byte level). The numbers are those that Hugging Face's own tokenizers give.
 *
 *     text ─▶ added tokens cut out ─▶ normalised ─▶ words ─▶ symbols ─▶ merged
 *
 * A tokenizer is immutable and may be read by any number of threads; each has an encoder of its
 * own, which holds scratch memory and a cache of words of fixed size. */
#ifndef ULL_DATA_TEXT_TOKENIZER_H
#define ULL_DATA_TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ullage/status.h"

typedef struct ull__tokenizer ull__tokenizer;
typedef struct ull__encoder ull__encoder;

enum { ULL__TOKENIZER_NONE = -1, ULL__BYTES_END_OF_TEXT = 256 };

/* `text` is "bytes" or the path of a tokenizer.json. ULL_ERROR_DATA: broken or contradictory;
 * ULL_ERROR_UNSUPPORTED: a part of another kind, which the record names. */
ull_status ull__tokenizer_open(const char *text, ull__tokenizer **out);

/* The same from JSON in memory; `name` is for messages. */
ull_status ull__tokenizer_parse(const char *json, size_t bytes, const char *name,
                                ull__tokenizer **out);
void ull__tokenizer_close(ull__tokenizer *tokenizer); /* NULL is allowed */

/* All numbers are below this. */
uint32_t ull__tokenizer_id_limit(const ull__tokenizer *tokenizer);

/* Of a token by its whole text; ULL__TOKENIZER_NONE where there is none. */
int64_t ull__tokenizer_find(const ull__tokenizer *tokenizer, const char *text);

/* What ends a document: the token that the tokenizer has for it; ULL__TOKENIZER_NONE where it has
 * none of the usual ones. */
int64_t ull__tokenizer_end_of_text(const ull__tokenizer *tokenizer);

/* Numbers that a text begins with (Llama's <s>), as the file's post-processor says. */
const uint32_t *ull__tokenizer_prefix(const ull__tokenizer *tokenizer, size_t *count);

/* What the numbers depend on: SHA-256 of the file, in hexadecimal; or "bytes". */
const char *ull__tokenizer_hash(const ull__tokenizer *tokenizer);

/* The same without reading more than bytes. */
ull_status ull__tokenizer_hash_file(const char *text, char hash[65]);

typedef struct ull__token_list {
  uint32_t *items;
  size_t count, capacity;
} ull__token_list;

ull_status ull__encoder_create(const ull__tokenizer *tokenizer, ull__encoder **out);
void ull__encoder_destroy(ull__encoder *encoder); /* NULL is allowed */

/* Appends the numbers of a text of any bytes to `out`, which the caller frees; without prefix and
 * end. `continues`: an earlier part of the same text went before, so that no space is put in front.
 * Bytes that are no UTF-8 count as U+FFFD, unless bytes are tokens. */
ull_status ull__encode(ull__encoder *encoder, const void *text, size_t bytes, bool continues,
                       ull__token_list *out);

/* Where a long text may be cut without a change of its numbers: the last such place in (0, bytes],
 * or 0 where none is known. The text goes on behind `bytes`. */
size_t ull__tokenizer_find_cut(const ull__tokenizer *tokenizer, const uint8_t *text, size_t bytes);

#endif
