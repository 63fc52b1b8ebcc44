/* What sources of text keep in the cache folder, and what becomes of it when it, or the file, is
 * damaged; threads, processes, and what is refused. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"
#include "data/kept_file.h"
#include "support/text_sources.h"

/* ---- what is kept ---- */

static void note_inode(const char *path, void *context) {
  struct stat about;
  assert_int_equal(stat(path, &about), 0);
  *(uint64_t *)context = *(uint64_t *)context * 31 + about.st_ino;
}

static void damage_header(const char *path, void *context) {
  FILE *file = fopen(path, "r+b");
  assert_int_equal(fseek(file, 30 + *(int *)context, SEEK_SET), 0);
  fputc(0x5a, file);
  fclose(file);
}

static void cut_file(const char *path, void *context) {
  struct stat about;
  assert_int_equal(stat(path, &about), 0);
  assert_int_equal(truncate(path, about.st_size - *(int *)context), 0);
}

static void test_kept_files(void **state) {
  (void)state;
  empty_text_cache();
  const char *path = put_text("kept.jsonl", "{\"text\":\"abc\"}\n", 15);
  uint64_t before = 0, after = 0;
  ull_source_close(open_text_source("text", path, "?seq=4&pack=1"));
  assert_int_equal(count_kept("text"), 1);
  assert_int_equal(count_kept("sequences"), 1);
  each_kept(note_inode, &before);
  ull_source_close(open_text_source("text", path, "?seq=4&pack=1"));
  each_kept(note_inode, &after);
  assert_true(before == after); /* nothing was made anew */
  for (int place = 0; place < 60; place += 7) {
    each_kept(damage_header, &place);
    ull_source *source = open_text_source("text", path, "?seq=4&pack=1");
    EXPECT(source, 0, TARGET, 'b', 'c', EOT, IGNORED);
    ull_source_close(source);
  }
  int bytes = 1;
  each_kept(cut_file, &bytes);
  ull_source *source = open_text_source("text", path, "?seq=4&pack=1");
  EXPECT(source, 0, TARGET, 'b', 'c', EOT, IGNORED);
  ull_source_close(source);
  path = put_text("kept.jsonl", "{\"text\":\"xyz\"}\n", 15);
  source = open_text_source("text", path, "?seq=4&pack=1");
  EXPECT(source, 0, INPUT, 'x', 'y', 'z', EOT);
  ull_source_close(source);
  assert_int_equal(count_kept("text"), 1);
  each_kept(note_inode, &before);
  write_file(path, "{\"text\":\"new\"}\n", 15); /* too new to be told from a later change */
  source = open_text_source("text", path, "?seq=4&pack=1");
  EXPECT(source, 0, INPUT, 'n', 'e', 'w', EOT);
  ull_source_close(source);
}

typedef struct damage {
  uint32_t random;
} damage;

/* Bytes behind the header; the header's checksum does not cover them. */
static void damage_content(const char *path, void *context) {
  damage *d = context;
  struct stat about;
  assert_int_equal(stat(path, &about), 0);
  FILE *file = fopen(path, "r+b");
  for (int i = 0; i < 3; i++) {
    long first = (long)sizeof(ull__kept_header), room = (long)about.st_size - first;
    assert_int_equal(
        fseek(file, first + (long)(next_random(&d->random) % (uint32_t)room), SEEK_SET), 0);
    fputc((int)(next_random(&d->random) & 255), file);
  }
  fclose(file);
}

/* Whatever a kept file holds, reading stays within it: numbers in range, or an error. */
static void test_damaged_content(void **state) {
  (void)state;
  damage d = {11};
  for (int round = 0; round < 30; round++) {
    empty_text_cache();
    ull_source *source = open_text_source("text", put_documents("damaged.jsonl"), "?seq=48&pack=1");
    each_kept(damage_content, &d);
    for (uint64_t i = 0; i < ull_source_sample_count(source); i++) {
      int64_t to[LENGTH];
      if (ull_source_read(source, i, (size_t)(i % 4), to, NULL) != ULL_OK) continue;
      const ull_array_info *info = ull_source_array(source, (size_t)(i % 4));
      for (int k = 0; k < LENGTH; k++)
        assert_true((to[k] >= 0 && to[k] <= info->maximum) || to[k] == IGNORED);
    }
    ull_source_close(source);
    if (round % 2) continue;
    ull_source_options standard = ull_source_options_default();
    char *text = ull__format("text:%s?seq=32&pack=1", path_in(text_folder, "damaged.jsonl"));
    if (ull_source_open(text, &standard, &source) == ULL_OK) ull_source_close(source);
    ull__free(text);
  }
  empty_text_cache();
}

static void test_nowhere_to_keep(void **state) {
  (void)state;
  const char *path = put_text("homeless.txt", "some text", 9);
  setenv("XDG_CACHE_HOME", path, 1); /* a file */
  assert_int_equal(try_text_source("text", path, "?seq=4"), ULL_ERROR_IO);
  assert_non_null(strstr(ull_error_last()->change, "XDG_CACHE_HOME"));
  setenv("XDG_CACHE_HOME", text_cache, 1);
}

/* ---- threads and processes ---- */

typedef struct reading {
  const ull_source *source;
  uint32_t random;
  uint64_t sum;
} reading;

static void *read_many(void *argument) {
  reading *r = argument;
  uint64_t count = ull_source_sample_count(r->source);
  for (uint64_t i = 0; i < 4 * count; i++) {
    uint64_t sample = i < count ? i : next_random(&r->random) % count;
    for (size_t a = 0; a < 4; a++) {
      int64_t to[LENGTH];
      if (ull_source_read(r->source, sample, a, to, NULL) != ULL_OK) return argument;
      for (int k = 0; k < LENGTH && i < count; k++) r->sum = r->sum * 31 + (uint64_t)to[k];
    }
  }
  return NULL;
}

static void test_threads(void **state) {
  (void)state;
  ull_source *source = open_text_source("text", put_documents("threads.jsonl"), "?seq=48&pack=1");
  reading r[4];
  pthread_t threads[4];
  for (uint32_t i = 0; i < 4; i++) {
    r[i] = (reading){source, i, 0};
    assert_int_equal(pthread_create(&threads[i], NULL, read_many, &r[i]), 0);
  }
  for (int i = 0; i < 4; i++) {
    void *failed;
    pthread_join(threads[i], &failed);
    assert_null(failed);
    assert_true(r[i].sum == r[0].sum);
  }
  uint64_t calls = ull__alloc_count().calls;
  int64_t to[LENGTH];
  for (int a = 0; a < 4; a++) read_text_array(source, 3, a, to);
  assert_int_equal(ull__alloc_count().calls, calls); /* reading takes no memory */
  ull_source_close(source);
}

/* One of several processes makes the file; all see it whole. */
static void test_processes(void **state) {
  (void)state;
  empty_text_cache();
  const char *path = put_documents("processes.jsonl");
  pid_t children[4];
  for (int i = 0; i < 4; i++) {
    children[i] = fork();
    if (children[i] == 0) {
      ull_source_options standard = ull_source_options_default();
      ull_source *source;
      char *text = ull__format("text:%s?seq=48&pack=1", path);
      if (ull_source_open(text, &standard, &source) != ULL_OK) _exit(1);
      reading r = {source, 1, 0};
      _exit(read_many(&r) == NULL ? 0 : 2);
    }
  }
  for (int i = 0; i < 4; i++) {
    int status;
    assert_int_equal(waitpid(children[i], &status, 0), children[i]);
    assert_int_equal(status, 0);
  }
  assert_int_equal(count_kept("text"), 1); /* and no parts are left */
  assert_int_equal(count_kept("sequences"), 1);
}

/* ---- what is refused ---- */

static void test_bad_lines(void **state) {
  (void)state;
  static const char lines[] = "{\"text\":\"good one\"}\n{\"text\":\n[]\n{\"text\":7}\n"
                              "{\"messages\":[{\"content\":\"x\"}]}\n{\"text\":\"\xff\"}\n"
                              "{\"text\":\"good two\"}\n";
  const char *path = put_text("bad.jsonl", lines, sizeof lines - 1);
  assert_int_equal(try_text_source("text", path, "?seq=4"), ULL_ERROR_DATA);
  assert_non_null(strstr(ull_error_last()->message, "bad.jsonl: "));
  assert_non_null(strstr(ull_error_last()->message, "line 2"));
  assert_non_null(strstr(ull_error_last()->change, "bad=skip"));
  ull_source *source = open_text_source("text", path, "?seq=4&bad=skip");
  assert_int_equal(ull_source_sample_count(source), 2);
  assert_non_null(strstr(ull_source_note(source), "5 bad lines left out"));
  ull_source_close(source);
}

static void test_options(void **state) {
  (void)state;
  static const struct {
    const char *scheme, *options, *message;
  } cases[] = {{"text", "", "how many tokens"},     {"text", "?seq=0", "seq"},
               {"text", "?seq=4&bits=16", "bits"},  {"tokens", "?seq=4&chat=plain", "chat"},
               {"text", "?seq=4&pack=2", "pack=2"}, {"text", "?seq=4&chat=none", "chat=none"},
               {"text", "?seq=99999999999", "seq"}, {"tokens", "?seq=4&bits=12", "bits=12"},
               {"tokens", "?seq=4&eot=x", "eot=x"}, {"text", "?seq=4&eot=999", "no token"}};
  const char *path = put_text("options.txt", "some text here", 14);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ull_status status = try_text_source(cases[i].scheme, path, cases[i].options);
    if (status != ULL_ERROR_USAGE || strstr(ull_error_last()->message, cases[i].message) == NULL)
      fail_msg("%s: status %d, %s", cases[i].options, status, ull_error_last()->message);
  }
  assert_int_equal(try_text_source("text", path_in(text_folder, "missing.txt"), "?seq=4"),
                   ULL_ERROR_DATA);
  assert_int_not_equal(try_text_source("text", path, "?seq=4&tokenizer=missing.json"), ULL_OK);
  assert_non_null(strstr(ull_error_last()->change, "tokenizer.json"));
}

/* Memory may run out at any allocation of an open that makes its files, and one that finds them. */
static void test_memory_runs_out(void **state) {
  (void)state;
  const char *path = put_text("memory.txt", "some text, and more of it\n", 26);
  char *text = ull__format("text:%s?seq=4&pack=1", path);
  const ull_source_options standard = ull_source_options_default();
  ull_status status = ULL_ERROR_OUT_OF_MEMORY;
  uint64_t before = ull__alloc_count().live_bytes;
  for (uint64_t n = 1; status != ULL_OK; n++) {
    ull_source *source = NULL;
    ull__alloc_fail_at(n);
    status = ull_source_open(text, &standard, &source);
    ull__alloc_fail_at(0);
    ull_source_close(source);
    assert_int_equal(ull__alloc_count().live_bytes, before);
    if (status != ULL_OK && status != ULL_ERROR_OUT_OF_MEMORY)
      fail_msg("allocation %d: %s", (int)n, ull_error_last()->message);
    assert_true(n < 1000);
  }
  ull__free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_kept_files),      cmocka_unit_test(test_damaged_content),
      cmocka_unit_test(test_nowhere_to_keep), cmocka_unit_test(test_threads),
      cmocka_unit_test(test_processes),       cmocka_unit_test(test_bad_lines),
      cmocka_unit_test(test_options),         cmocka_unit_test(test_memory_runs_out),
  };
  return cmocka_run_group_tests(tests, set_up_texts, tear_down_texts);
}
