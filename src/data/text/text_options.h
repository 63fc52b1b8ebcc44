/* What stands behind `text:` and `tokens:`: a path, and options behind a question mark,
 * `FILE?key=value&key=value`. */
#ifndef ULL_DATA_TEXT_TEXT_OPTIONS_H
#define ULL_DATA_TEXT_TEXT_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "data/source_text.h"
#include "ullage/data.h"

typedef enum ull__chat {
  ULL__CHAT_AUTO,
  ULL__CHAT_PLAIN,
  ULL__CHAT_CHATML,
  ULL__CHAT_LLAMA3
} ull__chat;

typedef struct ull__text_options {
  ull__source_text text; /* what the texts below point into */
  const char *path;
  int64_t sequence;      /* seq; 0 = not said */
  bool pack;             /* pack */
  const char *buckets;   /* buckets; NULL = none */
  const char *eot;       /* eot: a number or a token's text; NULL = the tokenizer's own */
  int bits;              /* bits: 8, 16, 32 or 64; 0 = what the file says, else 16 */
  int64_t header;        /* header: bytes to skip; -1 = what is recognised */
  int64_t vocabulary;    /* vocab: tokens are below this; 0 = look */
  const char *documents; /* documents: an NPY file of first tokens */
  const char *tokenizer; /* tokenizer */
  const char *field;     /* field: the key of texts in JSON lines */
  bool is_lines;         /* format=jsonl, or a name that ends in .jsonl, .ndjson or .parquet */
  bool is_parquet;       /* it ends in .parquet: `path` is a pattern, and rows are the lines */
  bool skips_bad;        /* bad=skip: JSON lines that cannot be used are counted and left out */
  ull__chat chat;        /* chat */
} ull__text_options;

/* `for_tokens`: which of the two kinds it is; keys of the other are refused. What SRC says goes
 * before what `options` say. ULL_ERROR_USAGE names key and value. Free in any case. */
ull_status ull__text_options_parse(const char *argument, bool for_tokens,
                                   const ull_source_options *options, ull__text_options *out);
void ull__text_options_free(ull__text_options *options);

#endif
