/* A word at a time: the alternatives of an expression are tried in their order, as a backtracking
 * matcher does; each is one pass over classes of code points. */
#include "data/text/words.h"

#include <stdbool.h>
#include <string.h>

#include "data/text/unicode.h"

static const struct {
  const char *expression;
  ull__word_pattern pattern;
} known[] = {
    {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
     ULL__WORDS_GPT2},
    {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
     "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     ULL__WORDS_LLAMA3},
    {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
     "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     ULL__WORDS_QWEN2},
};

ull__word_pattern ull__words_find(const char *expression) {
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (strcmp(known[i].expression, expression) == 0) return known[i].pattern;
  }
  return ULL__WORDS_WHOLE;
}

typedef struct reader {
  const uint8_t *text;
  size_t bytes;
} reader;

static const uint8_t ascii_class[128] = {
    ['\t'] = ULL__UNICODE_SPACE,         ['\n'] = ULL__UNICODE_SPACE,
    ['\v'] = ULL__UNICODE_SPACE,         ['\f'] = ULL__UNICODE_SPACE,
    ['\r'] = ULL__UNICODE_SPACE,         [' '] = ULL__UNICODE_SPACE,
    ['0' ... '9'] = ULL__UNICODE_NUMBER, ['A' ... 'Z'] = ULL__UNICODE_LETTER,
    ['a' ... 'z'] = ULL__UNICODE_LETTER,
};

/* The class of the character at `at` and the place behind it; -1 at the end. */
static int class_at(const reader *r, size_t at, size_t *next) {
  size_t length;
  if (at >= r->bytes) return -1;
  if (r->text[at] < 0x80) return *next = at + 1, ascii_class[r->text[at]];
  uint32_t code = ull__unicode_read(r->text + at, &length);
  *next = at + length;
  return (int)ull__unicode_class_of(code);
}

static bool is_line_end(const reader *r, size_t at) {
  return at < r->bytes && (r->text[at] == '\n' || r->text[at] == '\r');
}

/* Behind the run of one class that begins at `at`, at most `most` characters. */
static size_t skip_class(const reader *r, size_t at, int class, size_t most) {
  size_t next;
  while (most-- > 0 && class_at(r, at, &next) == class) at = next;
  return at;
}

static size_t skip_line_ends(const reader *r, size_t at) {
  while (is_line_end(r, at)) at++;
  return at;
}

/* 's 't 'm 'd 're 've 'll at the beginning; 0 for none. Without regard to case, U+017F is an s. */
static size_t match_contraction(const reader *r, bool any_case) {
  static const char *const pairs[] = {"re", "ve", "ll"};
  uint8_t letter[2] = {0, 0};
  if (r->bytes < 2 || r->text[0] != '\'') return 0;
  for (size_t i = 0; i < 2 && i + 1 < r->bytes; i++) {
    letter[i] = r->text[i + 1];
    if (any_case && letter[i] >= 'A' && letter[i] <= 'Z') letter[i] += 'a' - 'A';
  }
  if (strchr("stmd", letter[0]) != NULL) return letter[0] != 0 ? 2 : 0;
  if (any_case && r->bytes > 2 && letter[0] == 0xc5 && letter[1] == 0xbf) return 3;
  for (size_t i = 0; i < 3; i++) {
    if (memcmp(letter, pairs[i], 2) == 0) return 3;
  }
  return 0;
}

/* \s+(?!\S)|\s+ at a space: all spaces but the last before something else, or the only one. */
static size_t match_spaces(const reader *r) {
  size_t at = 0, next = 0, before = 0;
  while (class_at(r, at, &next) == ULL__UNICODE_SPACE) {
    before = at;
    at = next;
  }
  return at == r->bytes || before == 0 ? at : before;
}

static size_t next_gpt2(const reader *r) {
  size_t length = match_contraction(r, false), at = r->text[0] == ' ' ? 1 : 0, next;
  if (length > 0) return length;
  int class = class_at(r, at, &next);
  if (class < 0 || class == ULL__UNICODE_SPACE) return match_spaces(r);
  return skip_class(r, at, class, SIZE_MAX);
}

/* \s*[\r\n]+ at a space: up to the last line end of the run; 0 where there is none. */
static size_t match_line_ends(const reader *r) {
  size_t at = 0, next = 0, end = 0;
  while (class_at(r, at, &next) == ULL__UNICODE_SPACE) {
    if (is_line_end(r, at)) end = next;
    at = next;
  }
  return end;
}

/* [^\r\n\p{L}\p{N}]?\p{L}+; 0 where there is no such word. */
static size_t match_letters(const reader *r) {
  size_t first, next;
  int class = class_at(r, 0, &first);
  if (class == ULL__UNICODE_LETTER) return skip_class(r, 0, class, SIZE_MAX);
  if (class == ULL__UNICODE_NUMBER || is_line_end(r, 0)) return 0;
  if (class_at(r, first, &next) != ULL__UNICODE_LETTER) return 0;
  return skip_class(r, next, ULL__UNICODE_LETTER, SIZE_MAX);
}

static size_t next_llama3(const reader *r, size_t digits) {
  size_t next, length = match_contraction(r, true);
  if (length > 0) return length;
  if ((length = match_letters(r)) > 0) return length;
  int class = class_at(r, 0, &next);
  if (class == ULL__UNICODE_NUMBER) return skip_class(r, 0, class, digits);
  size_t at = r->text[0] == ' ' ? 1 : 0;
  if (class_at(r, at, &next) == ULL__UNICODE_OTHER) {
    return skip_line_ends(r, skip_class(r, at, ULL__UNICODE_OTHER, SIZE_MAX));
  }
  length = match_line_ends(r);
  return length > 0 ? length : match_spaces(r);
}

static bool is_space_mark(const reader *r, size_t at) {
  return r->bytes - at >= 3 && memcmp(r->text + at, "\xe2\x96\x81", 3) == 0;
}

/* The first character, then everything up to the next U+2581; with `runs` neighbours stay together.
 */
static size_t next_marked(const reader *r, bool runs) {
  size_t at = is_space_mark(r, 0) ? 3 : 1;
  while (runs && at >= 3 && at < r->bytes && is_space_mark(r, at)) at += 3;
  while (at < r->bytes) {
    const uint8_t *mark = memchr(r->text + at, 0xe2, r->bytes - at);
    if (mark == NULL) return r->bytes;
    at = (size_t)(mark - r->text);
    if (is_space_mark(r, at)) return at;
    at++;
  }
  return at;
}

size_t ull__words_next(ull__word_pattern pattern, const uint8_t *text, size_t bytes) {
  const reader r = {text, bytes};
  switch (pattern) {
  case ULL__WORDS_GPT2:
    return next_gpt2(&r);
  case ULL__WORDS_LLAMA3:
    return next_llama3(&r, 3);
  case ULL__WORDS_QWEN2:
    return next_llama3(&r, 1);
  case ULL__WORDS_SPACES:
    return next_marked(&r, true);
  case ULL__WORDS_SPACE:
    return next_marked(&r, false);
  default:
    return bytes;
  }
}
