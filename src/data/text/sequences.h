/* Sequences of fixed length from a stream of tokens: what a sample of `text` and `tokens` is.
 *
 * blocks     the stream cut every N tokens; documents are not looked at; the rest is left out
 * documents  a document each, cut at N tokens, filled up
 * packed     documents joined, none of them cut that is no longer than N, filled up
 * buckets    a piece each, filled up to the length of its bucket; the sequences of a bucket are a
 *            run, shorter buckets before longer ones, in each the order of the stream
 *
 * A **piece** is a run of a document's tokens that are inputs, each with the next token as its
 * target. A document of n tokens, its end included, has n - 1 inputs; one longer than N is several
 * pieces, each of which begins at position 0. Pieces in which nothing is a target are left out.
 *
 * Packing takes pieces as they come, PACKING_WINDOW at a time, the longest first, each into the
 * sequence that it fills best (best fit decreasing): which documents meet is a function of their
 * lengths alone, and the documents of a sequence lie near each other. */
#ifndef ULL_DATA_TEXT_SEQUENCES_H
#define ULL_DATA_TEXT_SEQUENCES_H

#include "data/text/buckets.h"
#include "data/text/token_stream.h"

enum { ULL__PACKING_WINDOW = 8192 };

typedef enum ull__sequence_mode {
  ULL__SEQUENCES_BLOCKS,
  ULL__SEQUENCES_DOCUMENTS,
  ULL__SEQUENCES_PACKED,
  ULL__SEQUENCES_BUCKETS
} ull__sequence_mode;

typedef struct ull__piece {
  uint64_t start; /* of the inputs, in the stream */
  uint64_t length;
} ull__piece;

typedef struct ull__sequences {
  const ull__token_stream *stream; /* borrowed */
  ull__sequence_mode mode;
  int64_t length;
  uint64_t count;
  uint64_t pieces, inputs; /* in all sequences */
  uint64_t cut;            /* documents that lost their end, being longer */
  uint64_t silent;         /* pieces left out, for nothing in them is a target */
  ull__kept kept;          /* pieces, and the first piece of each sequence, or the buckets; closed
                              for blocks */
  ull__bucket_lengths buckets; /* count 0: all sequences have `length` */
  uint64_t bucket_samples[ULL_DATA_MAX_BUCKETS];
} ull__sequences;

typedef enum ull__sequence_array {
  ULL__SEQUENCE_INPUTS,    /* tokens; the end of text where there is nothing */
  ULL__SEQUENCE_TARGETS,   /* the next tokens; ULL__IGNORED_TARGET where they do not count */
  ULL__SEQUENCE_POSITIONS, /* within the piece, from 0 */
  ULL__SEQUENCE_DOCUMENTS, /* number of the piece within the sequence, from 0; what fills up has the
                              next number */
  ULL__SEQUENCE_ARRAYS
} ull__sequence_array;

/* Close also after a failure. */
ull_status ull__sequences_open(const ull__token_stream *stream, ull__sequence_mode mode,
                               int64_t length, ull__sequences *out);

/* Sequences in buckets; those whose lengths are not given are chosen by the documents' lengths. */
ull_status ull__sequences_open_buckets(const ull__token_stream *stream, int64_t length,
                                       const ull__bucket_lengths *buckets, ull__sequences *out);
void ull__sequences_close(ull__sequences *sequences);

/* Tokens of a sequence. */
int64_t ull__sequences_length(const ull__sequences *sequences, uint64_t index);

/* Writes one array of one sequence: as many numbers as it has tokens. Thread safe. */
ull_status ull__sequences_read(const ull__sequences *sequences, uint64_t index,
                               ull__sequence_array array, int64_t *to);

/* ---- packing alone ---- */

/* Assigns `count` pieces of lengths 1 to `length` to bins; bin[i] is the bin of piece i, numbered
 * in the order of their first pieces. *bins is how many there are. `count` <= ULL__PACKING_WINDOW.
 */
ull_status ull__pack_pieces(const ull__piece *pieces, size_t count, int64_t length, uint32_t *bin,
                            size_t *bins);

#endif
