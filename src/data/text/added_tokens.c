/* Node 0 is the root; its children are looked up by a table, those of others in a list. */
#include "data/text/added_tokens.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/vector.h"
#include "data/text/unicode.h"

typedef struct ull__added_node {
  uint32_t child, sibling; /* 0 = none */
  uint32_t token;          /* index + 1; 0 = no token ends here */
  uint8_t byte;
} node;

enum { TABLE = 257 }; /* the root, and a node for each first byte */

static ull_status start(ull__added_tokens *tokens) {
  if (tokens->node_count > 0) return ULL_OK;
  ULL__TRY(ull__vector_grow((void **)&tokens->nodes, &tokens->node_capacity, 0, TABLE,
                            sizeof *tokens->nodes));
  memset(tokens->nodes, 0, TABLE * sizeof *tokens->nodes);
  tokens->node_count = TABLE;
  return ULL_OK;
}

static uint32_t find_child(const ull__added_tokens *tokens, uint32_t at, uint8_t byte) {
  if (at == 0) return 1u + byte;
  for (uint32_t child = tokens->nodes[at].child; child != 0; child = tokens->nodes[child].sibling) {
    if (tokens->nodes[child].byte == byte) return child;
  }
  return 0;
}

static ull_status add_child(ull__added_tokens *tokens, uint32_t at, uint8_t byte, uint32_t *out) {
  if (tokens->node_count >= UINT32_MAX / 2)
    return ULL__FAIL(ULL_ERROR_DATA, "the added tokens are too many");
  ULL__TRY(ull__vector_grow((void **)&tokens->nodes, &tokens->node_capacity, tokens->node_count, 1,
                            sizeof *tokens->nodes));
  *out = (uint32_t)tokens->node_count++;
  tokens->nodes[*out] = (node){.sibling = tokens->nodes[at].child, .byte = byte};
  tokens->nodes[at].child = *out;
  return ULL_OK;
}

ull_status ull__added_tokens_put(ull__added_tokens *tokens, const uint8_t *text, size_t length,
                                 const ull__added_token *token) {
  uint32_t at = 0;
  if (length == 0) return ULL_OK;
  if (length > ULL__ADDED_TOKEN_MOST_BYTES)
    return ULL__FAIL(ULL_ERROR_DATA, "an added token of %zu bytes; %d are allowed", length,
                     ULL__ADDED_TOKEN_MOST_BYTES);
  ULL__TRY(start(tokens));
  for (size_t i = 0; i < length; i++) {
    uint32_t child = find_child(tokens, at, text[i]);
    if (child == 0) ULL__TRY(add_child(tokens, at, text[i], &child));
    at = child;
  }
  ULL__TRY(ull__vector_grow((void **)&tokens->tokens, &tokens->capacity, tokens->count, 1,
                            sizeof *tokens->tokens));
  tokens->tokens[tokens->count++] = *token;
  tokens->nodes[at].token = (uint32_t)tokens->count;
  return ULL_OK;
}

void ull__added_tokens_free(ull__added_tokens *tokens) {
  ull__free(tokens->nodes);
  ull__free(tokens->tokens);
  *tokens = (ull__added_tokens){0};
}

/* The longest token at `at`; NULL where there is none. */
static const ull__added_token *match_at(const ull__added_tokens *tokens, const uint8_t *text,
                                        size_t bytes, size_t at, size_t *end) {
  uint32_t place = 0, found = 0;
  for (size_t i = at; i < bytes; i++) {
    place = find_child(tokens, place, text[i]);
    if (place == 0) break;
    if (tokens->nodes[place].token != 0) {
      found = tokens->nodes[place].token;
      *end = i + 1;
    }
    if (tokens->nodes[place].child == 0) break;
  }
  return found ? &tokens->tokens[found - 1] : NULL;
}

static size_t previous(const uint8_t *text, size_t at) {
  do at--;
  while (at > 0 && (text[at] & 0xc0) == 0x80);
  return at;
}

static ull__unicode_class class_at(const uint8_t *text, size_t at, size_t *length) {
  return ull__unicode_class_of(ull__unicode_read(text + at, length));
}

static void strip(const ull__added_token *token, const uint8_t *text, size_t bytes, size_t taken,
                  ull__added_match *match) {
  size_t length;
  while (token->strips_before && match->begin > taken) {
    size_t at = previous(text, match->begin);
    if (at < taken || class_at(text, at, &length) != ULL__UNICODE_SPACE) break;
    match->begin = at;
  }
  while (token->strips_behind && match->end < bytes) {
    if (class_at(text, match->end, &length) != ULL__UNICODE_SPACE) break;
    match->end += length;
  }
}

bool ull__added_tokens_find(const ull__added_tokens *tokens, const uint8_t *text, size_t bytes,
                            size_t from, size_t taken, ull__added_match *match, size_t *next) {
  if (tokens->count == 0) return false;
  for (size_t at = from; at < bytes; at++) {
    const node *first = &tokens->nodes[1u + text[at]];
    size_t end = at;
    if (first->child == 0 && first->token == 0) continue;
    const ull__added_token *token = match_at(tokens, text, bytes, at, &end);
    if (token == NULL) continue;
    *next = end;
    *match = (ull__added_match){at, end, token->id};
    strip(token, text, bytes, taken, match);
    return true;
  }
  return false;
}
