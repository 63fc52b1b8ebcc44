/* Keys of the two kinds, and what they may be. */
#include "data/text/text_options.h"

#include <string.h>

#include "base/error.h"
#include "data/parquet/parts.h"

enum { MOST_SEQUENCE = 1 << 24 };

static const char *const text_keys[] = {"seq",   "pack",   "buckets", "eot",  "tokenizer",
                                        "field", "format", "bad",     "chat", NULL};
static const char *const token_keys[] = {"seq",    "pack",  "buckets",   "eot", "bits",
                                         "header", "vocab", "documents", NULL};

/* One of some words; `standard` where the key is not given. */
static ull_status choose(const ull__source_text *text, const char *key, const char *const *words,
                         int standard, int *out) {
  const char *value = ull__source_text_get(text, key);
  *out = standard;
  for (int i = 0; value != NULL && words[i] != NULL; i++) {
    if (strcmp(words[i], value) != 0) continue;
    *out = i;
    return ULL_OK;
  }
  if (value == NULL) return ULL_OK;
  ULL__FAIL(ULL_ERROR_USAGE, "%s=%.64s is not known", key, value);
  ull__error_holder("%s", key);
  return ull__error_change("use %s=%s or %s=%s", key, words[0], key, words[1]);
}

static ull_status choose_flag(const ull__source_text *text, const char *key, const char *no,
                              const char *yes, bool *out) {
  const char *const words[] = {no, yes, NULL};
  int chosen;
  ull_status status = choose(text, key, words, *out, &chosen);
  *out = chosen == 1;
  return status;
}

static ull_status read_number(const ull__source_text *text, const char *key, uint64_t least,
                              uint64_t most, int64_t *out) {
  uint64_t number;
  if (ull__source_text_get(text, key) == NULL) return ULL_OK;
  ull_status status = ull__source_text_integer(text, key, 0, least, most, &number);
  if (status == ULL_OK) *out = (int64_t)number;
  return status;
}

static ull_status read_token_keys(const ull__source_text *text, ull__text_options *out) {
  static const char *const widths[] = {"8", "16", "32", "64", NULL};
  int width;
  ULL__TRY(choose(text, "bits", widths, -1, &width));
  out->bits = width < 0 ? 0 : 8 << width;
  ULL__TRY(read_number(text, "header", 0, INT64_MAX, &out->header));
  ULL__TRY(read_number(text, "vocab", 1, INT32_MAX, &out->vocabulary));
  out->documents = ull__source_text_get(text, "documents");
  return ULL_OK;
}

static ull_status read_text_keys(const ull__source_text *text, ull__text_options *out) {
  static const char *const chats[] = {"auto", "plain", "chatml", "llama3", NULL};
  int chat;
  const char *tokenizer = ull__source_text_get(text, "tokenizer");
  const char *field = ull__source_text_get(text, "field");
  ULL__TRY(choose(text, "chat", chats, ULL__CHAT_AUTO, &chat));
  out->chat = (ull__chat)chat;
  if (tokenizer != NULL) out->tokenizer = tokenizer;
  if (out->tokenizer == NULL) out->tokenizer = "bytes";
  out->field = field ? field : "text";
  ULL__TRY(choose_flag(text, "bad", "fail", "skip", &out->skips_bad));
  ULL__TRY(choose_flag(text, "format", "text", "jsonl", &out->is_lines));
  if (out->is_lines || !out->is_parquet) return ULL_OK;
  ULL__FAIL(ULL_ERROR_USAGE, "format=text: Parquet has rows, each of which is a document");
  return ull__error_holder("format");
}

static bool ends_in(const char *text, const char *end) {
  size_t length = strlen(text), tail = strlen(end);
  return length >= tail && strcmp(text + length - tail, end) == 0;
}

static ull_status check_forms(const ull__text_options *options, const char *argument) {
  if (!options->pack || options->buckets == NULL) return ULL_OK;
  ULL__FAIL(ULL_ERROR_USAGE, "%s: sequences are packed or in buckets, not both", options->path);
  ull__error_holder("--data %s", argument);
  return ull__error_change("leave out --pack or --buckets");
}

/* Its bytes would pass for words. */
static ull_status refuse_tokens_of_parquet(const ull__text_options *options) {
  ULL__FAIL(ULL_ERROR_UNSUPPORTED, "%s: tokens in Parquet are not read", options->path);
  ull__error_holder("--data tokens:%s", options->path);
  return ull__error_change("use text: where it holds texts, or write the tokens with numpy.save");
}

ull_status ull__text_options_parse(const char *argument, bool for_tokens,
                                   const ull_source_options *options, ull__text_options *out) {
  *out = (ull__text_options){.header = -1,
                             .pack = options->pack,
                             .buckets = options->buckets,
                             .sequence = options->sequence,
                             .tokenizer = options->tokenizer};
  ull__source_text *text = &out->text;
  ULL__TRY(ull__source_text_parse(for_tokens ? "tokens" : "text", argument,
                                  for_tokens ? token_keys : text_keys, text));
  out->path = text->path;
  out->is_parquet = ull__is_parquet_name(out->path);
  if (for_tokens && out->is_parquet) return refuse_tokens_of_parquet(out);
  out->is_lines = out->is_parquet || ends_in(out->path, ".jsonl") || ends_in(out->path, ".ndjson");
  out->eot = ull__source_text_get(text, "eot");
  ULL__TRY(read_number(text, "seq", 1, MOST_SEQUENCE, &out->sequence));
  ULL__TRY(choose_flag(text, "pack", "0", "1", &out->pack));
  if (ull__source_text_get(text, "buckets") != NULL)
    out->buckets = ull__source_text_get(text, "buckets");
  ULL__TRY(check_forms(out, argument));
  ULL__TRY(for_tokens ? read_token_keys(text, out) : read_text_keys(text, out));
  if (out->sequence > 0) return ULL_OK;
  ULL__FAIL(ULL_ERROR_USAGE, "%s: how many tokens a sample has is not said", out->path);
  ull__error_holder("--data %s", argument);
  return ull__error_change("add ?seq=N");
}

void ull__text_options_free(ull__text_options *options) {
  ull__source_text_free(&options->text);
}
