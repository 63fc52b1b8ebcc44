/* Samples of the program's own: they arrive as every other source's do, and what goes wrong in the
 * functions is an error with a name, never a crash. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ullage/data_callback.h"

enum { SAMPLES = 101, BATCH = 10, EPOCHS = 3 };

/* What the functions see, and how they behave. */
typedef struct own_samples {
  pthread_mutex_t mutex;
  int inside, most_inside;
  bool read[SAMPLES];
  uint64_t bad_sample; /* SAMPLES: none */
  ull_status bad_status;
} own_samples;

static void enter(own_samples *own, int change) {
  pthread_mutex_lock(&own->mutex);
  own->inside += change;
  if (own->inside > own->most_inside) own->most_inside = own->inside;
  pthread_mutex_unlock(&own->mutex);
}

static ull_status read_own(void *context, uint64_t sample, size_t array, void *bytes) {
  own_samples *own = context;
  enter(own, 1);
  if (array == 0) {
    own->read[sample] = true;
    float values[2] = {(float)sample, -(float)sample};
    memcpy(bytes, values, sizeof values);
  } else {
    int64_t label = (int64_t)(sample % 7);
    memcpy(bytes, &label, sizeof label);
  }
  enter(own, -1);
  return sample == own->bad_sample ? own->bad_status : ULL_OK;
}

static const ull_callback_array arrays[] = {
    {.name = "x", .dtype = ULL_FLOAT32, .rank = 1, .shape = {2}},
    {.name = "label", .dtype = ULL_INT64}};

static void prepare(own_samples *own, ull_callbacks *callbacks) {
  *own = (own_samples){.mutex = PTHREAD_MUTEX_INITIALIZER, .bad_sample = SAMPLES};
  *callbacks = (ull_callbacks){
      .samples = SAMPLES, .arrays = arrays, .array_count = 2, .read = read_own, .context = own};
}

static ull_source *open_registered(const char *text) {
  ull_source_options options = ull_source_options_default();
  ull_source *source = NULL;
  assert_int_equal(ull_source_open(text, &options, &source), ULL_OK);
  return source;
}

static ull_loader *load(const ull_source *source, int workers, ull_on_bad on_bad) {
  ull_binding bindings[2] = {ull_binding_default(source, 0), ull_binding_default(source, 1)};
  ull_loader_options options = ull_loader_options_default(source);
  ull_loader *loader;
  options.bindings = bindings;
  options.binding_count = 2;
  options.batch_size = BATCH;
  options.workers = workers;
  options.epochs = EPOCHS;
  options.on_bad = on_bad;
  options.max_bad = 1000;
  assert_int_equal(ull_loader_create(&options, &loader), ULL_OK);
  return loader;
}

/* Walks all epochs; every sample must be what its number says. */
static uint64_t count_right_samples(ull_loader *loader) {
  const ull_batch *batch;
  uint64_t count = 0;
  while (ull_loader_next(loader, &batch) == ULL_OK && batch != NULL) {
    const float *x = batch->arrays[0].data;
    const int64_t *label = batch->arrays[1].data;
    for (uint64_t i = 0; i < batch->samples; i++) {
      float number = (float)batch->sample_index[i];
      assert_true(x[2 * i] == number && x[2 * i + 1] == -number);
      assert_int_equal(label[i], batch->sample_index[i] % 7);
      count++;
    }
    ull_loader_release(loader, batch);
  }
  return count;
}

static void samples_arrive(void **state) {
  (void)state;
  own_samples own;
  ull_callbacks callbacks;
  prepare(&own, &callbacks);
  assert_int_equal(ull_source_register("mine", &callbacks), ULL_OK);
  ull_source *source = open_registered("callback:mine");
  assert_int_equal(ull_source_array(source, 1)->role, ULL_ARRAY_TARGET);
  assert_int_equal(ull_source_unregister("mine"), ULL_OK); /* the open source stays */
  for (int workers = 0; workers < 4; workers++) {
    ull_loader *loader = load(source, workers, ULL_ON_BAD_FAIL);
    assert_int_equal(count_right_samples(loader), SAMPLES * EPOCHS);
    ull_loader_destroy(loader);
  }
  ull_source_close(source);
}

/* A loader that goes on somewhere does not first begin elsewhere. */
static void nothing_is_read_before_the_place_is_known(void **state) {
  (void)state;
  enum { FIRST = 9 };
  own_samples own;
  ull_callbacks callbacks;
  const ull_batch *batch;
  prepare(&own, &callbacks);
  assert_int_equal(ull_source_register("mine", &callbacks), ULL_OK);
  ull_source *source = open_registered("callback:mine");
  ull_binding binding = ull_binding_default(source, 0);
  ull_loader_options options = ull_loader_options_default(source);
  ull_loader *loader;
  options.bindings = &binding;
  options.binding_count = 1;
  options.batch_size = BATCH;
  options.shuffle = false;
  options.epochs = 1;
  assert_int_equal(ull_loader_create(&options, &loader), ULL_OK);
  usleep(20000); /* time enough for threads that would not wait */
  assert_int_equal(ull_loader_set_position(loader, (ull_loader_position){0, FIRST}), ULL_OK);
  assert_int_equal(ull_loader_next(loader, &batch), ULL_OK);
  assert_int_equal(batch->sample_index[0], FIRST * BATCH);
  ull_loader_destroy(loader);
  for (int i = 0; i < FIRST * BATCH; i++) assert_false(own.read[i]);
  ull_source_close(source);
  assert_int_equal(ull_source_unregister("mine"), ULL_OK);
}

static void one_call_at_a_time(void **state) {
  (void)state;
  own_samples own;
  ull_callbacks callbacks;
  prepare(&own, &callbacks);
  callbacks.one_at_a_time = true;
  assert_int_equal(ull_source_register("mine", &callbacks), ULL_OK);
  ull_source *source = open_registered("callback:mine");
  ull_loader *loader = load(source, 4, ULL_ON_BAD_FAIL);
  assert_int_equal(count_right_samples(loader), SAMPLES * EPOCHS);
  assert_int_equal(own.most_inside, 1);
  ull_loader_destroy(loader);
  ull_source_close(source);
  assert_int_equal(ull_source_unregister("mine"), ULL_OK);
}

static void failures_have_names(void **state) {
  (void)state;
  own_samples own;
  ull_callbacks callbacks;
  const ull_batch *batch;
  prepare(&own, &callbacks);
  own.bad_sample = 42;
  own.bad_status = ULL_ERROR_DATA;
  assert_int_equal(ull_source_register("mine", &callbacks), ULL_OK);
  ull_source *source = open_registered("callback:mine");
  ull_loader *loader = load(source, 2, ULL_ON_BAD_FAIL);
  ull_status status;
  while ((status = ull_loader_next(loader, &batch)) == ULL_OK && batch != NULL)
    ull_loader_release(loader, batch);
  assert_int_equal(status, ULL_ERROR_DATA);
  assert_non_null(strstr(ull_error_last()->message, "callback:mine"));
  assert_non_null(strstr(ull_error_last()->message, "42"));
  ull_loader_destroy(loader);

  loader = load(source, 2, ULL_ON_BAD_REPLACE);
  uint64_t count = 0, with_42 = 0;
  while (ull_loader_next(loader, &batch) == ULL_OK && batch != NULL) {
    for (uint64_t i = 0; i < batch->samples; i++) with_42 += batch->sample_index[i] == 42;
    count += batch->samples;
    ull_loader_release(loader, batch);
  }
  assert_int_equal(count, SAMPLES * EPOCHS);
  assert_int_equal(with_42, 0);
  assert_int_equal(ull_loader_count(loader).replaced, EPOCHS);
  ull_loader_destroy(loader);
  ull_source_close(source);
  assert_int_equal(ull_source_unregister("mine"), ULL_OK);
}

/* No batch comes while the functions are held up; the wait for it counts in full. */
static void waiting_has_an_end(void **state) {
  (void)state;
  enum { WAIT_NS = 2000000 };
  own_samples own;
  ull_callbacks callbacks;
  const ull_batch *batch;
  prepare(&own, &callbacks);
  assert_int_equal(ull_source_register("mine", &callbacks), ULL_OK);
  ull_source *source = open_registered("callback:mine");
  ull_loader *loader = load(source, 2, ULL_ON_BAD_FAIL);
  pthread_mutex_lock(&own.mutex);
  for (int i = 0; i < 3; i++) assert_false(ull_loader_wait(loader, WAIT_NS));
  pthread_mutex_unlock(&own.mutex);
  assert_true(ull_loader_wait(loader, UINT64_MAX));
  assert_int_equal(ull_loader_next(loader, &batch), ULL_OK);
  assert_true(batch->wait_ns >= 3 * WAIT_NS);
  ull_loader_release(loader, batch);
  assert_int_equal(count_right_samples(loader), SAMPLES * EPOCHS - BATCH);
  assert_true(ull_loader_wait(loader, 0)); /* for the end */
  ull_loader_destroy(loader);
  ull_source_close(source);
  assert_int_equal(ull_source_unregister("mine"), ULL_OK);
}

static void wrong_registrations_are_refused(void **state) {
  (void)state;
  own_samples own;
  ull_callbacks callbacks;
  ull_source_options options = ull_source_options_default();
  ull_source *source;
  prepare(&own, &callbacks);
  assert_int_equal(ull_source_register("", &callbacks), ULL_ERROR_USAGE);
  assert_int_equal(ull_source_register(NULL, &callbacks), ULL_ERROR_INVALID);
  assert_int_equal(ull_source_register("mine", &callbacks), ULL_OK);
  assert_int_equal(ull_source_register("mine", &callbacks), ULL_ERROR_USAGE);
  assert_int_equal(ull_source_unregister("mine"), ULL_OK);
  assert_int_equal(ull_source_unregister("mine"), ULL_ERROR_USAGE);
  assert_int_equal(ull_source_open("callback:mine", &options, &source), ULL_ERROR_USAGE);
  callbacks.read = NULL;
  assert_int_equal(ull_source_register("mine", &callbacks), ULL_ERROR_INVALID);
  callbacks.read = read_own;
  callbacks.samples = 0;
  assert_int_equal(ull_source_register("mine", &callbacks), ULL_ERROR_INVALID);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(samples_arrive),
      cmocka_unit_test(nothing_is_read_before_the_place_is_known),
      cmocka_unit_test(one_call_at_a_time),
      cmocka_unit_test(failures_have_names),
      cmocka_unit_test(waiting_has_an_end),
      cmocka_unit_test(wrong_registrations_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
