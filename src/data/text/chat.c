/* What the assistant says is learnt, with the token or line end that closes it; headers, and what
 * others say, are not. */
#include "data/text/chat.h"

#include <string.h>

#include "base/error.h"

typedef struct taker {
  ull__take_part take;
  void *context;
} taker;

static ull_status take(const taker *t, const char *text, size_t bytes, bool counts) {
  return bytes > 0 ? t->take(t->context, text, bytes, counts) : ULL_OK;
}

static ull_status take_text(const taker *t, const char *text, bool counts) {
  return take(t, text, strlen(text), counts);
}

ull__chat ull__chat_choose(const ull__tokenizer *tokenizer) {
  if (ull__tokenizer_find(tokenizer, "<|im_start|>") >= 0) return ULL__CHAT_CHATML;
  if (ull__tokenizer_find(tokenizer, "<|start_header_id|>") >= 0) return ULL__CHAT_LLAMA3;
  return ULL__CHAT_PLAIN;
}

/* What stands around a message. */
static const struct {
  const char *before_role, *before_content, *behind_content, *behind_all;
  bool trims;
} forms[] = {
    [ULL__CHAT_AUTO] = {"", ": ", "\n", "", false},
    [ULL__CHAT_PLAIN] = {"", ": ", "\n", "", false},
    [ULL__CHAT_CHATML] = {"<|im_start|>", "\n", "<|im_end|>", "\n", false},
    [ULL__CHAT_LLAMA3] = {"<|start_header_id|>", "<|end_header_id|>\n\n", "<|eot_id|>", "", true},
};

static bool is_blank(char letter) {
  return letter == ' ' || (letter >= '\t' && letter <= '\r');
}

static ull_status take_string(const taker *t, const json_t *string, bool counts) {
  return take(t, json_string_value(string), json_string_length(string), counts);
}

static ull_status take_content(const taker *t, const json_t *string, ull__chat chat, bool counts) {
  const char *text = json_string_value(string);
  size_t bytes = json_string_length(string);
  if (forms[chat].trims) {
    while (bytes > 0 && is_blank(text[bytes - 1])) bytes--;
    while (bytes > 0 && is_blank(text[0])) {
      text++;
      bytes--;
    }
  }
  return take(t, text, bytes, counts);
}

/* A text, or a list of parts with texts. */
static ull_status take_contents(const taker *t, const json_t *content, ull__chat chat,
                                bool counts) {
  size_t index;
  json_t *part;
  if (json_is_string(content)) return take_content(t, content, chat, counts);
  if (!json_is_array(content)) return ULL__FAIL(ULL_ERROR_DATA, "a message has no 'content'");
  json_array_foreach(content, index, part) {
    const json_t *text = json_object_get(part, "text");
    if (!json_is_string(text)) return ULL__FAIL(ULL_ERROR_DATA, "a part of a message is not text");
    ULL__TRY(take_content(t, text, chat, counts));
  }
  return ULL_OK;
}

/* The header is one text, so that it is tokenised as a whole. */
static ull_status take_header(const taker *t, const json_t *role, ull__chat chat) {
  char header[160];
  size_t before = strlen(forms[chat].before_role), length = json_string_length(role);
  size_t behind = strlen(forms[chat].before_content);
  if (length > 64) return ULL__FAIL(ULL_ERROR_DATA, "a role of %zu bytes", length);
  memcpy(header, forms[chat].before_role, before);
  memcpy(header + before, json_string_value(role), length);
  memcpy(header + before + length, forms[chat].before_content, behind);
  return take(t, header, before + length + behind, false);
}

static ull_status take_message(const taker *t, const json_t *message, ull__chat chat,
                               bool *counts) {
  const json_t *role = json_object_get(message, "role");
  if (!json_is_string(role)) return ULL__FAIL(ULL_ERROR_DATA, "a message has no 'role'");
  *counts = strcmp(json_string_value(role), "assistant") == 0;
  ULL__TRY(take_header(t, role, chat));
  ULL__TRY(take_contents(t, json_object_get(message, "content"), chat, *counts));
  ULL__TRY(take_text(t, forms[chat].behind_content, *counts));
  return take_text(t, forms[chat].behind_all, false);
}

static ull_status take_messages(const taker *t, const json_t *messages, ull__chat chat,
                                bool *counts_end) {
  size_t index;
  json_t *message;
  json_array_foreach(messages, index, message) ULL__TRY(take_message(t, message, chat, counts_end));
  return ULL_OK;
}

ull_status ull__chat_parts(const json_t *line, const char *field, ull__chat chat,
                           ull__take_part take_part, void *context, bool *counts_end) {
  const taker t = {take_part, context};
  const json_t *messages = json_object_get(line, "messages");
  const json_t *text = json_object_get(line, field);
  const json_t *prompt = json_object_get(line, "prompt");
  const json_t *completion = json_object_get(line, "completion");
  *counts_end = true;
  if (json_is_string(text)) return take_string(&t, text, true);
  if (json_is_array(messages)) return take_messages(&t, messages, chat, counts_end);
  if (!json_is_string(prompt) || !json_is_string(completion)) {
    return ULL__FAIL(ULL_ERROR_DATA,
                     "has neither '%.64s', nor 'prompt' and 'completion', nor 'messages'", field);
  }
  ULL__TRY(take_string(&t, prompt, false));
  return take_string(&t, completion, true);
}
