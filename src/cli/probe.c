/* ullage probe: what is this machine. */
#include <jansson.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "ullage/probe.h"

static double gib(uint64_t bytes) {
  return (double)bytes / 1073741824.0;
}

static void print_words(FILE *out, const ull_probe *p) {
  fprintf(out, "cores     %u usable (%u by affinity", p->usable_cores, p->affinity_cores);
  if (p->quota_cores > 0) fprintf(out, ", %.2f by cgroup quota", p->quota_cores);
  fprintf(out, ") · %s\n", p->instruction_set);
  fprintf(out, "memory    %.1f GiB in all, %.1f GiB may be taken\n", gib(p->total_bytes),
          gib(p->usable_bytes));
  for (uint32_t i = 0; i < p->bound_count; i++) {
    cli_put(out, i == p->least_bound ? "          ▸ " : "            ", p->bounds[i].name, ": ");
    fprintf(out, "%.1f GiB left of %.1f\n", gib(p->bounds[i].left_bytes),
            gib(p->bounds[i].limit_bytes));
  }
  fprintf(out, "compute   %.0f GFLOP/s in a float32 matrix product on %u threads (%s)\n",
          p->flops_per_second * 1e-9, p->threads, p->fingerprint);
  fprintf(out, "copy      %.1f GB/s, read and write counted\n", p->copy_bytes_per_second * 1e-9);
  fprintf(out, "launch    %.1f us there and back\n", p->launch_seconds * 1e6);
  fprintf(out, "machine   \"%s\"\n", p->machine);
}

static json_t *bounds_of(const ull_probe *p) {
  json_t *bounds = json_array();
  for (uint32_t i = 0; i < p->bound_count; i++)
    json_array_append_new(bounds, json_pack("{s:s, s:I, s:I}", "name", p->bounds[i].name,
                                            "limit_bytes", (json_int_t)p->bounds[i].limit_bytes,
                                            "left_bytes", (json_int_t)p->bounds[i].left_bytes));
  return bounds;
}

static json_t *allowances_of(const ull_probe_kernel *kernels, uint32_t count) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < count; i++) {
    const ull_probe_kernel *k = &kernels[i];
    json_array_append_new(
        list, json_pack("{s:s, s:I, s:I, s:I, s:I, s:i}", "name", k->name, "prepared_bytes",
                        (json_int_t)k->prepared_bytes, "again_bytes", (json_int_t)k->again_bytes,
                        "launch_bytes", (json_int_t)k->launch_bytes, "launch_calls",
                        (json_int_t)k->launch_calls, "training_nodes", (int)k->training_nodes));
  }
  return list;
}

static void print_kernels(FILE *out, const ull_probe_kernel *kernels, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    const ull_probe_kernel *k = &kernels[i];
    fprintf(out, "%s %8.1f KiB when prepared, %5llu bytes in %2llu calls a launch  %s\n",
            i == 0 ? "library  " : "         ", (double)k->prepared_bytes / 1024,
            (unsigned long long)k->launch_bytes, (unsigned long long)k->launch_calls, k->name);
  }
}

static int print_json(const ull_probe *p, json_t *allowances) {
  json_t *object = json_pack(
      "{s:i, s:i, s:i, s:f, s:s, s:I, s:I, s:o, s:i, s:f, s:f, s:f, s:s, s:s}", "schema", 1,
      "usable_cores", (int)p->usable_cores, "affinity_cores", (int)p->affinity_cores, "quota_cores",
      p->quota_cores, "instruction_set", p->instruction_set, "total_bytes",
      (json_int_t)p->total_bytes, "memory_limit_bytes", (json_int_t)p->usable_bytes,
      "memory_bounds", bounds_of(p), "threads", (int)p->threads, "flops_per_second",
      p->flops_per_second, "copy_bytes_per_second", p->copy_bytes_per_second, "launch_seconds",
      p->launch_seconds, "fingerprint", p->fingerprint, "machine", p->machine);
  if (object && allowances) json_object_set(object, "allowances", allowances);
  char *line = object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
  if (line) puts(line);
  int code = line ? 0 : 1;
  free(line);
  json_decref(object);
  return code;
}

int cli_probe(command *c) {
  ull_probe p;
  uint32_t threads =
      ull_config_has(c->config, "threads") ? (uint32_t)ull_config_integer(c->config, "threads") : 0;
  if (ull_probe_measure(threads, &p) != ULL_OK) return cli_fail(c, NULL);
  print_words(c->report, &p);
  ull_probe_kernel *kernels = NULL;
  uint32_t count = 0;
  bool dry = ull_config_has(c->config, "model");
  if (dry && ull_probe_kernels(c->config, &p, &kernels, &count) != ULL_OK) return cli_fail(c, NULL);
  print_kernels(c->report, kernels, count);
  json_t *allowances = dry ? allowances_of(kernels, count) : NULL;
  int code = c->json ? print_json(&p, allowances) : 0;
  json_decref(allowances);
  ull_probe_kernels_free(kernels, count);
  return code;
}
