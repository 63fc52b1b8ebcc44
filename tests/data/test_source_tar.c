/* Shards are read as they were written: by the system's tar in all its formats, cut anywhere,
 * damaged anywhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/philox.h"
#include "data/source.h"
#include "support/data_trees.h"
#include "support/tar_files.h"

static void system_tars_equal_the_folder(void **state) {
  (void)state;
  char name[600], command[4096], text[2048];
  for (int i = 0; i < 24; i++) {
    int bytes = snprintf(name, sizeof name, "photos/class %c/%02d", "BaC"[i % 3], i);
    if (i % 4 == 1) bytes += sprintf(name + bytes, "%0*d", 60 + 8 * i, i);
    if (i == 6) bytes += sprintf(name + bytes, "line\nbreak \xff");
    sprintf(name + bytes, ".jpg");
    put_file(root, name, name);
  }
  ull_source *folder = open_or_fail(at_root("", "photos"), ULL_SPLIT_TRAIN);
  static const char *const formats[] = {"gnu", "pax", "oldgnu"};
  for (size_t f = 0; f < sizeof formats / sizeof formats[0]; f++) {
    for (int dot = 0; dot < 2; dot++) {
      snprintf(command, sizeof command, "tar --sort=name --format=%s -cf '%s/%s.tar' -C '%s' %s",
               formats[f], root, formats[f], dot ? at_root("", "photos") : root,
               dot ? "." : "photos");
      assert_int_equal(system(command), 0);
      snprintf(text, sizeof text, "tar:%s/%s.tar", root, formats[f]);
      ull_source *source = open_or_fail(text, ULL_SPLIT_TRAIN);
      assert_int_equal(ull_source_sample_count(source), 24);
      assert_int_equal(ull_source_class_count(source), 3);
      for (uint64_t i = 0; i < 24; i++) {
        assert_string_equal(record_text(source, i, 0), record_text(folder, i, 0));
        assert_int_equal(label_of(source, i), label_of(folder, i));
      }
      for (uint64_t c = 0; c < 3; c++) {
        char one[64], other[64];
        assert_string_equal(ull_source_class_name(source, c, one, sizeof one),
                            ull_source_class_name(folder, c, other, sizeof other));
      }
      ull_source_close(source);
    }
  }
  assert_string_equal(warnings(), "");
  ull_source_close(folder);
}

static void fields_of_samples(void **state) {
  (void)state;
  byte_buffer tar = {0}, npy = {0};
  const float values[3] = {1.5f, -2, 3};
  append_npy(&npy, "<f4", false, "(3,)", values, sizeof values);
  append_text(&tar, "__meta__.json", "{}");
  append_text(&tar, "README", "no sample");
  for (int i = 0; i < 4; i++) {
    char name[32], text[80];
    snprintf(name, sizeof name, "d/%d.PNG", i);
    append_text(&tar, name, "image");
    snprintf(name, sizeof name, "d/%d.seg.png", i);
    append_text(&tar, name, "mask");
    snprintf(name, sizeof name, "d/%d.left.jpg", i);
    append_text(&tar, name, "left");
    snprintf(name, sizeof name, "d/%d.feat.npy", i);
    append_member(&tar, name, npy.bytes, npy.count);
    snprintf(name, sizeof name, "d/%d.json", i);
    snprintf(text, sizeof text,
             "{\"caption\": \"\\u0000\", \"label\": %d, \"id\": 18446744073709551616}", 40 + i);
    append_text(&tar, name, text);
    snprintf(name, sizeof name, "d/%d.txt", i);
    append_text(&tar, name, "caption");
  }
  append_text(&tar, "d/__9.png", "lacks the rest");
  append_end(&tar);
  put_buffer(root, "a.tar", &tar);
  ull_source *source = open_or_fail(at_root("tar:", "a.tar"), ULL_SPLIT_TRAIN);
  assert_int_equal(ull_source_sample_count(source), 4);
  static const char *const names[] = {"image", "left", "mask", "feat", "label"};
  assert_int_equal(ull_source_array_count(source), 5);
  for (size_t i = 0; i < 5; i++) assert_string_equal(ull_source_array(source, i)->name, names[i]);
  assert_int_equal(ull_source_array(source, 2)->content, ULL_CONTENT_MASK);
  assert_int_equal(ull_source_array(source, 3)->dtype, ULL_FLOAT32);
  for (uint64_t i = 0; i < 4; i++) {
    float got[3];
    assert_string_equal(record_text(source, i, 0), "image");
    assert_string_equal(record_text(source, i, 1), "left");
    assert_string_equal(record_text(source, i, 2), "mask");
    assert_int_equal(ull_source_read(source, i, 3, got, NULL), ULL_OK);
    assert_memory_equal(got, values, sizeof values);
    assert_int_equal(label_of(source, i), 40 + (int64_t)i);
  }
  int64_t least, most;
  assert_int_equal(ull_source_range(source, 4, &least, &most), ULL_OK);
  assert_true(least == 40 && most == 43);
  assert_non_null(strstr(warnings(), "1 samples are left out: they lack a field that most have "
                                     "(the first: d/__9)"));
  ull_source_close(source);
  free_buffer(&tar);
  free_buffer(&npy);
}

/* Two members of a sample for one array: the last is used, and it is said, from the cache too. */
static void doubled_fields_are_told(void **state) {
  (void)state;
  byte_buffer tar = {0};
  append_text(&tar, "0.jpg", "first");
  append_text(&tar, "0.png", "second");
  append_text(&tar, "0.png", "third");
  append_text(&tar, "1.jpg", "alone");
  append_text(&tar, "1.seg.png", "mask");
  append_text(&tar, "0.mask.png", "mask");
  append_end(&tar);
  put_buffer(root, "a.tar", &tar);
  for (int again = 0; again < 2; again++) {
    ull_source *source = open_or_fail(at_root("tar:", "a.tar"), ULL_SPLIT_TRAIN);
    assert_int_equal(ull_source_sample_count(source), 2);
    assert_string_equal(record_text(source, 0, 0), "third");
    assert_string_equal(record_text(source, 1, 0), "alone");
    assert_non_null(strstr(warnings(), "2 members are not used: a later one of the sample is for "
                                       "the same array (the first: 0.jpg and 0.png)"));
    ull_source_close(source);
  }
  free_buffer(&tar);
}

/* Their samples lack a field; what stands behind them is read. */
static void links_and_sparse_files_are_left_out(void **state) {
  (void)state;
  static const char make[] =
      "cd '%s' && rm -rf s && mkdir s && cd s && for i in 0 1 2 3 4; do echo $i > $i.cls; printf "
      "%%s $i > $i.png; done && for i in 0 1 2 3 4 5 6 7; do dd if=/dev/zero of=0.png bs=4096 "
      "seek=$((16 * i)) count=1 conv=notrunc status=none; printf x | dd of=0.png bs=1 "
      "seek=$((65536 * i)) conv=notrunc status=none; done && ln -f 4.png 1.png && tar -S "
      "--format=%s -cf ../s.tar 0.png 0.cls 2.png 2.cls 3.png 3.cls 4.png 4.cls 1.png 1.cls";
  static const char *const formats[] = {"gnu", "oldgnu", "posix"};
  char command[1024];
  for (size_t f = 0; f < 3; f++) {
    snprintf(command, sizeof command, make, root, formats[f]);
    assert_int_equal(system(command), 0);
    ull_source *source = open_or_fail(at_root("tar:", "s.tar"), ULL_SPLIT_TRAIN);
    assert_int_equal(ull_source_sample_count(source), 3);
    for (uint64_t i = 0; i < 3; i++) assert_int_equal(label_of(source, i), 2 + (int64_t)i);
    assert_non_null(strstr(warnings(), "2 samples are left out: they lack a field that most have "
                                       "(the first: 0)"));
    ull_source_close(source);
  }
}

static void members_apart_find_each_other(void **state) {
  (void)state;
  byte_buffer tar = {0};
  char name[32], text[4096];
  for (int i = 0; i < 5; i++) {
    size_t bytes = picture(i, text);
    snprintf(name, sizeof name, "%06d.jpg", i);
    append_member(&tar, name, text, bytes);
  }
  for (int i = 0; i < 5; i++) {
    snprintf(name, sizeof name, "%06d.cls", i);
    snprintf(text, sizeof text, "%d", i % 7);
    append_text(&tar, name, text);
  }
  append_end(&tar);
  put_buffer(root, "a.tar", &tar);
  ull_source *source = open_or_fail(at_root("tar:", "a.tar"), ULL_SPLIT_TRAIN);
  expect_pictures(source, (const int[]){0, 1, 2, 3, 4}, 5);
  assert_non_null(strstr(warnings(), "5 members do not lie beside the rest"));
  ull_source_close(source);
  write_gzip(path_in(root, "b.tar.gz"), tar.bytes, tar.count);
  assert_int_equal(open_status(at_root("tar:", "b.tar.gz"), ULL_SPLIT_TRAIN), ULL_ERROR_DATA);
  assert_non_null(strstr(ull_error_last()->message, "the members of '000000' do not lie together"));
  free_buffer(&tar);
}

static void patterns_name_shards(void **state) {
  (void)state;
  int numbers[40];
  for (int s = 0; s < 20; s++) {
    byte_buffer tar = {0};
    char name[32];
    append_samples(&tar, 2 * s, 2, true);
    append_end(&tar);
    snprintf(name, sizeof name, "shard-%03d.tar", s);
    put_buffer(root, name, &tar);
    free_buffer(&tar);
    numbers[2 * s] = 2 * s;
    numbers[2 * s + 1] = 2 * s + 1;
  }
  static const char *const patterns[] = {
      "shard-*.tar", "shard-{000..019}.tar", "{shard-00?.tar,shard-01[0-9].tar}",
      "shard-0{0?,1{0..9}}.tar?window=1MiB", "shard-{01{0..9},00{0..9}}.tar"};
  int before = open_descriptors();
  for (size_t p = 0; p < sizeof patterns / sizeof patterns[0]; p++) {
    ull_source *source = open_or_fail(at_root("tar:", patterns[p]), ULL_SPLIT_TRAIN);
    expect_pictures(source, numbers, 40);
    assert_in_range(open_descriptors() - before, 0, 8);
    ull_source_close(source);
    assert_int_equal(open_descriptors(), before);
  }
  assert_int_equal(open_status(at_root("tar:", "shard-{000..020}.tar"), ULL_SPLIT_TRAIN),
                   ULL_ERROR_DATA);
  assert_non_null(strstr(ull_error_last()->message, "shard-020.tar: there is no such file"));
  assert_int_equal(open_status(at_root("tar:", "none-*.tar"), ULL_SPLIT_TRAIN), ULL_ERROR_DATA);
  assert_int_equal(open_status(at_root("tar:", "shard-*.tar?windows=3"), ULL_SPLIT_TRAIN),
                   ULL_ERROR_USAGE);
  assert_string_equal(ull_error_last()->change, "there are window");
  assert_int_equal(open_status(at_root("tar:", "shard-*.tar?window=3"), ULL_SPLIT_TRAIN),
                   ULL_ERROR_USAGE);
}

/* ---- damage ---- */

static void cut_at_every_block(void **state) {
  (void)state;
  for (int label_first = 0; label_first < 2; label_first++) {
    byte_buffer tar = {0};
    size_t ends[8], known = 0, largest = 0;
    for (int i = 0; i < 8; i++) {
      append_samples(&tar, i, 1, label_first != 0);
      ends[i] = tar.count;
    }
    append_end(&tar);
    const char *text = at_root("tar:", "a.tar");
    for (size_t cut = 0; cut <= tar.count; cut += 512) {
      put_bytes(root, "a.tar", tar.bytes, cut);
      size_t whole = read_all(text, true);
      while (known < 8 && ends[known] <= cut) known++;
      /* What is left of the first sample alone shows no field that others have. */
      if (known > 0) assert_true(whole == known);
      if (cut > 512 && known > 0 && cut < tar.count - 512)
        assert_non_null(strstr(warnings(), "1 shard is cut or damaged"));
      if (whole > largest) largest = whole;
    }
    assert_int_equal(largest, 8);
    for (size_t cut = 0; cut < tar.count; cut += 97) {
      put_bytes(root, "a.tar", tar.bytes, cut);
      read_all(text, true);
    }
    free_buffer(&tar);
  }
}

static void flipped_bytes_do_no_harm(void **state) {
  (void)state;
  byte_buffer tar = {0};
  char command[2048];
  append_samples(&tar, 0, 6, true);
  append_end(&tar);
  for (uint32_t i = 0; i < 1500; i++) {
    ull__philox_block random = ull__philox(7, 0, i);
    size_t at = random.word[0] % tar.count;
    /* Mostly in headers. */
    if (random.word[1] % 4 != 0) at = at / 512 * 512 + random.word[2] % 160;
    uint8_t before = tar.bytes[at];
    tar.bytes[at] = (uint8_t)(random.word[3] >> 8);
    if (i % 3 == 0) seal(tar.bytes + at / 512 * 512);
    put_buffer(root, "a.tar", &tar);
    read_all(at_root("tar:", "a.tar"), false);
    if (i % 3 != 0) tar.bytes[at] = before;
    if (i % 3 == 0) {
      tar.count = 0;
      append_samples(&tar, 0, 6, true);
      append_end(&tar);
    }
  }
  free_buffer(&tar);
  /* Extensions of the formats. */
  put_file(root, "x/long/name.jpg", "1");
  snprintf(command, sizeof command,
           "cd '%s' && mkdir -p x/$(printf %%0200d 1) && cp x/long/name.jpg x/0*/ && "
           "tar --format=pax -cf p.tar x && tar --format=gnu -cf g.tar x",
           root);
  assert_int_equal(system(command), 0);
  for (int gnu = 0; gnu < 2; gnu++) {
    size_t count;
    uint8_t *bytes = read_file(path_in(root, gnu ? "g.tar" : "p.tar"), &count);
    for (uint32_t i = 0; i < 1500; i++) {
      ull__philox_block random = ull__philox(8, 0, i);
      size_t at = random.word[0] % (count < 5120 ? count : 5120);
      uint8_t before = bytes[at];
      bytes[at] = (uint8_t)random.word[1];
      uint8_t header[512];
      memcpy(header, bytes + at / 512 * 512, 512);
      if (memcmp(header + 257, "ustar", 5) == 0) seal(bytes + at / 512 * 512);
      put_bytes(root, "a.tar", bytes, count);
      read_all(at_root("tar:", "a.tar"), false);
      memcpy(bytes + at / 512 * 512, header, 512);
      bytes[at] = before;
    }
    free(bytes);
  }
}

static void shards_that_change_are_noticed(void **state) {
  (void)state;
  byte_buffer tar = {0};
  append_samples(&tar, 0, 3, true);
  append_end(&tar);
  put_buffer(root, "a.tar", &tar);
  ull_source *source = open_or_fail(at_root("tar:", "a.tar"), ULL_SPLIT_TRAIN);
  append_end(&tar);
  put_buffer(root, "a.tar", &tar);
  assert_null(record_text(source, 0, 0));
  assert_int_equal(ull_error_last()->status, ULL_ERROR_DATA);
  assert_non_null(strstr(ull_error_last()->message, "has changed since it was opened"));
  remove(path_in(root, "a.tar"));
  assert_null(record_text(source, 0, 0));
  ull_source_close(source);
  free_buffer(&tar);
}

static void refusals_name_what_there_is(void **state) {
  (void)state;
  byte_buffer tar = {0};
  append_text(&tar, "0.ten", "x");
  append_text(&tar, "1.ten", "x");
  append_end(&tar);
  put_buffer(root, "a.tar", &tar);
  assert_int_equal(open_status(at_root("tar:", "a.tar"), ULL_SPLIT_TRAIN), ULL_ERROR_DATA);
  assert_non_null(strstr(ull_error_last()->message, "holds no field that is read, such as ten"));
  tar.count = 0;
  append_samples(&tar, 0, 2, false);
  append_end(&tar);
  const size_t first_bytes = tar.count;
  append_samples(&tar, 2, 1, false);
  append_end(&tar);
  put_buffer(root, "joined.tar", &tar);
  ull_source *source = open_or_fail(at_root("tar:", "joined.tar"), ULL_SPLIT_TRAIN);
  assert_int_equal(ull_source_sample_count(source), 2);
  char told[64];
  snprintf(told, sizeof told, "joined.tar, at byte %zu", first_bytes - 1024);
  assert_non_null(strstr(warnings(), told));
  ull_source_close(source);
  free_buffer(&tar);
  put_file(root, "b.tar", "this is no archive, whatever its name says, and not even long");
  assert_int_equal(open_status(at_root("tar:", "b.tar"), ULL_SPLIT_TRAIN), ULL_ERROR_DATA);
  put_file(root, "c.tar", "BZh91AY&SY and so on");
  assert_int_equal(open_status(at_root("tar:", "c.tar"), ULL_SPLIT_TRAIN), ULL_ERROR_UNSUPPORTED);
  assert_non_null(strstr(ull_error_last()->message, "c.tar: is packed by bzip2"));
  assert_int_equal(open_status("tar:?window=1MiB", ULL_SPLIT_TRAIN), ULL_ERROR_USAGE);
}

int main(void) {
  const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_root, remove_root)
      TEST(system_tars_equal_the_folder),
      TEST(fields_of_samples),
      TEST(doubled_fields_are_told),
      TEST(links_and_sparse_files_are_left_out),
      TEST(members_apart_find_each_other),
      TEST(patterns_name_shards),
      TEST(cut_at_every_block),
      TEST(flipped_bytes_do_no_harm),
      TEST(shards_that_change_are_noticed),
      TEST(refusals_name_what_there_is),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
