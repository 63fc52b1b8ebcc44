/* Tokens one after another, and where documents begin among them: a file of the user's, or what was
 * made of a text and kept. Nothing is in memory; any thread reads at any place. */
#ifndef ULL_DATA_TEXT_TOKEN_STREAM_H
#define ULL_DATA_TEXT_TOKEN_STREAM_H

#include "data/kept_file.h"
#include "data/text/text_options.h"

/* Stands for a target that the loss leaves out. */
enum { ULL__IGNORED_TARGET = -100 };

/* numbers[] of kept files that hold documents (and tokens, where they were made of a text) */
enum {
  ULL__STREAM_TOKENS,    /* how many */
  ULL__STREAM_WIDTH,     /* bytes of one */
  ULL__STREAM_MASKS,     /* 1: the highest bit marks tokens that are no targets */
  ULL__STREAM_MOST,      /* no token is larger */
  ULL__STREAM_EOT,       /* what ends a document */
  ULL__STREAM_DOCUMENTS, /* how many */
  ULL__STREAM_EMPTY,     /* texts left out, for there was nothing in them to learn */
  ULL__STREAM_BAD,       /* lines left out, for they could not be read */
};

/* Sections: tokens; first tokens of documents as uint64, and behind them the number of tokens. */
enum { ULL__STREAM_SECTION_TOKENS, ULL__STREAM_SECTION_DOCUMENTS };

typedef struct ull__token_stream {
  ull__data_file file; /* the user's tokens; closed where they are kept */
  ull__kept kept;      /* closed where there is nothing but the user's tokens */
  ull__content tokens; /* in one of the two */
  int width;
  bool has_masks;
  uint64_t count;
  uint64_t most;
  uint64_t eot;
  uint64_t documents; /* 0: nothing is known of them */
  uint64_t empty, bad;
} ull__token_stream;

/* `tokens:FILE`. Close also after a failure. */
ull_status ull__token_stream_open_file(const ull__text_options *options, ull__token_stream *out);

/* `text:FILE`: tokenised where that has not been done. */
ull_status ull__token_stream_open_text(const ull__text_options *options, ull__token_stream *out);
void ull__token_stream_close(ull__token_stream *stream);

/* Copies tokens [first, first + count), or as targets, where those that are none become
 * ULL__IGNORED_TARGET. ULL_ERROR_DATA: beyond the end, or a token that is larger than `most`. */
ull_status ull__token_stream_read(const ull__token_stream *stream, uint64_t first, uint64_t count,
                                  bool as_targets, int64_t *to);

/* Reads the first tokens of documents [first, first + count], one more than documents. */
ull_status ull__token_stream_documents(const ull__token_stream *stream, uint64_t first,
                                       uint64_t count, uint64_t *to);

/* Takes numbers and tokens from stream->kept. */
ull_status ull__token_stream_use_kept(ull__token_stream *stream);

#endif
