/* Pictures in the loader: the same stream whatever threads, ring, ranks and resumes; what a binding
 * may ask; bad pictures replaced, left out or an error. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"
#include "support/data_trees.h"
#include "support/jpeg_files.h"
#include "support/picture_folders.h"
#include "ullage/image.h"

enum { PICTURES = 43, SIDE = 24 };

static ull_source *source;

static int set_up(void **state) {
  make_root(state);
  put_pictures(root, PICTURES);
  source = open_or_fail(root, ULL_SPLIT_TRAIN);
  return 0;
}

static int tear_down(void **state) {
  ull_source_close(source);
  return remove_root(state);
}

static void reopen(void) {
  ull_source_close(source);
  source = open_or_fail(root, ULL_SPLIT_TRAIN);
}

static void same_for_threads_and_ring(void **state) {
  (void)state;
  uint32_t wanted[2 * PICTURES], got[2 * PICTURES];
  ull_loader_options options = picture_options(source, SIDE);
  options.epochs = 2;
  options.workers = 0;
  options.prefetch = 1;
  assert_int_equal(hash_stream(&options, wanted), 2 * PICTURES);
  static const int workers[] = {1, 2, 5, 16}, slots[] = {1, 2, 7, 64};
  for (int w = 0; w < 4; w++)
    for (int s = 0; s < 4; s++) {
      options.workers = workers[w];
      options.prefetch = slots[s];
      assert_int_equal(hash_stream(&options, got), 2 * PICTURES);
      assert_memory_equal(got, wanted, sizeof wanted);
    }
}

/* Ranks' parts of every global batch, one behind the other. */
static void same_for_ranks(void **state) {
  (void)state;
  enum { GLOBAL = 24 };
  uint32_t wanted[PICTURES], got[PICTURES], part[8][PICTURES];
  ull_loader_options options = picture_options(source, SIDE);
  options.batch_size = GLOBAL;
  assert_int_equal(hash_stream(&options, wanted), PICTURES);
  for (uint64_t world = 1; world <= 8; world++) {
    if (GLOBAL % world != 0) continue;
    int counts[8], total = 0;
    options.world_size = world;
    options.batch_size = GLOBAL / world;
    for (options.rank = 0; options.rank < world; options.rank++)
      counts[options.rank] = hash_stream(&options, part[options.rank]);
    for (uint64_t r = 0; r < world; r++)
      for (uint64_t i = 0; i < GLOBAL / world; i++) got[total++] = part[r][i];
    for (uint64_t r = 0; r < world; r++)
      for (int i = (int)(GLOBAL / world); i < counts[r]; i++) got[total++] = part[r][i];
    assert_int_equal(total, PICTURES);
    assert_memory_equal(got, wanted, sizeof wanted);
  }
}

/* A chain of states, each taken up by a loader with other threads, slots and batches. */
static void same_for_any_chain_of_resumes(void **state) {
  (void)state;
  uint32_t wanted[2 * PICTURES], got[3 * PICTURES];
  ull_loader_options options = picture_options(source, SIDE);
  options.epochs = 2;
  assert_int_equal(hash_stream(&options, wanted), 2 * PICTURES);
  for (int chain = 0; chain < 12; chain++) {
    ull_loader_state saved;
    int count = 0;
    for (int link = 0; count < 2 * PICTURES; link++) {
      options.batch_size = 1 + (uint64_t)(chain * 5 + link * 3) % 11;
      options.workers = (chain + link) % 4;
      options.prefetch = 1 + (chain + 2 * link) % 5;
      ull_loader *loader = create_loader(&options);
      if (link > 0) assert_int_equal(ull_loader_set_state(loader, &saved), ULL_OK);
      int some = 1 + (chain * 7 + link) % 17;
      count += hash_samples(loader, got + count, some);
      saved = ull_loader_get_state(loader);
      ull_loader_destroy(loader);
    }
    assert_int_equal(count, 2 * PICTURES);
    assert_memory_equal(got, wanted, sizeof wanted);
  }
}

static void states_are_checked(void **state) {
  (void)state;
  ull_loader_options options = picture_options(source, SIDE);
  ull_loader *loader = create_loader(&options);
  ull_loader_state saved = ull_loader_get_state(loader), damaged = saved;
  assert_true(sizeof saved <= 64);
  for (size_t i = 0; i < sizeof saved; i++) {
    if (i >= 4 && i < 8) continue; /* reserved */
    damaged = saved;
    ((uint8_t *)&damaged)[i] ^= 4;
    assert_int_not_equal(ull_loader_set_state(loader, &damaged), ULL_OK);
  }
  assert_int_equal(ull_loader_set_state(loader, &saved), ULL_OK);
  ull_loader_destroy(loader);
  options.seed++;
  loader = create_loader(&options);
  assert_int_equal(ull_loader_set_state(loader, &saved), ULL_ERROR_MISMATCH);
  ull_loader_destroy(loader);
}

/* ---- what a binding may ask ---- */

/* Stretched to its own size, a picture is what the decoder alone delivers. */
static void pixels_are_the_decoders(void **state) {
  (void)state;
  jpeg_form form = {.width = 40, .height = 32, .colours = JPEG_YCC, .h = 2, .v = 2};
  size_t bytes;
  uint8_t *jpeg = make_jpeg(&form, &bytes);
  char alone[700];
  snprintf(alone, sizeof alone, "%s/alone", root);
  put_bytes(alone, "a/one.jpg", jpeg, bytes);
  ull_source *one = open_or_fail(alone, ULL_SPLIT_TRAIN);
  ull_image_options image_options = ull_image_options_default();
  ull_image image;
  char path[800];
  snprintf(path, sizeof path, "%s/a/one.jpg", alone);
  assert_int_equal(ull_image_decode_file(path, &image_options, &image), ULL_OK);
  for (int last = 0; last < 2; last++) {
    ull_binding bindings[2] = {ull_binding_default(one, 0), ull_binding_default(one, 0)};
    bindings[1].dtype = ULL_FLOAT32;
    bindings[1].name = "floats";
    assert_int_equal(ull_normalize_parse("0.25:0.5", one, 0, &bindings[1].normalize), ULL_OK);
    for (int b = 0; b < 2; b++) {
      bindings[b].channels_last = last;
      bindings[b].shape[last ? 0 : 1] = 32;
      bindings[b].shape[last ? 1 : 2] = 40;
      bindings[b].shape[last ? 2 : 0] = 3;
    }
    ull_loader_options options = picture_options(one, SIDE);
    options.bindings = bindings;
    options.batch_size = 1;
    assert_int_equal(ull_augment_parse("stretch", &options.augment), ULL_OK);
    ull_loader *loader = create_loader(&options);
    const ull_batch *batch;
    assert_int_equal(ull_loader_next(loader, &batch), ULL_OK);
    const uint8_t *got = batch->arrays[0].data;
    const float *floats = batch->arrays[1].data;
    for (int y = 0; y < 32; y++)
      for (int x = 0; x < 40; x++)
        for (int c = 0; c < 3; c++) {
          int at = last ? (y * 40 + x) * 3 + c : (c * 32 + y) * 40 + x;
          uint8_t wanted = image.pixels[(y * 40 + x) * 3 + c];
          assert_int_equal(got[at], wanted);
          float scaled = (float)wanted * (float)(1.0 / 255 / 0.5) + (float)(-0.25 / 0.5);
          assert_true(floats[at] == scaled);
        }
    ull_loader_destroy(loader);
  }
  ull_image_free(&image);
  ull_source_close(one);
  free(jpeg);
}

static void bindings_are_checked(void **state) {
  (void)state;
  ull_loader_bound bound;
  ull_loader_options options = picture_options(source, SIDE);
  ull_binding *binding = (ull_binding *)options.bindings;
  ull_binding good = *binding;
  assert_int_equal(ull_loader_bound_bytes(&options, &bound), ULL_OK);
  binding->shape[0] = 2;
  assert_int_equal(ull_loader_bound_bytes(&options, &bound), ULL_ERROR_MISMATCH);
  *binding = good;
  binding->dtype = ULL_INT64;
  assert_int_equal(ull_loader_bound_bytes(&options, &bound), ULL_ERROR_MISMATCH);
  *binding = good;
  binding->dtype = ULL_UINT8; /* but normalised */
  assert_int_equal(ull_loader_bound_bytes(&options, &bound), ULL_ERROR_MISMATCH);
  *binding = good;
  binding->shape[2] = 0;
  assert_int_equal(ull_loader_bound_bytes(&options, &bound), ULL_ERROR_MISMATCH);
  *binding = good;
  binding->rank = 2;
  assert_int_equal(ull_loader_bound_bytes(&options, &bound), ULL_ERROR_MISMATCH);
  *binding = good;
  binding->shape[0] = 1; /* grey takes the average of the means */
  assert_int_equal(ull_loader_bound_bytes(&options, &bound), ULL_OK);
}

/* Class numbers bound as shares: 1 at the class, or what the batch's mix says. */
static void labels_become_shares(void **state) {
  (void)state;
  static const char *const texts[] = {"rrc,flip", "rrc,mixup:1", "rrc,cutmix:1"};
  for (int t = 0; t < 3; t++) {
    ull_loader_options options = picture_options(source, SIDE);
    ull_binding bindings[3] = {options.bindings[0], options.bindings[1], options.bindings[1]};
    bindings[2].name = "shares";
    bindings[2].dtype = ULL_FLOAT32;
    bindings[2].rank = 1;
    bindings[2].shape[0] = FOLDER_CLASSES;
    options.bindings = bindings;
    options.binding_count = 3;
    assert_int_equal(ull_augment_parse(texts[t], &options.augment), ULL_OK);
    ull_loader *loader = create_loader(&options);
    const ull_batch *batch;
    while (ull_loader_next(loader, &batch) == ULL_OK && batch != NULL) {
      const int64_t *labels = batch->arrays[1].data;
      const float *shares = batch->arrays[2].data;
      assert_true(t > 0 || batch->mix_lambda == 1);
      assert_true(t == 0 || batch->mix_distance > 0);
      for (uint64_t i = 0; i < batch->samples; i++) {
        float wanted[FOLDER_CLASSES] = {0};
        wanted[labels[i]] += (float)batch->mix_lambda;
        uint64_t partner = (i + batch->mix_distance) % batch->samples;
        wanted[labels[partner]] += (float)(1 - batch->mix_lambda);
        for (int c = 0; c < FOLDER_CLASSES; c++)
          assert_float_equal(shares[i * FOLDER_CLASSES + (uint64_t)c], wanted[c], 1e-6);
      }
      ull_loader_release(loader, batch);
    }
    ull_loader_destroy(loader);
  }
}

/* ---- bad pictures ---- */

enum { BAD = 5 };

static const int bad_numbers[BAD] = {0, 9, 10, 11, 40};

/* Cuts one short, empties one, replaces one by words, removes one, spoils one. */
static void spoil(void) {
  size_t bytes;
  char path[800];
  uint8_t *file;
  snprintf(path, sizeof path, "%s/%s", root, picture_name(0));
  file = read_file(path, &bytes);
  write_file(path, file, bytes / 3);
  free(file);
  snprintf(path, sizeof path, "%s/%s", root, picture_name(9));
  write_file(path, "", 0);
  snprintf(path, sizeof path, "%s/%s", root, picture_name(10));
  write_file(path, "words", 5);
  snprintf(path, sizeof path, "%s/%s", root, picture_name(40));
  file = read_file(path, &bytes);
  memset(file + bytes / 2, 0, bytes / 3);
  write_file(path, file, bytes);
  free(file);
  reopen();
  snprintf(path, sizeof path, "%s/%s", root, picture_name(11));
  assert_int_equal(remove(path), 0); /* behind an open source */
}

/* Whole pictures, so that what is wrong with them is always seen. */
static ull_loader_options whole_options(void) {
  ull_loader_options options = picture_options(source, SIDE);
  assert_int_equal(ull_augment_parse("stretch,flip", &options.augment), ULL_OK);
  return options;
}

static void bad_ones_are_replaced_by_position(void **state) {
  (void)state;
  spoil();
  uint32_t wanted[PICTURES], got[PICTURES];
  ull_loader_options options = whole_options();
  options.on_bad = ULL_ON_BAD_REPLACE;
  options.max_bad = ULL_MAX_BAD_SHARE;
  for (int workers = 0; workers < 6; workers++) {
    options.workers = workers;
    options.prefetch = 1 + workers;
    ull_loader *loader = create_loader(&options);
    assert_int_equal(hash_samples(loader, workers == 0 ? wanted : got, STREAM_MOST), PICTURES);
    if (workers > 0) assert_memory_equal(got, wanted, sizeof wanted);
    ull_loader_counts counts = ull_loader_count(loader);
    assert_int_equal(counts.replaced, BAD);
    assert_int_equal(counts.samples, PICTURES);
    assert_int_equal(counts.verdicts[ULL_VERDICT_TRUNCATED], 1);
    assert_int_equal(counts.verdicts[ULL_VERDICT_EMPTY], 1);
    assert_int_equal(counts.verdicts[ULL_VERDICT_NOT_AN_IMAGE], 1);
    assert_int_equal(counts.verdicts[ULL_VERDICT_UNREADABLE], 1);
    assert_int_equal(counts.verdicts[ULL_VERDICT_DAMAGED], 1);
    ull_bad_sample bad[BAD + 1];
    assert_int_equal(ull_loader_bad_samples(loader, 0, bad, BAD + 1), BAD);
    for (int i = 0; i < BAD; i++) {
      bool known = false;
      for (int k = 0; k < BAD; k++)
        known |= strstr(bad[i].path, picture_name(bad_numbers[k])) != NULL;
      assert_true(known);
      assert_int_equal(bad[i].times, 1);
      assert_true(bad[i].reason[0] != '\0');
    }
    ull_loader_destroy(loader);
  }
}

/* Every batch keeps its size, what stands there is good, and it is what comes next. */
static void replacements_are_the_next_good_ones(void **state) {
  (void)state;
  spoil();
  ull_loader_options options = whole_options();
  options.shuffle = false;
  options.batch_size = PICTURES;
  options.on_bad = ULL_ON_BAD_REPLACE;
  options.max_bad = BAD;
  ull_loader *loader = create_loader(&options);
  const ull_batch *batch;
  assert_int_equal(ull_loader_next(loader, &batch), ULL_OK);
  assert_int_equal(batch->samples, PICTURES);
  assert_int_equal(batch->replaced, BAD);
  for (uint64_t i = 0; i < PICTURES; i++) {
    uint64_t wanted = i;
    while (ull_verdict_is_bad((ull_verdict)batch->verdict[wanted]))
      wanted = (wanted + 1) % PICTURES;
    assert_int_equal(batch->sample_index[i], wanted);
    assert_false(ull_verdict_is_bad((ull_verdict)batch->used_verdict[i]));
  }
  ull_loader_destroy(loader);
}

static void skipped_ones_leave_no_gaps(void **state) {
  (void)state;
  ull_loader_options options = whole_options();
  uint32_t whole[PICTURES], got[PICTURES];
  options.shuffle = false;
  assert_int_equal(hash_stream(&options, whole), PICTURES);
  spoil();
  options = whole_options();
  options.shuffle = false;
  options.on_bad = ULL_ON_BAD_SKIP;
  options.max_bad = BAD;
  options.workers = 3;
  assert_int_equal(hash_stream(&options, got), PICTURES - BAD);
  /* The source numbers samples by class folder. */
  int kept = 0;
  for (int i = 0; i < PICTURES; i++) kept += kept < PICTURES - BAD && whole[i] == got[kept];
  assert_int_equal(kept, PICTURES - BAD);
  ull_loader *loader = create_loader(&options);
  const ull_batch *batch;
  uint64_t skipped = 0, samples = 0;
  while (ull_loader_next(loader, &batch) == ULL_OK && batch != NULL) {
    assert_int_equal(batch->arrays[0].shape[0], batch->samples);
    for (uint64_t i = 0; i < batch->samples; i++)
      assert_false(ull_verdict_is_bad((ull_verdict)batch->verdict[i]));
    skipped += batch->skipped;
    samples += batch->samples;
    ull_loader_release(loader, batch);
  }
  assert_int_equal(skipped, BAD);
  assert_int_equal(samples, PICTURES - BAD);
  ull_loader_destroy(loader);
}

/* A record stays until a call fails: what is bad and replaced, or scanned, is no failure. */
static void success_leaves_the_record_alone(void **state) {
  (void)state;
  spoil();
  ull__fail(ULL_ERROR_INTERNAL, "before");
  reopen();
  ull_loader_options options = whole_options();
  options.on_bad = ULL_ON_BAD_REPLACE;
  options.max_bad = BAD;
  options.workers = 0;
  ull_loader *loader = create_loader(&options);
  const ull_batch *batch;
  while (ull_loader_next(loader, &batch) == ULL_OK && batch != NULL)
    ull_loader_release(loader, batch);
  assert_null(batch);
  assert_true(ull_loader_count(loader).replaced > 0);
  ull_loader_destroy(loader);
  ull_scan_options scan = {.workers = 1};
  ull_scan_report report;
  assert_int_equal(ull_source_scan(source, &scan, &report), ULL_OK);
  assert_true(report.bad > 0);
  assert_string_equal(ull_error_last()->message, "before");
}

static void failures_name_file_and_verdict(void **state) {
  (void)state;
  spoil();
  for (int workers = 0; workers < 4; workers++) {
    ull_loader_options options = whole_options();
    options.shuffle = false;
    options.workers = workers;
    ull_loader *loader = create_loader(&options);
    const ull_batch *batch;
    assert_int_equal(ull_loader_next(loader, &batch), ULL_ERROR_DATA);
    assert_non_null(strstr(ull_error_last()->message, picture_name(0)));
    assert_non_null(strstr(ull_error_last()->message, "truncated"));
    ull_loader_destroy(loader);
  }
}

/* The run stops at the batch in which the bad ones become too many, whatever the threads. */
static void too_many_stop_at_their_batch(void **state) {
  (void)state;
  spoil();
  int wanted = -1;
  for (int workers = 0; workers < 5; workers++) {
    ull_loader_options options = whole_options();
    options.workers = workers;
    options.prefetch = 1 + workers * 2;
    options.on_bad = ULL_ON_BAD_REPLACE;
    options.max_bad = 2;
    options.batch_size = 4;
    ull_loader *loader = create_loader(&options);
    const ull_batch *batch;
    int batches = 0;
    ull_status status;
    while ((status = ull_loader_next(loader, &batch)) == ULL_OK && batch != NULL) {
      ull_loader_release(loader, batch);
      batches++;
    }
    assert_int_equal(status, ULL_ERROR_DATA);
    assert_non_null(strstr(ull_error_last()->message, "2 are allowed"));
    if (workers == 0) wanted = batches;
    assert_int_equal(batches, wanted);
    ull_loader_destroy(loader);
  }
}

static void nothing_but_bad_ones_is_an_error(void **state) {
  (void)state;
  for (int i = 0; i < PICTURES; i++) {
    char path[800];
    snprintf(path, sizeof path, "%s/%s", root, picture_name(i));
    write_file(path, "", 0);
  }
  reopen();
  ull_loader_options options = whole_options();
  options.on_bad = ULL_ON_BAD_REPLACE;
  options.max_bad = UINT64_MAX - 1;
  ull_loader *loader = create_loader(&options);
  const ull_batch *batch;
  assert_int_equal(ull_loader_next(loader, &batch), ULL_ERROR_DATA);
  assert_non_null(strstr(ull_error_last()->message, "empty"));
  ull_loader_destroy(loader);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(same_for_threads_and_ring, set_up, tear_down),
      cmocka_unit_test_setup_teardown(same_for_ranks, set_up, tear_down),
      cmocka_unit_test_setup_teardown(same_for_any_chain_of_resumes, set_up, tear_down),
      cmocka_unit_test_setup_teardown(states_are_checked, set_up, tear_down),
      cmocka_unit_test_setup_teardown(pixels_are_the_decoders, set_up, tear_down),
      cmocka_unit_test_setup_teardown(bindings_are_checked, set_up, tear_down),
      cmocka_unit_test_setup_teardown(labels_become_shares, set_up, tear_down),
      cmocka_unit_test_setup_teardown(bad_ones_are_replaced_by_position, set_up, tear_down),
      cmocka_unit_test_setup_teardown(replacements_are_the_next_good_ones, set_up, tear_down),
      cmocka_unit_test_setup_teardown(skipped_ones_leave_no_gaps, set_up, tear_down),
      cmocka_unit_test_setup_teardown(success_leaves_the_record_alone, set_up, tear_down),
      cmocka_unit_test_setup_teardown(failures_name_file_and_verdict, set_up, tear_down),
      cmocka_unit_test_setup_teardown(too_many_stop_at_their_batch, set_up, tear_down),
      cmocka_unit_test_setup_teardown(nothing_but_bad_ones_is_an_error, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
