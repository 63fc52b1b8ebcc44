/* The cpu provider: asks the families, keeps layouts and constants.
 *
 * Everything handed out (layouts, constants, oneDNN's descriptors) lives until the provider is
 * destroyed; layouts are interned so that equality is equality of pointers. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/vector.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/library_heap.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/reorder.h"

struct ull__cpu_memory {
  ULL__VECTOR(void *) constants;
  ULL__VECTOR(ull__layout *) layouts;
  char fingerprint[96];
};

/* ---- memory and layouts ---- */

void *ull__cpu_constants(ull__cpu *cpu, size_t bytes) {
  if (ull__vector_reserve(&cpu->memory->constants, 1) != ULL_OK) return NULL;
  void *memory = ull__alloc_aligned(64, bytes > 0 ? bytes : 1);
  if (memory == NULL) return NULL;
  memset(memory, 0, bytes);
  cpu->memory->constants.items[cpu->memory->constants.count++] = memory;
  return memory;
}

static bool layouts_equal(const ull__layout *a, const ull__layout *b) {
  return a->kind == b->kind && a->block == b->block && a->opaque_bytes == b->opaque_bytes &&
         strcmp(a->name, b->name) == 0;
}

/* The kept layout equal to `wanted`, which is added where there is none. */
static const ull__layout *intern(ull__cpu *cpu, const ull__layout *wanted) {
  for (size_t i = 0; i < cpu->memory->layouts.count; i++) {
    if (layouts_equal(cpu->memory->layouts.items[i], wanted)) return cpu->memory->layouts.items[i];
  }
  if (ull__vector_reserve(&cpu->memory->layouts, 1) != ULL_OK) return NULL;
  ull__layout *layout = ull__alloc(1, sizeof *layout);
  if (layout == NULL) return NULL;
  *layout = *wanted;
  cpu->memory->layouts.items[cpu->memory->layouts.count++] = layout;
  return layout;
}

const ull__layout *ull__cpu_layout_blocked(ull__cpu *cpu, uint32_t block) {
  ull__layout layout = {.kind = ULL__LAYOUT_BLOCKED, .block = block};
  snprintf(layout.name, sizeof layout.name, "nChw%" PRIu32 "c", block);
  return intern(cpu, &layout);
}

const ull__layout *ull__cpu_layout_channels_last(ull__cpu *cpu) {
  ull__layout layout = {.kind = ULL__LAYOUT_CHANNELS_LAST, .block = 1, .name = "nhwc"};
  return intern(cpu, &layout);
}

#define BITS_PREFIX "bits:"

const ull__layout *ull__cpu_layout_bits(ull__cpu *cpu, const ull__layout *base, ull_dtype dtype,
                                        const ull__shape *shape) {
  uint64_t elements;
  ull__layout layout = {.kind = ULL__LAYOUT_OPAQUE, .block = 1, .descriptor = base};
  if (ull__layout_elements(base, dtype, shape, &elements) != ULL_OK) return NULL;
  layout.opaque_bytes = (elements + 7) / 8;
  snprintf(layout.name, sizeof layout.name, BITS_PREFIX "%.50s", base->name);
  return intern(cpu, &layout);
}

const ull__layout *ull__cpu_layout_bits_base(const ull__layout *layout) {
  bool bits = strncmp(layout->name, BITS_PREFIX, strlen(BITS_PREFIX)) == 0;
  return bits ? layout->descriptor : layout;
}

const ull__layout *ull__cpu_layout_opaque(ull__cpu *cpu, const char *name, const void *descriptor,
                                          uint64_t bytes) {
  ull__layout layout = {.kind = ULL__LAYOUT_OPAQUE, .block = 1, .descriptor = descriptor};
  layout.opaque_bytes = bytes;
  snprintf(layout.name, sizeof layout.name, "%.63s", name);
  return intern(cpu, &layout);
}

/* ---- choosing ---- */

static const ull__cpu_rule *const families[] = {
#define XX(name) ull__cpu_rules_##name,
    ULL__CPU_FAMILIES(XX)
#undef XX
};

/* Asks one rule and keeps its answer when it is the quickest so far. */
static ull_status consider(ull__cpu *cpu, const ull__cpu_rule *rule,
                           const ull__lowering_query *query, ull__lowering_choice *best) {
  ull__lowering_choice choice = {0};
  ULL__TRY(rule->choose(cpu, query, &choice));
  if (choice.kernel.entry == NULL) return ULL_OK;
  double seconds = choice.kernel.seconds + ull__cpu_reorder_seconds(cpu, query, &choice);
  double best_seconds = best->kernel.seconds + ull__cpu_reorder_seconds(cpu, query, best);
  if (best->kernel.entry == NULL || seconds < best_seconds) *best = choice;
  return ULL_OK;
}

static ull_status choose(ull__provider *provider, const ull__lowering_query *query,
                         ull__lowering_choice *choice) {
  ull__cpu *cpu = (ull__cpu *)provider;
  memset(choice, 0, sizeof *choice);
  for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
    for (const ull__cpu_rule *rule = families[f]; rule->op != NULL; rule++) {
      if (strcmp(rule->op, query->node->op->name) != 0) continue;
      ULL__TRY(consider(cpu, rule, query, choice));
    }
  }
  if (choice->kernel.entry != NULL) return ULL_OK;
  ULL__FAIL(ULL_ERROR_UNSUPPORTED, "no kernel on cpu for %s", query->node->op->name);
  return ull__error_holder("%s", query->node->name);
}

static ull_status reorder(ull__provider *provider, ull_dtype dtype, const ull__shape *shape,
                          const ull__layout *from, const ull__layout *to, ull__kernel *kernel) {
  return ull__cpu_reorder((ull__cpu *)provider, dtype, shape, from, to, kernel);
}

/* ---- life ---- */

static void destroy(ull__provider *provider) {
  ull__cpu *cpu = (ull__cpu *)provider;
  ull__onednn_destroy(cpu->onednn);
  if (cpu->memory != NULL) {
    for (size_t i = 0; i < cpu->memory->constants.count; i++) {
      ull__free(cpu->memory->constants.items[i]);
    }
    for (size_t i = 0; i < cpu->memory->layouts.count; i++) {
      ull__free(cpu->memory->layouts.items[i]);
    }
    ull__vector_free(&cpu->memory->constants);
    ull__vector_free(&cpu->memory->layouts);
  }
  ull__free(cpu->memory);
  ull__free(cpu);
}

static ull_status fill(ull__cpu *cpu, uint32_t threads, const ull__rates *rates) {
  cpu->provider =
      (ull__provider){.name = "cpu", .choose = choose, .reorder = reorder, .destroy = destroy};
  cpu->threads = threads > 0 ? threads : 1;
  ULL__TRY(ull__cpu_isa_check());
  cpu->isa = ull__cpu_isa();
  cpu->rates = *rates;
  cpu->memory = ull__alloc(1, sizeof *cpu->memory);
  if (cpu->memory == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  ULL__TRY(ull__onednn_create(cpu->isa, cpu->threads, &cpu->onednn));
  snprintf(cpu->memory->fingerprint, sizeof cpu->memory->fingerprint, "%s %s threads %" PRIu32,
           ull__onednn_version(), ull__isa_name(cpu->isa), cpu->threads);
  cpu->provider.fingerprint = cpu->memory->fingerprint;
  return ULL_OK;
}

void ull__cpu_provider_allow(ull__provider *provider, const ull__allowances *allowances) {
  ull__cpu *cpu = (ull__cpu *)provider;
  cpu->allowances = allowances;
  if (strcmp(allowances->fingerprint, provider->fingerprint) == 0)
    ull__cpu_provider_watch(provider);
}

bool ull__cpu_provider_watch(ull__provider *provider) {
  return ((ull__cpu *)provider)->watches = ull__library_heap_watch();
}

ull_status ull__cpu_provider_create(uint32_t threads, const ull__rates *rates,
                                    ull__provider **out) {
  *out = NULL;
  ull__cpu *cpu = ull__alloc(1, sizeof *cpu);
  if (cpu == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  ull_status status = fill(cpu, threads, rates);
  if (status != ULL_OK) {
    destroy(&cpu->provider);
    return status;
  }
  *out = &cpu->provider;
  return ULL_OK;
}
