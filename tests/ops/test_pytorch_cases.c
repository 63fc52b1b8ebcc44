/* Two networks trained as PyTorch trained them: the same weights, samples and recipe must give the
 * same 20 losses and the same gradients in step 1, to within what float32 itself leaves open.
 *
 * Through the public API on buffers of our own, and by the executor on graphs built here; on cpu
 * and sim, keeping everything and in the smallest budget; with the processor's best instructions,
 * with AVX2 alone, and on the reference kernels. What the stored values are is described in
 * tests/data/README.md. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/json.h"
#include "model/load_weights.h"
#include "model/safetensors/safetensors.h"
#include "plan/plan.h"
#include "run/executor.h"
#include "support/data_files.h"
#include "train/recipe.h"
#include "ullage/data.h"
#include "ullage/train.h"

enum { STEPS = 20, BATCH = 4, MOST_INPUTS = 2, MOST_TENSORS = 64, THREADS = 2 };
#define GRADIENT_TOLERANCE 1e-4

typedef struct option {
  const char *name, *value;
} option;

typedef struct network {
  const char *title, *model;
  option recipe[8];
  const char *inputs[MOST_INPUTS][2]; /* the model's name, the array's in the file */
} network;

static const network networks[] = {
    {"resnet",
     "zoo:small_resnet",
     {{"opt", "sgd"}, {"lr", "0.01"}, {"momentum", "0.9"}, {"weight-decay", "0"}},
     {{"image", "x"}, {"target", "target"}}},
    {"gpt2",
     "zoo:gpt2_tiny?layers=2&heads=4&width=32&vocab=100&positions=64&seq=16",
     {{"opt", "adamw"},
      {"lr", "0.001"},
      {"betas", "0.9,0.999"},
      {"eps", "1e-8"},
      {"weight-decay", "0.01"},
      {"decay-all", "true"}},
     {{"input_ids", "input_ids"}}},
};
#define NETWORKS (sizeof networks / sizeof *networks)

static void require(ull_status status) {
  if (status != ULL_OK) fail_msg("%s", ull_error_last()->message);
}

/* tests/data/TITLE_WHAT */
static const char *data_file(const network *n, const char *what) {
  char name[256];
  snprintf(name, sizeof name, "tests/data/%s_%s", n->title, what);
  return source_path(name);
}

/* ---- samples and losses ---- */

typedef struct samples {
  unsigned char *bytes[MOST_INPUTS];
  uint64_t sample_bytes[MOST_INPUTS];
  ull_dtype dtypes[MOST_INPUTS];
  size_t count; /* arrays */
} samples;

static void read_samples(const network *n, samples *out) {
  char text[1100];
  ull_source *source;
  const ull_source_options options = ull_source_options_default();
  snprintf(text, sizeof text, "npz:%s", data_file(n, "samples.npz"));
  require(ull_source_open(text, &options, &source));
  assert_int_equal(ull_source_sample_count(source), STEPS * BATCH);
  *out = (samples){.count = 0};
  for (size_t i = 0; i < MOST_INPUTS && n->inputs[i][0]; i++, out->count++) {
    size_t array = (size_t)ull_source_find_array(source, n->inputs[i][1]);
    const ull_array_info *info = ull_source_array(source, array);
    out->sample_bytes[i] = info->sample_bytes;
    out->dtypes[i] = info->dtype;
    out->bytes[i] = malloc(STEPS * BATCH * info->sample_bytes);
    for (uint64_t s = 0; s < STEPS * BATCH; s++)
      require(ull_source_read(source, s, array, out->bytes[i] + s * info->sample_bytes, NULL));
  }
  ull_source_close(source);
}

static void free_samples(samples *s) {
  for (size_t i = 0; i < s->count; i++) free(s->bytes[i]);
}

static const void *batch_of(const samples *s, size_t array, int step) {
  return s->bytes[array] + (uint64_t)step * BATCH * s->sample_bytes[array];
}

/* How far each loss is from PyTorch's, as a share of what is allowed: the worst step's. */
static double worst_step(const network *n, const double *losses, int *step) {
  json_t *object, *single, *twice;
  double worst = -1, apart = 0;
  require(ull__json_load(data_file(n, "losses.json"), 1 << 20, &object));
  single = json_object_get(object, "losses");
  twice = json_object_get(object, "losses_float64");
  assert_int_equal(json_array_size(single), STEPS);
  for (int s = 0; s < STEPS; s++) {
    double loss = json_real_value(json_array_get(single, (size_t)s));
    apart = fmax(apart, fabs(loss - json_real_value(json_array_get(twice, (size_t)s))));
    double share = fabs(losses[s] - loss) / fmax(1e-5 * fabs(loss), 10 * apart);
    if (share > worst || isnan(share)) {
      worst = share;
      *step = s + 1;
    }
  }
  json_decref(object);
  return worst;
}

static void report_losses(const network *n, const char *way, const double *losses) {
  int step = 0;
  double share = worst_step(n, losses, &step);
  printf("%-7s %-34s worst step %2d at %.3f of the tolerance\n", n->title, way, step, share);
  assert_true(share <= 1);
}

/* ---- through the public API ---- */

/* `memory` NULL: what the machine has. Returns the smallest budget in bytes. */
static uint64_t train_public(const network *n, const samples *s, const char *device,
                             const char *memory, double losses[STEPS]) {
  ull_config *config;
  ull_trainer *trainer;
  require(ull_config_create(ULL_COMMAND_TRAIN, &config));
  const option common[] = {{"model", n->model}, {"init", data_file(n, "weights.safetensors")},
                           {"batch-size", "4"}, {"steps", "20"},
                           {"device", device},  {"json", "true"},
                           {"threads", "2"},    {"effort", "100"}};
  for (size_t i = 0; i < sizeof common / sizeof *common; i++)
    require(ull_config_set(config, common[i].name, common[i].value));
  for (size_t i = 0; i < 8 && n->recipe[i].name; i++)
    require(ull_config_set(config, n->recipe[i].name, n->recipe[i].value));
  if (memory) require(ull_config_set(config, "memory", memory));
  require(ull_trainer_create(config, &trainer));
  json_t *plan;
  const char *line = ull_trainer_plan_json(trainer);
  require(ull__json_parse(line, strlen(line), "plan", &plan));
  json_t *smallest = json_object_get(json_object_get(plan, "smallest_budget_bytes"), "device");
  uint64_t smallest_bytes = (uint64_t)json_integer_value(smallest);
  json_decref(plan);
  require(ull_trainer_start(trainer));
  for (int step = 0; step < STEPS; step++) {
    ull_array arrays[MOST_INPUTS];
    ull_step_metrics metrics;
    for (size_t i = 0; i < s->count; i++)
      arrays[i] = (ull_array){n->inputs[i][0], s->dtypes[i], batch_of(s, i, step),
                              BATCH * s->sample_bytes[i]};
    require(ull_trainer_step(trainer, arrays, s->count, &metrics));
    assert_int_equal(metrics.step, step + 1);
    losses[step] = metrics.loss;
  }
  ull_trainer_destroy(trainer);
  ull_config_destroy(config);
  return smallest_bytes;
}

static const char *const devices[] = {"cpu", "sim:256MiB@8GB/s"};

static void test_losses(void **state) {
  (void)state;
  for (size_t k = 0; k < NETWORKS; k++) {
    const network *n = &networks[k];
    samples s;
    double first[STEPS], losses[STEPS];
    char way[64], memory[32];
    read_samples(n, &s);
    for (size_t d = 0; d < 2; d++) {
      uint64_t smallest = train_public(n, &s, devices[d], NULL, losses);
      snprintf(way, sizeof way, "%s, keep-all", devices[d]);
      report_losses(n, way, losses);
      if (d == 0) memcpy(first, losses, sizeof first);
      assert_memory_equal(losses, first, sizeof first);
      snprintf(memory, sizeof memory, "%llu", (unsigned long long)smallest);
      train_public(n, &s, devices[d], memory, losses);
      snprintf(way, sizeof way, "%s, smallest", devices[d]);
      report_losses(n, way, losses);
      assert_memory_equal(losses, first, sizeof first);
    }
    free_samples(&s);
  }
}

/* ---- by the executor, on graphs built here ---- */

typedef struct bench {
  const network *network;
  samples samples;
  ull__model *model;
  ull__graph *graph;
  ull__provider *provider;
  ull__plan_request request;
  ull__plan *plan;
  ull__device *device;
  ull__executor *executor;
  float hyper[ULL__HYPER_COUNT], loss_weight;
  int64_t rng[ULL__RNG_COUNT];
} bench;

typedef ull_status (*stage)(const ull__graph *, ull__graph **);

static void apply(stage run, ull__graph **graph) {
  ull__graph *next;
  require(run(*graph, &next));
  ull__graph_destroy(*graph);
  *graph = next;
}

static ull_config *recipe_config(const network *n) {
  ull_config *config;
  require(ull_config_create(ULL_COMMAND_TRAIN, &config));
  for (size_t i = 0; i < 8 && n->recipe[i].name; i++)
    require(ull_config_set(config, n->recipe[i].name, n->recipe[i].value));
  return config;
}

/* The gradients become outputs, or the optimizer uses them. */
static void build_graph(bench *b, const ull__recipe *recipe) {
  require(ull__graph_differentiate(b->model->graph, &b->graph));
  if (recipe) {
    ull__graph *next;
    require(ull__graph_add_optimizer(b->graph, recipe, &next));
    ull__graph_destroy(b->graph);
    b->graph = next;
  }
  for (uint32_t v = 0; v < ull__graph_value_count(b->graph) && !recipe; v++) {
    const ull__value *value = ull__graph_value(b->graph, v);
    char name[256];
    if (value->role != ULL__ROLE_PARAMETER) continue;
    snprintf(name, sizeof name, "%s.grad", value->name);
    ull__value_id gradient = ull__graph_find_value(b->graph, name);
    if (gradient == ULL__NONE) fail_msg("%s has no gradient", value->name);
    require(ull__graph_add_output(b->graph, name, gradient));
  }
  apply(ull__graph_fold, &b->graph);
  apply(ull__graph_fuse, &b->graph);
}

static void make_provider(bench *b, bool reference) {
  const ull__rates rates = {100e9, 20e9, 5e-6};
  require(reference ? ull__reference_provider_create(&b->provider)
                    : ull__cpu_provider_create(THREADS, &rates, &b->provider));
}

static ull_status write_weight(void *context, const ull__value *value, const void *bytes,
                               uint64_t size_bytes) {
  return ull__executor_write_value(context, value->name, bytes, size_bytes);
}

static void set_input(bench *b, const char *name, const void *bytes) {
  int input = ull__executor_find_input(b->executor, 0, name);
  if (input >= 0) ull__executor_set_input(b->executor, 0, (uint32_t)input, bytes);
}

static void begin(bench *b, const network *n, const ull__recipe *recipe, bool reference,
                  const char *device, bool smallest) {
  const ull__device_options options = {.threads = THREADS};
  const ull__model_options model_options = {0};
  *b = (bench){.network = n, .loss_weight = 1};
  read_samples(n, &b->samples);
  require(ull__model_open(n->model, &model_options, &b->model));
  build_graph(b, recipe);
  make_provider(b, reference);
  b->request = (ull__plan_request){.programs = {{"train", b->graph, BATCH}},
                                   .program_count = 1,
                                   .provider = b->provider,
                                   .shared = strcmp(device, "cpu") == 0,
                                   .budget_bytes = {UINT64_MAX, UINT64_MAX, UINT64_MAX},
                                   .effort = 100};
  require(ull__plan_create(&b->request, &b->plan));
  if (smallest) {
    memcpy(b->request.budget_bytes, b->plan->smallest_bytes, sizeof b->request.budget_bytes);
    ull__plan_destroy(b->plan);
    require(ull__plan_create(&b->request, &b->plan));
  }
  assert_true(b->plan->fits);
  require(ull__device_open(device, &options, &b->device));
  require(ull__executor_create(b->plan->family, b->provider, b->device, NULL, &b->executor));
  require(ull__model_load_weights(b->model, data_file(n, "weights.safetensors"), false,
                                  write_weight, b->executor, NULL));
  set_input(b, "hyper", b->hyper);
  set_input(b, "loss_weight", &b->loss_weight);
  set_input(b, "rng", b->rng);
}

static void end(bench *b) {
  ull__executor_destroy(b->executor);
  ull__device_close(b->device);
  ull__plan_destroy(b->plan);
  ull__provider_destroy(b->provider);
  ull__graph_destroy(b->graph);
  ull__model_destroy(b->model);
  free_samples(&b->samples);
}

static double run_step(bench *b, int step) {
  float loss;
  for (size_t i = 0; i < b->samples.count; i++)
    set_input(b, b->network->inputs[i][0], batch_of(&b->samples, i, step));
  b->rng[ULL__RNG_STEP] = step;
  require(ull__executor_run(b->executor, 0));
  require(ull__executor_read_output(b->executor, 0, "loss", &loss, sizeof loss));
  return (double)loss;
}

static void test_losses_on_reference(void **state) {
  (void)state;
  for (size_t k = 0; k < NETWORKS; k++) {
    const network *n = &networks[k];
    ull_config *config = recipe_config(n);
    ull__recipe recipe;
    ull__rate_schedule rate;
    double losses[STEPS];
    bench b;
    require(ull__recipe_from_config(config, &recipe));
    require(ull__rate_from_config(config, STEPS, STEPS, &rate));
    begin(&b, n, &recipe, true, "cpu", false);
    for (int step = 0; step < STEPS; step++) {
      ull__hyper_fill(&recipe, &rate, (uint64_t)step, b.hyper);
      losses[step] = run_step(&b, step);
    }
    report_losses(n, "cpu, reference kernels", losses);
    end(&b);
    ull_config_destroy(config);
  }
}

/* ---- gradients of step 1 ---- */

static double distance(const float *found, const float *expected, uint64_t count) {
  double apart = 0, norm = 0;
  for (uint64_t i = 0; i < count; i++) {
    double difference = (double)found[i] - (double)expected[i];
    apart += difference * difference;
    norm += (double)expected[i] * (double)expected[i];
  }
  return sqrt(apart) / sqrt(norm);
}

/* The gradient that is farthest from PyTorch's, in norms of the tensor. */
static double worst_gradient(bench *b, const char **worst_name, uint32_t *compared) {
  static char name_of_worst[256];
  ull__safetensors *file;
  double worst = -1;
  *compared = 0;
  require(ull__safetensors_open(data_file(b->network, "gradients.safetensors"), &file));
  for (uint32_t i = 0; i < ull__safetensors_count(file); i++, (*compared)++) {
    const ull__tensor_entry *entry = ull__safetensors_at(file, i);
    float *expected = malloc(entry->size_bytes), *found = malloc(entry->size_bytes);
    char name[256];
    snprintf(name, sizeof name, "%s.grad", entry->name);
    require(ull__safetensors_read(file, entry, ULL_FLOAT32, expected));
    require(ull__executor_read_output(b->executor, 0, name, found, entry->size_bytes));
    double apart = distance(found, expected, entry->size_bytes / sizeof(float));
    if (apart > worst || isnan(apart)) {
      worst = apart;
      snprintf(name_of_worst, sizeof name_of_worst, "%s", entry->name);
    }
    free(expected);
    free(found);
  }
  ull__safetensors_close(file);
  *worst_name = name_of_worst;
  return worst;
}

static uint32_t count_parameters(const ull__graph *graph) {
  uint32_t count = 0;
  for (uint32_t v = 0; v < ull__graph_value_count(graph); v++)
    count += ull__graph_value(graph, v)->role == ULL__ROLE_PARAMETER;
  return count;
}

static void check_gradients(const network *n, bool reference, const char *device, bool smallest) {
  bench b;
  const char *name;
  uint32_t compared;
  char way[64];
  begin(&b, n, NULL, reference, device, smallest);
  run_step(&b, 0);
  double apart = worst_gradient(&b, &name, &compared);
  snprintf(way, sizeof way, "%s, %s%s", device, smallest ? "smallest" : "keep-all",
           reference ? ", reference" : "");
  printf("%-7s %-34s %u gradients, at most %.1e of the norm (%s)\n", n->title, way, compared, apart,
         name);
  assert_int_equal(compared, count_parameters(b.model->graph));
  assert_true(apart <= GRADIENT_TOLERANCE);
  end(&b);
}

static void test_gradients(void **state) {
  (void)state;
  for (size_t k = 0; k < NETWORKS; k++) {
    check_gradients(&networks[k], true, "cpu", false);
    for (size_t d = 0; d < 2; d++)
      for (int smallest = 0; smallest < 2; smallest++)
        check_gradients(&networks[k], false, devices[d], smallest);
  }
}

/* ---- the same with fewer instructions ---- */

static void test_with_avx2(void **state) {
  (void)state;
  if (getenv("ULLAGE_ISA")) skip();
#ifdef __SANITIZE_ADDRESS__
  skip(); /* the first pass went through the same code, slowly enough */
#endif
  fflush(NULL);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    setenv("ULLAGE_ISA", "avx2", 1);
    execl("/proc/self/exe", "test_pytorch_cases", (char *)NULL);
    _exit(127);
  }
  int result = -1;
  assert_int_equal(waitpid(child, &result, 0), child);
  assert_true(WIFEXITED(result) && WEXITSTATUS(result) == 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_losses),
      cmocka_unit_test(test_losses_on_reference),
      cmocka_unit_test(test_gradients),
      cmocka_unit_test(test_with_avx2),
  };
  const char *isa = getenv("ULLAGE_ISA");
  setvbuf(stdout, NULL, _IOLBF, 0);
  printf("instructions: %s\n", isa ? isa : "the processor's best");
  return cmocka_run_group_tests(tests, NULL, NULL);
}
