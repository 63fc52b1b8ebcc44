/* Lines of JSON as texts in parts, of which the loss counts some: `text`; `prompt` and
 * `completion`; `messages` with roles. */
#ifndef ULL_DATA_TEXT_CHAT_H
#define ULL_DATA_TEXT_CHAT_H

#include "base/json.h"
#include "data/text/text_options.h"
#include "data/text/tokenizer.h"

/* Takes one part of a document. `counts`: its tokens are targets. */
typedef ull_status (*ull__take_part)(void *context, const char *text, size_t bytes, bool counts);

/* The form of conversations that suits the tokenizer's tokens, where none is said. */
ull__chat ull__chat_choose(const ull__tokenizer *tokenizer);

/* Hands out the parts of a line in order; *counts_end says whether the end of the document is a
 * target. ULL_ERROR_DATA says what is wrong with the line. */
ull_status ull__chat_parts(const json_t *line, const char *field, ull__chat chat,
                           ull__take_part take, void *context, bool *counts_end);

#endif
