/* The library as a program that embeds it uses it: settings by name, a refusal to read, steps on
 * buffers of its own, evaluation, weights out and in, several trainers, a stop from elsewhere. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/data_files.h"
#include "support/small_training.h"

static const char *folder;

static double step(session *s, int index) {
  const ull_array arrays[] = {
      {"target", ULL_INT64, targets + index * BATCH, BATCH * sizeof *targets},
      {"image", ULL_FLOAT32, images + index * BATCH, BATCH * sizeof *images}};
  ull_step_metrics metrics;
  require(ull_trainer_step(s->trainer, arrays, 2, &metrics));
  assert_int_equal(metrics.step, index + 1);
  assert_int_equal(metrics.samples, BATCH);
  assert_true(metrics.accuracy >= 0 && metrics.accuracy <= 1);
  assert_true(metrics.lr > 0.0499 && metrics.lr < 0.0501);
  return metrics.loss;
}

typedef struct history {
  double losses[STEPS];
  char hash[65];
} history;

static history train_all(const setting *more) {
  history h;
  session s = begin(more);
  for (int i = 0; i < STEPS; i++) h.losses[i] = step(&s, i);
  snprintf(h.hash, sizeof h.hash, "%s", ull_trainer_weights_hash(s.trainer));
  end(&s);
  return h;
}

static void assert_same(const history *a, const history *b) {
  assert_memory_equal(a->losses, b->losses, sizeof a->losses);
  assert_string_equal(a->hash, b->hash);
}

/* ---- what may go wrong ---- */

static void test_refusal(void **state) {
  (void)state;
  ull_config *config = configure((const setting[]){{"memory", "1MiB"}, {NULL, NULL}});
  ull_trainer *trainer;
  ull_error_clear();
  require(ull_trainer_create(config, &trainer));
  assert_false(ull_trainer_fits(trainer));
  assert_non_null(strstr(ull_trainer_plan_json(trainer), "\"fits\":false"));
  for (int by_start = 0; by_start < 2; by_start++) {
    ull_error_clear();
    assert_int_equal(by_start ? ull_trainer_start(trainer) : ull_trainer_refuse(trainer),
                     ULL_ERROR_DOES_NOT_FIT);
    const ull_error *error = ull_error_last();
    assert_int_equal(error->status, ULL_ERROR_DOES_NOT_FIT);
    assert_int_equal(error->available_bytes, 1 << 20);
    assert_true(error->wanted_bytes > error->available_bytes);
    assert_true(error->holder[0] != '\0');
    assert_non_null(strstr(error->change, "--memory "));
  }
  ull_trainer_destroy(trainer);
  ull_config_destroy(config);
}

/* Exactly what the refusal names is enough. */
static void test_change_fits(void **state) {
  (void)state;
  char change[256];
  ull_config *config = configure((const setting[]){{"memory", "1MiB"}, {NULL, NULL}});
  ull_trainer *trainer;
  require(ull_trainer_create(config, &trainer));
  ull_trainer_refuse(trainer);
  const char *from = strstr(ull_error_last()->change, "--memory ") + strlen("--memory ");
  snprintf(change, sizeof change, "%.*s", (int)strcspn(from, ", "), from);
  ull_trainer_destroy(trainer);
  ull_config_destroy(config);
  session s = begin((const setting[]){{"memory", change}, {NULL, NULL}});
  step(&s, 0);
  end(&s);
}

static void test_mistakes(void **state) {
  (void)state;
  const ull_array right[] = {{"image", ULL_FLOAT32, images, BATCH * sizeof *images},
                             {"target", ULL_INT64, targets, BATCH * sizeof *targets}};
  ull_array wrong[2];
  ull_step_metrics metrics;
  ull_evaluation evaluation;
  ull_config *config = configure(NULL);
  ull_trainer *trainer;
  assert_int_equal(ull_config_set(config, "batchsize", "6"), ULL_ERROR_USAGE);
  assert_non_null(strstr(ull_error_last()->change, "batch-size"));
  require(ull_trainer_create(config, &trainer));
  assert_int_equal(ull_trainer_step(trainer, right, 2, &metrics), ULL_ERROR_INVALID);
  assert_int_equal(ull_trainer_evaluate(trainer, &evaluation), ULL_ERROR_INVALID);
  assert_null(ull_trainer_weights_hash(trainer));
  require(ull_trainer_start(trainer));
  assert_int_equal(ull_trainer_start(trainer), ULL_ERROR_INVALID);
  assert_int_equal(ull_trainer_evaluate(trainer, &evaluation), ULL_ERROR_USAGE);
  assert_int_equal(ull_trainer_step(trainer, right, 1, &metrics), ULL_ERROR_INVALID);
  assert_string_equal(ull_error_last()->holder, "target");
  memcpy(wrong, right, sizeof wrong);
  wrong[1].dtype = ULL_INT32;
  assert_int_equal(ull_trainer_step(trainer, wrong, 2, &metrics), ULL_ERROR_MISMATCH);
  memcpy(wrong, right, sizeof wrong);
  wrong[0].bytes -= sizeof *images;
  assert_int_equal(ull_trainer_step(trainer, wrong, 2, &metrics), ULL_ERROR_MISMATCH);
  assert_int_equal(ull_error_last()->wanted_bytes, BATCH * sizeof *images);
  assert_int_equal(ull_error_last()->available_bytes, (BATCH - 1) * sizeof *images);
  require(ull_trainer_step(trainer, right, 2, &metrics));
  assert_int_equal(metrics.step, 1);
  ull_trainer_destroy(trainer);
  ull_config_destroy(config);
}

/* ---- the same numbers as the command ---- */

static char *run_command(const char *arguments) {
  static char output[1 << 20];
  char line[2000];
  const char *binary = getenv("ULLAGE_BINARY");
  if (!binary || access(binary, X_OK) != 0) return NULL;
  snprintf(line, sizeof line, "'%s' %s 2>/dev/null", binary, arguments);
  FILE *pipe = popen(line, "r");
  assert_non_null(pipe);
  size_t count = fread(output, 1, sizeof output - 1, pipe);
  output[count] = '\0';
  assert_int_equal(pclose(pipe), 0);
  return output;
}

static void test_losses_of_the_command(void **state) {
  (void)state;
  char arguments[1600];
  snprintf(arguments, sizeof arguments,
           "train '" MODEL "' --batch-size 6 --lr 0.05 --steps 5 --threads 1 --json --seed 3 "
           "--no-shuffle --data '%s'",
           write_samples(folder));
  char *line = run_command(arguments);
  if (!line) skip();
  history h = train_all(NULL);
  char *at = strstr(line, "\"losses\":[");
  assert_non_null(at);
  at += strlen("\"losses\":[");
  for (int i = 0; i < STEPS; i++, at++) assert_true(strtod(at, &at) == h.losses[i]);
  assert_non_null(strstr(line, h.hash));
  assert_true(h.losses[STEPS - 1] < h.losses[0]);
}

static void test_evaluation(void **state) {
  (void)state;
  const char *data = write_samples(folder);
  ull_evaluation before, after;
  session s = begin((const setting[]){{"val-data", data}, {NULL, NULL}});
  char hash[65];
  require(ull_trainer_evaluate(s.trainer, &before));
  snprintf(hash, sizeof hash, "%s", ull_trainer_weights_hash(s.trainer));
  require(ull_trainer_evaluate(s.trainer, &after));
  assert_true(before.loss == after.loss);
  assert_string_equal(hash, ull_trainer_weights_hash(s.trainer));
  history plain = train_all(NULL);
  for (int i = 0; i < STEPS; i++) assert_true(step(&s, i) == plain.losses[i]);
  require(ull_trainer_evaluate(s.trainer, &after));
  assert_int_equal(after.samples, SAMPLES);
  assert_true(after.loss < before.loss);
  double right = after.accuracy * SAMPLES;
  assert_true(right == (double)(int)(right + 0.5));
  assert_string_equal(plain.hash, ull_trainer_weights_hash(s.trainer));
  end(&s);
}

static void test_weights(void **state) {
  (void)state;
  const char *path = path_in(folder, "weights.safetensors");
  char hash[65];
  session s = begin(NULL);
  for (int i = 0; i < STEPS; i++) step(&s, i);
  snprintf(hash, sizeof hash, "%s", ull_trainer_weights_hash(s.trainer));
  require(ull_trainer_save_weights(s.trainer, path));
  end(&s);
  s = begin(NULL);
  assert_string_not_equal(hash, ull_trainer_weights_hash(s.trainer));
  end(&s);
  s = begin((const setting[]){{"init", path}, {"seed", "4"}, {NULL, NULL}});
  assert_string_equal(hash, ull_trainer_weights_hash(s.trainer));
  end(&s);
}

/* ---- more than one ---- */

static void test_one_after_the_other(void **state) {
  (void)state;
  history first = train_all(NULL), second = train_all(NULL);
  assert_same(&first, &second);
  history sim = train_all((const setting[]){{"device", "sim:64MiB@8GB/s"}, {NULL, NULL}});
  assert_same(&first, &sim);
}

static void test_two_at_once(void **state) {
  (void)state;
  history alone = train_all(NULL), pair[2];
  session s[2] = {begin(NULL), begin((const setting[]){{"micro-batch", "off"}, {NULL, NULL}})};
  for (int i = 0; i < STEPS; i++)
    for (int k = 0; k < 2; k++) pair[k].losses[i] = step(&s[k], i);
  for (int k = 0; k < 2; k++) {
    snprintf(pair[k].hash, sizeof pair[k].hash, "%s", ull_trainer_weights_hash(s[k].trainer));
    assert_same(&alone, &pair[k]);
  }
  end(&s[0]);
  end(&s[1]);
}

static void *train_in_thread(void *out) {
  *(history *)out = train_all(NULL);
  return NULL;
}

static void test_two_threads(void **state) {
  (void)state;
  history alone = train_all(NULL), pair[2];
  pthread_t threads[2];
  for (int k = 0; k < 2; k++)
    assert_int_equal(pthread_create(&threads[k], NULL, train_in_thread, &pair[k]), 0);
  for (int k = 0; k < 2; k++) pthread_join(threads[k], NULL);
  for (int k = 0; k < 2; k++) assert_same(&alone, &pair[k]);
}

/* ---- stopping ---- */

typedef struct stop_case {
  ull_trainer *trainer;
  atomic_int steps;
} stop_case;

static void count_step(void *context, const ull_step_metrics *metrics) {
  atomic_store(&((stop_case *)context)->steps, (int)metrics->step);
}

static void *stop_after_three(void *context) {
  stop_case *c = context;
  while (atomic_load(&c->steps) < 3) usleep(200);
  ull_trainer_stop(c->trainer);
  return NULL;
}

static void test_stop_from_another_thread(void **state) {
  (void)state;
  const char *run = path_in(folder, "stopped");
  session s = begin((const setting[]){{"steps", "1000000"}, {"run", run}, {NULL, NULL}});
  stop_case c = {.trainer = s.trainer};
  const ull_train_events events = {.step = count_step, .context = &c};
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, stop_after_three, &c), 0);
  assert_int_equal(ull_trainer_run(s.trainer, &events), ULL_ERROR_STOPPED);
  pthread_join(thread, NULL);
  assert_true(atomic_load(&c.steps) >= 3 && atomic_load(&c.steps) < 1000000);
  char hash[65], weights[600];
  snprintf(hash, sizeof hash, "%s", ull_trainer_weights_hash(s.trainer));
  end(&s);
  snprintf(weights, sizeof weights, "%s/weights.safetensors", run);
  s = begin((const setting[]){{"init", weights}, {NULL, NULL}});
  assert_string_equal(hash, ull_trainer_weights_hash(s.trainer));
  end(&s);
}

/* Steps on buffers of one's own write nothing anywhere. */
static void test_no_folder_unasked(void **state) {
  (void)state;
  char *before = getcwd(NULL, 0);
  assert_int_equal(chdir(folder), 0);
  session s = begin((const setting[]){{"json", "false"}, {NULL, NULL}});
  step(&s, 0);
  end(&s);
  assert_int_not_equal(access("runs", F_OK), 0);
  assert_int_equal(chdir(before), 0);
  free(before);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_refusal),
      cmocka_unit_test(test_change_fits),
      cmocka_unit_test(test_mistakes),
      cmocka_unit_test(test_losses_of_the_command),
      cmocka_unit_test(test_evaluation),
      cmocka_unit_test(test_weights),
      cmocka_unit_test(test_one_after_the_other),
      cmocka_unit_test(test_two_at_once),
      cmocka_unit_test(test_two_threads),
      cmocka_unit_test(test_stop_from_another_thread),
      cmocka_unit_test(test_no_folder_unasked),
  };
  make_samples();
  folder = make_folder();
  int failures = cmocka_run_group_tests(tests, NULL, NULL);
  remove_tree(folder);
  return failures;
}
