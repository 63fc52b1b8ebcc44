/* Offset packing: known optima, refusals, determinism, the verifier, and real instances. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "memory/packing.h"

typedef ull__packing_buffer buffer;

static uint64_t random_state;

static uint32_t draw(uint32_t bound) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)((random_state >> 33) % bound);
}

/* Packs at 64 bytes, verifies, and checks what holds for every result. */
static ull__packing_result pack(buffer *buffers, size_t count,
                                const ull__packing_options *options) {
  ull__packing_result result = {0};
  ull_status status = ull__pack(buffers, count, 64, options, &result);
  if (status != ULL_OK) fail_msg("%s", ull_error_last()->message);
  status = ull__packing_check(buffers, count, 64, result.height_bytes);
  if (status != ULL_OK) fail_msg("%s", ull_error_last()->message);
  assert_true(result.height_bytes >= result.lower_bound_bytes);
  return result;
}

static void nothing_needs_no_arena(void **state) {
  (void)state;
  ull__packing_result result = pack(NULL, 0, NULL);
  assert_int_equal(result.height_bytes, 0);
  assert_int_equal(result.lower_bound_bytes, 0);
  buffer empty[] = {{0, 0, 9, 77}, {100, 3, 4, 77}, {0, 3, 4, 77}};
  result = pack(empty, 3, NULL);
  assert_int_equal(empty[0].offset_bytes, 0);
  assert_int_equal(empty[1].offset_bytes, 0);
  assert_int_equal(empty[2].offset_bytes, 0);
  assert_int_equal(result.height_bytes, 128);
}

static void sizes_are_rounded_up_and_padding_is_counted(void **state) {
  (void)state;
  buffer b[] = {{1, 0, 5, 0}, {65, 5, 5, 0}, {64, 0, 4, 0}};
  ull__packing_result result = pack(b, 3, NULL);
  assert_int_equal(result.lower_bound_bytes, 192);
  assert_int_equal(result.height_bytes, 192);
  assert_int_equal(result.padding_bytes, 192 - 66);
  assert_int_equal(ull__pack(b, 3, 4096, NULL, &result), ULL_OK);
  assert_int_equal(result.height_bytes, 8192);
  assert_int_equal(result.padding_bytes, 8192 - 66);
}

static void lifetimes_that_only_touch_share_a_place(void **state) {
  (void)state;
  buffer apart[] = {{64, 0, 3, 0}, {64, 4, 7, 0}};
  assert_int_equal(pack(apart, 2, NULL).height_bytes, 64);
  buffer together[] = {{64, 0, 4, 0}, {64, 4, 7, 0}};
  assert_int_equal(pack(together, 2, NULL).height_bytes, 128);
  buffer extreme[] = {{64, 0, UINT32_MAX, 0}, {64, UINT32_MAX, UINT32_MAX, 0}, {64, 0, 0, 0}};
  assert_int_equal(pack(extreme, 3, NULL).height_bytes, 128);
}

static void the_bound_is_known_without_packing(void **state) {
  (void)state;
  buffer b[] = {{100, 0, 3, 5}, {60, 2, 6, 5}, {300, 4, 8, 5}, {64, 8, 9, 5}};
  ull__packing_result result;
  assert_int_equal(ull__packing_bound(b, 4, 64, &result), ULL_OK);
  assert_int_equal(result.lower_bound_bytes, 384);
  assert_int_equal(result.padding_bytes, 384 - 364);
  assert_int_equal(b[0].offset_bytes, 5);
  assert_int_equal(pack(b, 4, NULL).lower_bound_bytes, 384);
}

/* Five buffers of which greedy-by-start wastes a third. */
static void a_hand_made_case_reaches_its_optimum(void **state) {
  (void)state;
  buffer b[] = {{256, 0, 2, 0}, {256, 3, 8, 0}, {256, 0, 8, 0}, {256, 9, 20, 0}, {256, 0, 20, 0}};
  assert_int_equal(pack(b, 5, NULL).height_bytes, 768);
}

/* Cuts the rectangle of time x offsets into pieces that fill it: the optimum is its height. */
static size_t cut(buffer *out, uint32_t first, uint32_t last, uint64_t size, unsigned pieces) {
  bool in_time = last > first && (size <= 64 || draw(2) == 0);
  if (pieces <= 1 || (!in_time && size <= 64)) {
    out[0] = (buffer){size, first, last, 0};
    return 1;
  }
  unsigned left = 1 + draw(pieces - 1);
  size_t made;
  if (in_time) {
    uint32_t middle = first + draw(last - first);
    made = cut(out, first, middle, size, left);
    return made + cut(out + made, middle + 1, last, size, pieces - left);
  }
  uint64_t part = 64 * (1 + (uint64_t)draw((uint32_t)(size / 64) - 1));
  made = cut(out, first, last, part, left);
  return made + cut(out + made, first, last, size - part, pieces - left);
}

static void perfect_puzzles_are_solved(void **state) {
  (void)state;
  for (uint32_t seed = 0; seed < 60; seed++) {
    buffer b[40];
    random_state = seed;
    size_t count = cut(b, 0, 99, 64 * 64, 10 + draw(25));
    ull__packing_result result = pack(b, count, NULL);
    assert_int_equal(result.lower_bound_bytes, 64 * 64);
    assert_int_equal(result.height_bytes, 64 * 64);
  }
}

static uint64_t drop_all(const buffer *b, const int *order, int count) {
  uint64_t wall[16] = {0}, height = 0;
  for (int i = 0; i < count; i++) {
    const buffer *it = &b[order[i]];
    uint64_t top = 0;
    for (uint32_t t = it->first; t <= it->last; t++) top = wall[t] > top ? wall[t] : top;
    top += it->size_bytes;
    for (uint32_t t = it->first; t <= it->last; t++) wall[t] = top;
    height = top > height ? top : height;
  }
  return height;
}

/* The least height over all orders of dropping. */
static uint64_t search_all(const buffer *b, int *order, int fixed, int count) {
  if (fixed == count) return drop_all(b, order, count);
  uint64_t best = UINT64_MAX;
  for (int i = fixed; i < count; i++) {
    int item = order[i];
    order[i] = order[fixed];
    order[fixed] = item;
    uint64_t height = search_all(b, order, fixed + 1, count);
    best = height < best ? height : best;
    order[fixed] = order[i];
    order[i] = item;
  }
  return best;
}

static void small_instances_reach_the_true_optimum(void **state) {
  (void)state;
  enum { COUNT = 7 };
  for (uint32_t seed = 0; seed < 150; seed++) {
    buffer b[COUNT];
    int order[COUNT];
    random_state = seed;
    for (int i = 0; i < COUNT; i++) {
      uint32_t first = draw(12), last = first + draw(16 - first < 7 ? 16 - first : 7);
      b[i] = (buffer){64 * (1 + (uint64_t)draw(9)), first, last, 0};
      order[i] = i;
    }
    assert_int_equal(pack(b, COUNT, NULL).height_bytes, search_all(b, order, 0, COUNT));
  }
}

/* Whether the buffers from `next` on fit below `height` beside those already placed, by trying
 * every offset. */
static bool fits_below(buffer *b, size_t next, size_t count, uint64_t height) {
  if (next == count) return true;
  for (uint64_t offset = 0; offset + b[next].size_bytes <= height; offset += 64) {
    b[next].offset_bytes = offset;
    if (ull__packing_check(b, next + 1, 64, height) == ULL_OK &&
        fits_below(b, next + 1, count, height))
      return true;
  }
  return false;
}

/* An instance whose optimum is above its load: the search must find it, and not claim the bound. */
static void an_optimum_above_the_bound_is_found(void **state) {
  (void)state;
  buffer b[] = {{192, 2, 5, 0}, {256, 1, 3, 0}, {192, 2, 4, 0}, {256, 0, 1, 0},
                {256, 0, 1, 0}, {64, 6, 7, 0},  {128, 2, 2, 0}, {64, 3, 5, 0},
                {64, 7, 9, 0},  {256, 5, 7, 0}, {128, 4, 4, 0}, {192, 4, 7, 0}};
  enum { COUNT = sizeof b / sizeof *b };
  assert_false(fits_below(b, 0, COUNT, 12 * 64));
  assert_true(fits_below(b, 0, COUNT, 13 * 64));
  ull__packing_result result = pack(b, COUNT, NULL);
  assert_int_equal(result.lower_bound_bytes, 12 * 64);
  assert_int_equal(result.height_bytes, 13 * 64);
}

static void bad_input_is_refused(void **state) {
  (void)state;
  ull__packing_result result;
  buffer b[] = {{64, 0, 3, 7}, {64, 4, 3, 7}};
  assert_int_equal(ull__pack(b, 2, 64, NULL, &result), ULL_ERROR_INVALID);
  assert_int_equal(b[0].offset_bytes, 7);
  b[1].last = 4;
  assert_int_equal(ull__pack(b, 2, 0, NULL, &result), ULL_ERROR_INVALID);
  assert_int_equal(ull__pack(b, 2, 48, NULL, &result), ULL_ERROR_INVALID);
  assert_int_equal(ull__pack(b, 2, 64, NULL, &result), ULL_OK);
}

static void sizes_that_overflow_are_refused(void **state) {
  (void)state;
  ull__packing_result result;
  buffer one[] = {{UINT64_MAX, 0, 1, 7}};
  assert_int_equal(ull__pack(one, 1, 64, NULL, &result), ULL_ERROR_OVERFLOW);
  assert_int_equal(one[0].offset_bytes, 7);
  buffer rounded[] = {{INT64_MAX - 1, 0, 1, 7}};
  assert_int_equal(ull__pack(rounded, 1, 64, NULL, &result), ULL_ERROR_OVERFLOW);
  buffer sum[] = {{INT64_MAX / 2, 0, 1, 7}, {INT64_MAX / 2, 1, 2, 7}, {4096, 1, 1, 7}};
  assert_int_equal(ull__pack(sum, 3, 64, NULL, &result), ULL_ERROR_OVERFLOW);
  buffer large[] = {{INT64_MAX / 4, 0, 1, 7}, {INT64_MAX / 4, 1, 2, 7}};
  assert_int_equal(ull__pack(large, 2, 64, NULL, &result), ULL_OK);
}

/* A chain of layers with skips: activations that wait for their backward, gradients, workspaces. */
static size_t make_training(buffer *b, uint32_t layers) {
  size_t count = 0;
  uint32_t end = 2 * layers + 2;
  for (uint32_t i = 0; i < layers; i++) {
    uint32_t backward = end - 2 - i;
    uint64_t size = ((uint64_t)1 << (22 - i * 6 / layers)) + draw(64) * 256;
    b[count++] = (buffer){size, i, backward, 0};
    if (draw(3) == 0) b[count++] = (buffer){size, i, i + 2 + draw(6), 0};
    if (draw(2) == 0) b[count++] = (buffer){draw(1 << 20), i, i, 0};
    if (draw(2) == 0) b[count++] = (buffer){draw(1 << 20), backward, backward, 0};
    b[count++] = (buffer){size, backward, backward + 1 + draw(4) / 3 * 4, 0};
    b[count++] = (buffer){4096 + draw(1 << 18), backward, draw(2) ? end : backward + 1, 0};
  }
  return count;
}

static void training_steps_reach_the_bound(void **state) {
  (void)state;
  enum { LAYERS = 400 };
  buffer *b = test_malloc(6 * LAYERS * sizeof *b);
  ull__packing_options quick = ull__packing_quick();
  unsigned perfect = 0, instances = 0;
  for (uint32_t layers = 10; layers <= LAYERS; layers += 39) {
    random_state = layers;
    size_t count = make_training(b, layers);
    ull__packing_result result = pack(b, count, &quick);
    assert_true((double)result.height_bytes <= 1.001 * (double)result.lower_bound_bytes);
    perfect += result.height_bytes == result.lower_bound_bytes;
    instances++;
    result = pack(b, count, NULL);
    assert_int_equal(result.height_bytes, result.lower_bound_bytes);
  }
  print_message("quick effort: %u of %u training steps at their lower bound\n", perfect, instances);
  assert_true(2 * perfect > instances);
  test_free(b);
}

static void the_same_input_gives_the_same_offsets(void **state) {
  (void)state;
  enum { COUNT = 120 };
  buffer a[COUNT], b[COUNT];
  random_state = 5;
  for (int i = 0; i < COUNT; i++) {
    uint32_t first = draw(60);
    a[i] = (buffer){1 + draw(5000), first, first + draw(20), 0};
    b[i] = a[i];
    b[i].offset_bytes = draw(9999);
  }
  ull__packing_options options = {.strategies = 16, .orders = 100, .visits = 500000, .seed = 9};
  ull__packing_result x = pack(a, COUNT, &options), y = pack(b, COUNT, &options);
  assert_memory_equal(a, b, sizeof a);
  assert_memory_equal(&x, &y, sizeof x);
}

static void more_effort_is_never_worse(void **state) {
  (void)state;
  enum { COUNT = 80 };
  for (uint32_t seed = 0; seed < 10; seed++) {
    buffer b[COUNT];
    random_state = seed;
    for (int i = 0; i < COUNT; i++) {
      uint32_t first = draw(40);
      b[i] = (buffer){1 + draw(90000), first, first + draw(15), 0};
    }
    ull__packing_options none = {.strategies = 1}, some = {.strategies = 16};
    ull__packing_options quick = ull__packing_quick();
    uint64_t plain = pack(b, COUNT, &none).height_bytes;
    assert_true(pack(b, COUNT, &some).height_bytes <= plain);
    assert_true(pack(b, COUNT, &quick).height_bytes <= plain);
  }
}

static void memory_that_runs_out_is_reported(void **state) {
  (void)state;
  enum { COUNT = 30 };
  buffer b[COUNT];
  random_state = 3;
  for (int i = 0; i < COUNT; i++) {
    uint32_t first = draw(20);
    b[i] = (buffer){64 * (1 + (uint64_t)draw(30)), first, first + draw(8), 7};
  }
  ull__packing_options options = {.strategies = 16, .orders = 1, .visits = 20000, .seed = 1};
  ull__packing_result result;
  uint64_t live = ull__alloc_count().live_bytes;
  ull_status status = ULL_ERROR_OUT_OF_MEMORY;
  for (uint64_t n = 1; status != ULL_OK; n++) {
    ull__alloc_fail_at(n);
    status = ull__pack(b, COUNT, 64, &options, &result);
    ull__alloc_fail_at(0);
    assert_int_equal(ull__alloc_count().live_bytes, live);
    if (status == ULL_OK) continue;
    assert_int_equal(status, ULL_ERROR_OUT_OF_MEMORY);
    assert_int_equal(b[0].offset_bytes, 7);
    assert_true(n < 10000);
  }
}

static void the_verifier_finds_faults(void **state) {
  (void)state;
  buffer b[] = {{100, 0, 4, 0}, {64, 3, 6, 128}, {64, 5, 9, 0}, {0, 0, 9, 64}};
  assert_int_equal(ull__packing_check(b, 4, 64, 192), ULL_OK);
  assert_int_equal(ull__packing_check(b, 4, 64, 191), ULL_ERROR_INTERNAL);
  b[1].offset_bytes = 64;
  assert_int_equal(ull__packing_check(b, 4, 64, 192), ULL_ERROR_INTERNAL);
  b[1].offset_bytes = 100;
  assert_int_equal(ull__packing_check(b, 4, 64, 192), ULL_ERROR_INTERNAL);
  b[1].offset_bytes = 128;
  b[2].first = 4;
  assert_int_equal(ull__packing_check(b, 4, 64, 192), ULL_ERROR_INTERNAL);
  b[2].first = 10;
  assert_int_equal(ull__packing_check(b, 4, 64, 192), ULL_ERROR_INVALID);
  buffer huge[] = {{UINT64_MAX, 0, 1, 64}};
  assert_int_equal(ull__packing_check(huge, 1, 64, 192), ULL_ERROR_INTERNAL);
}

/* An overlap anywhere in a valid packing of many buffers is found, also between buffers that are no
 * neighbours. */
static void the_verifier_finds_every_moved_buffer(void **state) {
  (void)state;
  enum { COUNT = 60 };
  buffer b[COUNT];
  random_state = 11;
  for (int i = 0; i < COUNT; i++) {
    uint32_t first = draw(30);
    b[i] = (buffer){64 * (1 + (uint64_t)draw(20)), first, first + draw(10), 0};
  }
  uint64_t height = pack(b, COUNT, NULL).height_bytes;
  for (int i = 0; i < 400; i++) {
    buffer *moved = &b[draw(COUNT)];
    uint64_t before = moved->offset_bytes;
    moved->offset_bytes = 64 * (uint64_t)draw((uint32_t)((height - moved->size_bytes) / 64) + 1);
    bool clash = false;
    for (int j = 0; j < COUNT; j++)
      clash |= &b[j] != moved && b[j].first <= moved->last && moved->first <= b[j].last &&
               b[j].offset_bytes < moved->offset_bytes + moved->size_bytes &&
               moved->offset_bytes < b[j].offset_bytes + b[j].size_bytes;
    assert_int_equal(ull__packing_check(b, COUNT, 64, height), clash ? ULL_ERROR_INTERNAL : ULL_OK);
    moved->offset_bytes = before;
  }
}

static size_t load(const char *name, buffer *b, size_t capacity) {
  char path[1024], line[256];
  snprintf(path, sizeof path, "%s/packing/%s", getenv("ULLAGE_TEST_DATA"), name);
  FILE *file = fopen(path, "r");
  if (!file) fail_msg("cannot open %s", path);
  size_t count = 0;
  while (fgets(line, sizeof line, file)) {
    unsigned lower, upper;
    unsigned long long size;
    if (sscanf(line, "%*[^,],%u,%u,%llu", &lower, &upper, &size) != 3 || upper <= lower) continue;
    if (count == capacity) fail_msg("%s has more than %zu rows", path, capacity);
    b[count++] = (buffer){size, lower, upper - 1, 0};
  }
  fclose(file);
  return count;
}

static void a_real_training_graph_reaches_the_bound(void **state) {
  (void)state;
  if (!getenv("ULLAGE_TEST_DATA")) {
    print_message("skipped: ULLAGE_TEST_DATA is not set\n");
    skip();
  }
  buffer *b = test_malloc(2000 * sizeof *b);
  size_t count = load("somas-resnet50.csv", b, 2000);
  assert_int_equal(count, 1042);
  ull__packing_result result = pack(b, count, NULL);
  assert_int_equal(result.height_bytes, result.lower_bound_bytes);
  test_free(b);
}

static void hard_instances_stay_near_the_bound(void **state) {
  (void)state;
  if (!getenv("ULLAGE_TEST_DATA")) {
    print_message("skipped: ULLAGE_TEST_DATA is not set\n");
    skip();
  }
  buffer b[600];
  ull__packing_options options = {.strategies = 16, .orders = 200, .visits = 4000000, .seed = 1};
  for (char letter = 'A'; letter <= 'K'; letter++) {
    char name[64];
    snprintf(name, sizeof name, "minimalloc/%c.1048576.csv", letter);
    size_t count = load(name, b, 600);
    ull__packing_result result = pack(b, count, &options);
    double ratio = (double)result.height_bytes / (double)result.lower_bound_bytes;
    print_message("%s: %zu buffers, height / lower bound %.4f\n", name, count, ratio);
    assert_true(ratio < 1.20);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_needs_no_arena),
      cmocka_unit_test(sizes_are_rounded_up_and_padding_is_counted),
      cmocka_unit_test(lifetimes_that_only_touch_share_a_place),
      cmocka_unit_test(the_bound_is_known_without_packing),
      cmocka_unit_test(a_hand_made_case_reaches_its_optimum),
      cmocka_unit_test(perfect_puzzles_are_solved),
      cmocka_unit_test(small_instances_reach_the_true_optimum),
      cmocka_unit_test(an_optimum_above_the_bound_is_found),
      cmocka_unit_test(bad_input_is_refused),
      cmocka_unit_test(sizes_that_overflow_are_refused),
      cmocka_unit_test(training_steps_reach_the_bound),
      cmocka_unit_test(the_same_input_gives_the_same_offsets),
      cmocka_unit_test(more_effort_is_never_worse),
      cmocka_unit_test(memory_that_runs_out_is_reported),
      cmocka_unit_test(the_verifier_finds_faults),
      cmocka_unit_test(the_verifier_finds_every_moved_buffer),
      cmocka_unit_test(a_real_training_graph_reaches_the_bound),
      cmocka_unit_test(hard_instances_stay_near_the_bound),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
