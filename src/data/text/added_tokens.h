/* Tokens that are found in a text as they stand before anything else looks at it: <|endoftext|>,
 * <s> and others that a tokenizer adds to its vocabulary. */
#ifndef ULL_DATA_TEXT_ADDED_TOKENS_H
#define ULL_DATA_TEXT_ADDED_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ullage/status.h"

/* Longer ones are refused: a text of n bytes costs at most n times this. */
enum { ULL__ADDED_TOKEN_MOST_BYTES = 512 };

typedef struct ull__added_token {
  uint32_t id;
  bool strips_before; /* takes the spaces before it along */
  bool strips_behind;
} ull__added_token;

/* A tree over bytes. Zero-initialise; read by any number of threads once it is complete. */
typedef struct ull__added_tokens {
  struct ull__added_node *nodes;
  size_t node_count, node_capacity;
  ull__added_token *tokens;
  size_t count, capacity;
} ull__added_tokens;

/* ULL_ERROR_DATA: too long. A text that is there already gets the new token; empty ones are left
 * out. */
ull_status ull__added_tokens_put(ull__added_tokens *tokens, const uint8_t *text, size_t length,
                                 const ull__added_token *token);
void ull__added_tokens_free(ull__added_tokens *tokens);

typedef struct ull__added_match {
  size_t begin, end; /* with the spaces that it takes along */
  uint32_t id;
} ull__added_match;

/* The first match in text[from, bytes) that begins leftmost, the longest there; `taken` is where
 * the piece before ends, which no match reaches back behind. *next is where to look for the one
 * that follows. False where there is none. */
bool ull__added_tokens_find(const ull__added_tokens *tokens, const uint8_t *text, size_t bytes,
                            size_t from, size_t taken, ull__added_match *match, size_t *next);

#endif
