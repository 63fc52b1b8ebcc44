/* Where a text is cut into words before its symbols are merged: the regular expressions of known
 * tokenizers, each as a function of its own. A pattern that is not known word for word is refused
 * where the tokenizer is read: nearly right would be other tokens. */
#ifndef ULL_DATA_TEXT_WORDS_H
#define ULL_DATA_TEXT_WORDS_H

#include <stddef.h>
#include <stdint.h>

typedef enum ull__word_pattern {
  ULL__WORDS_WHOLE,  /* the text is one word */
  ULL__WORDS_GPT2,   /* GPT-2: contractions, letters, numbers, others, each with a space before */
  ULL__WORDS_LLAMA3, /* Llama 3: numbers of up to three digits, line ends apart */
  ULL__WORDS_QWEN2,  /* the same with single digits */
  ULL__WORDS_SPACES, /* before every run of U+2581, which stands for spaces */
  ULL__WORDS_SPACE,  /* before every U+2581 */
} ull__word_pattern;

/* The pattern whose regular expression this is; ULL__WORDS_WHOLE for an unknown one. */
ull__word_pattern ull__words_find(const char *expression);

/* Bytes of the word that valid UTF-8 begins with; bytes > 0. */
size_t ull__words_next(ull__word_pattern pattern, const uint8_t *text, size_t bytes);

#endif
