/* Sources of text for tests: files in a folder of their own, and a cache folder beside them. */
#ifndef TESTS_SUPPORT_TEXT_SOURCES_H
#define TESTS_SUPPORT_TEXT_SOURCES_H

#include "data/source.h"
#include "support/data_files.h"

enum { INPUT, TARGET, POSITION, DOCUMENT }; /* arrays of a source of text */
enum { EOT = 256, IGNORED = -100 };

/* Set up and taken down by a group of tests. */
extern char text_folder[512], text_cache[600];
int set_up_texts(void **state);
int tear_down_texts(void **state);

void check_status(ull_status status);

/* Writes a file and waits until its stamp is older than a clock's tick, so that what is made of it
 * is kept. Returns its path, which lives as path_in says. */
const char *put_text(const char *name, const void *bytes, size_t count);

/* SCHEME:PATH OPTIONS; the first one must open. */
ull_source *open_text_source(const char *scheme, const char *path, const char *options);
ull_status try_text_source(const char *scheme, const char *path, const char *options);

void read_text_array(const ull_source *source, uint64_t sample, int array, int64_t *to);
void expect_text_array(const ull_source *source, uint64_t sample, int array, int count,
                       const int64_t *expected);
#define EXPECT(source, sample, array, ...)                                     \
  expect_text_array(source, sample, array,                                     \
                    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), \
                    (int64_t[]){__VA_ARGS__})

/* Files of a kind in the cache folder, and every file there. */
int count_kept(const char *kind);
void each_kept(void (*visit)(const char *path, void *context), void *context);
void empty_text_cache(void);

uint32_t next_random(uint32_t *state);

/* Many documents: document i is its number in five letters and a random number of others. */
enum { DOCUMENTS = 2000, LENGTH = 48 };
size_t document_text(int i, char text[256]);
const char *put_documents(const char *name);

#endif
