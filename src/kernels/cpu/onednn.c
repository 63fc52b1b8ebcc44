/* The library's engine and stream, its view of layouts, and kernels made of primitives.
 *
 * A kernel is described (which fixes layouts and scratch bytes) when nodes are lowered, and becomes
 * a primitive with its memory objects in `prepare`; a launch only sets addresses and executes, so
 * our code allocates nothing in a step. The team's size is set before the library is asked, since
 * descriptors depend on it. */
#include "kernels/cpu/library_heap.h"
#include "kernels/cpu/onednn_internal.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/vector.h"

enum { MAX_ARGUMENTS = 6 };

typedef struct kernel_argument {
  int argument;
  uint32_t operand;
  ull__onednn_md md;
  dnnl_memory_t memory; /* NULL until prepared */
} kernel_argument;

typedef struct onednn_kernel {
  ull__onednn *onednn;
  dnnl_primitive_desc_t descriptor;
  dnnl_primitive_t primitive; /* NULL until prepared */
  ull__library_kernel *library;
  bool watches;
  uint32_t argument_count;
  kernel_argument arguments[MAX_ARGUMENTS];
} onednn_kernel;

struct ull__onednn {
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  int threads;
  void (*set_team_size)(int); /* of the OpenMP runtime that the library uses; NULL = none */
  ULL__VECTOR(onednn_kernel *) kernels;
  ULL__VECTOR(ull__onednn_layout *) layouts;
  ull__library_kernels library;
};

/* ---- state ---- */

/* A build without OpenMP of our own still meets the library's; there it runs with one thread. */
static void find_team(ull__onednn *onednn, uint32_t threads) {
  *(void **)&onednn->set_team_size = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
#ifdef ULL__OPENMP
  onednn->threads = (int)threads;
#else
  (void)threads;
  onednn->threads = 1;
#endif
}

void ull__onednn_enter_team(const ull__onednn *onednn) {
  if (onednn->set_team_size != NULL) onednn->set_team_size(onednn->threads);
}

ull_status ull__onednn_create(ull__isa isa, uint32_t threads, ull__onednn **out) {
  ull__onednn *onednn = ull__alloc(1, sizeof *onednn);
  *out = onednn;
  if (onednn == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  ull__onednn_cap_isa(isa);
  find_team(onednn, threads);
  ull__onednn_enter_team(onednn);
  ULL__TRY(ull__onednn_check(dnnl_engine_create(&onednn->engine, dnnl_cpu, 0), "an engine"));
  return ull__onednn_check(
      dnnl_stream_create(&onednn->stream, onednn->engine, dnnl_stream_default_flags), "a stream");
}

static void destroy_kernel(onednn_kernel *kernel) {
  for (uint32_t i = 0; i < kernel->argument_count; i++) {
    if (kernel->arguments[i].memory != NULL) (void)dnnl_memory_destroy(kernel->arguments[i].memory);
    ull__onednn_md_destroy(&kernel->arguments[i].md);
  }
  if (kernel->primitive != NULL) (void)dnnl_primitive_destroy(kernel->primitive);
  if (kernel->descriptor != NULL) (void)dnnl_primitive_desc_destroy(kernel->descriptor);
  ull__free(kernel);
}

void ull__onednn_destroy(ull__onednn *onednn) {
  if (onednn == NULL) return;
  for (size_t i = 0; i < onednn->kernels.count; i++) destroy_kernel(onednn->kernels.items[i]);
  for (size_t i = 0; i < onednn->layouts.count; i++) {
    ull__onednn_md_destroy(&onednn->layouts.items[i]->md);
    ull__free(onednn->layouts.items[i]);
  }
  ull__vector_free(&onednn->kernels);
  ull__vector_free(&onednn->layouts);
  ull__library_kernels_free(&onednn->library);
  if (onednn->stream != NULL) (void)dnnl_stream_destroy(onednn->stream);
  if (onednn->engine != NULL) (void)dnnl_engine_destroy(onednn->engine);
  ull__free(onednn);
}

const char *ull__onednn_version(void) {
  static _Thread_local char text[32];
  const dnnl_version_t *version = dnnl_version();
  snprintf(text, sizeof text, "onednn %d.%d.%d", version->major, version->minor, version->patch);
  return text;
}

dnnl_engine_t ull__onednn_engine(const ull__onednn *onednn) {
  return onednn->engine;
}

/* ---- layouts ---- */

static ull_status strided_md(bool channels_last, ull_dtype dtype, uint32_t rank,
                             const int64_t *dims, ull__onednn_md *out) {
  int64_t strides[ULL__MAX_RANK], next = 1;
  bool moves = channels_last && rank > 2;
  if (moves) {
    strides[1] = 1;
    next = dims[1];
  }
  for (uint32_t i = rank; i-- > 0;) {
    if (moves && i == 1) continue;
    strides[i] = next;
    next *= dims[i];
  }
  return ull__onednn_md_create_strided(rank, dims, dtype, strides, out);
}

static ull_status blocked_md(uint32_t block, ull_dtype dtype, uint32_t rank, const int64_t *dims,
                             ull__onednn_md *out) {
  if (rank != 4 || (block != 8 && block != 16)) {
    return ULL__FAIL(ULL_ERROR_UNSUPPORTED, "no blocks of %u in %u dimensions", block, rank);
  }
  return ull__onednn_md_create(rank, dims, dtype, block == 16 ? dnnl_nChw16c : dnnl_nChw8c, out);
}

ull_status ull__onednn_md_of_layout(const ull__layout *layout, ull_dtype dtype, uint32_t rank,
                                    const int64_t *dims, ull__onednn_md *out) {
  switch (layout->kind) {
  case ULL__LAYOUT_PLAIN:
    return strided_md(false, dtype, rank, dims, out);
  case ULL__LAYOUT_CHANNELS_LAST:
    return strided_md(true, dtype, rank, dims, out);
  case ULL__LAYOUT_BLOCKED:
    return blocked_md(layout->block, dtype, rank, dims, out);
  default:
    return ull__onednn_md_clone(&((const ull__onednn_layout *)layout->descriptor)->md, out);
  }
}

static ull_status keep_layout(ull__cpu *cpu, uint32_t rank, const int64_t *dims,
                              const ull__onednn_md *md, ull__onednn_layout **out) {
  ULL__TRY(ull__vector_reserve(&cpu->onednn->layouts, 1));
  ull__onednn_layout *kept = ull__alloc(1, sizeof *kept);
  if (kept == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  kept->rank = rank;
  memcpy(kept->dims, dims, rank * sizeof *dims);
  ull_status status = ull__onednn_md_clone(md, &kept->md);
  if (status != ULL_OK) {
    ull__free(kept);
    return status;
  }
  cpu->onednn->layouts.items[cpu->onednn->layouts.count++] = kept;
  *out = kept;
  return ULL_OK;
}

/* The layout of these dimensions that has every element at the same place, or NULL. */
static const ull__layout *find_layout(const ull__onednn *onednn, uint32_t rank, const int64_t *dims,
                                      const ull__onednn_md *md) {
  for (size_t i = 0; i < onednn->layouts.count; i++) {
    const ull__onednn_layout *known = onednn->layouts.items[i];
    if (known->rank == rank && memcmp(known->dims, dims, rank * sizeof *dims) == 0 &&
        ull__onednn_md_same_place(&known->md, md)) {
      return known->layout;
    }
  }
  return NULL;
}

/* "ABcd16b16a[64x32x3x3]": the dimensions belong to the identity. */
static void name_layout(uint32_t rank, const int64_t *dims, const ull__onednn_md *md, char *name,
                        size_t size) {
  ull__onednn_md_name(md, name, size);
  size_t used = strlen(name);
  for (uint32_t i = 0; i < rank && used + 1 < size; i++) {
    used +=
        (size_t)snprintf(name + used, size - used, "%c%lld", i > 0 ? 'x' : '[', (long long)dims[i]);
  }
  if (used + 1 < size) snprintf(name + used, size - used, "]");
}

static ull_status opaque_layout(ull__cpu *cpu, uint32_t rank, const int64_t *dims,
                                const ull__onednn_md *md, const ull__layout **out) {
  *out = find_layout(cpu->onednn, rank, dims, md);
  if (*out != NULL) return ULL_OK;
  char name[64];
  ull__onednn_layout *kept;
  ULL__TRY(keep_layout(cpu, rank, dims, md, &kept));
  name_layout(rank, dims, md, name, sizeof name);
  kept->layout = ull__cpu_layout_opaque(cpu, name, kept, ull__onednn_md_bytes(md));
  *out = kept->layout;
  return kept->layout != NULL ? ULL_OK : ULL_ERROR_OUT_OF_MEMORY;
}

static bool lies_as(const ull__layout *layout, ull_dtype dtype, uint32_t rank, const int64_t *dims,
                    const ull__onednn_md *md) {
  ull__onednn_md candidate = {0};
  bool same = ull__onednn_md_of_layout(layout, dtype, rank, dims, &candidate) == ULL_OK &&
              ull__onednn_md_same_place(&candidate, md);
  ull__onednn_md_destroy(&candidate);
  return same;
}

ull_status ull__onednn_layout_of_md(ull__cpu *cpu, ull_dtype dtype, uint32_t rank,
                                    const int64_t *dims, const ull__onednn_md *md,
                                    const ull__layout **out) {
  const ull__layout *known[] = {&ull__layout_plain, ull__cpu_layout_channels_last(cpu),
                                ull__cpu_layout_blocked(cpu, 8), ull__cpu_layout_blocked(cpu, 16)};
  uint32_t count = rank == 4 ? 4 : 1;
  for (uint32_t i = 0; i < count; i++) {
    if (known[i] == NULL) return ULL_ERROR_OUT_OF_MEMORY;
    *out = known[i];
    if (lies_as(known[i], dtype, rank, dims, md)) return ULL_OK;
  }
  return opaque_layout(cpu, rank, dims, md, out);
}

/* ---- kernels ---- */

static ull_status create_primitive(onednn_kernel *kernel) {
  for (uint32_t i = 0; i < kernel->argument_count; i++) {
    kernel_argument *argument = &kernel->arguments[i];
    if (argument->memory != NULL) continue;
    ULL__TRY(ull__onednn_memory_create(kernel->onednn->engine, &argument->md, &argument->memory));
  }
  return ull__onednn_check(dnnl_primitive_create(&kernel->primitive, kernel->descriptor),
                           "a primitive");
}

static ull_status prepare_kernel(const void *constants) {
  onednn_kernel *kernel = (onednn_kernel *)(uintptr_t)constants;
  if (kernel->primitive != NULL) return ULL_OK;
  ull__onednn_enter_team(kernel->onednn);
  if (!kernel->watches) return create_primitive(kernel);
  ull__library_heap_begin();
  ull_status status = create_primitive(kernel);
  ull_status counted = ull__library_kernel_prepared(kernel->library);
  return status != ULL_OK ? status : counted;
}

static ull_status execute(const onednn_kernel *kernel, const ull__launch_frame *frame) {
  dnnl_exec_arg_t arguments[MAX_ARGUMENTS];
  if (kernel->primitive == NULL) {
    return ULL__FAIL(ULL_ERROR_INTERNAL, "a primitive was launched before it was prepared");
  }
  for (uint32_t i = 0; i < kernel->argument_count; i++) {
    const kernel_argument *argument = &kernel->arguments[i];
    ULL__TRY(ull__onednn_check(
        dnnl_memory_set_data_handle(argument->memory, frame->operands[argument->operand]),
        "an address"));
    arguments[i] = (dnnl_exec_arg_t){argument->argument, argument->memory};
  }
  ULL__TRY(ull__onednn_check(dnnl_primitive_execute(kernel->primitive, kernel->onednn->stream,
                                                    (int)kernel->argument_count, arguments),
                             "a launch"));
  return ull__onednn_check(dnnl_stream_wait(kernel->onednn->stream), "a launch");
}

static ull_status run_kernel(const ull__launch_frame *frame) {
  const onednn_kernel *kernel = frame->constants;
  ull__onednn_enter_team(kernel->onednn);
  if (!kernel->watches) return execute(kernel, frame);
  ull__library_heap_begin();
  ull_status status = execute(kernel, frame);
  ull_status counted = ull__library_kernel_launched(kernel->library);
  return status != ULL_OK ? status : counted;
}

static ull_status add_argument(onednn_kernel *kernel, const ull__onednn_argument *wanted) {
  kernel_argument *added = &kernel->arguments[kernel->argument_count];
  if (kernel->argument_count == MAX_ARGUMENTS) {
    return ULL__FAIL(ULL_ERROR_INTERNAL, "a primitive with too many arguments");
  }
  ULL__TRY(
      ull__onednn_query_md(kernel->descriptor, wanted->query, wanted->query_index, &added->md));
  added->argument = wanted->argument;
  added->operand = wanted->operand;
  kernel->argument_count++;
  return ULL_OK;
}

/* Bytes of scratch memory a descriptor asks for. */
static uint64_t scratchpad_bytes(const_dnnl_primitive_desc_t descriptor) {
  ull__onednn_md md;
  if (ull__onednn_query_md(descriptor, dnnl_query_scratchpad_md, 0, &md) != ULL_OK) return 0;
  uint64_t bytes = ull__onednn_md_bytes(&md);
  ull__onednn_md_destroy(&md);
  return bytes;
}

static ull_status name_kernel(ull__cpu *cpu, const char *kind, onednn_kernel *made,
                              ull__kernel *kernel) {
  char name[512];
  snprintf(name, sizeof name, "%s %s", kernel->implementation, kind);
  for (uint32_t i = 0; i < made->argument_count; i++)
    if (made->arguments[i].argument != DNNL_ARG_SCRATCHPAD)
      ull__onednn_add_name(&made->arguments[i].md, name, sizeof name);
  ULL__TRY(ull__library_kernel_intern(cpu, &cpu->onednn->library, name, &made->library));
  made->watches = cpu->watches;
  kernel->library = made->library;
  return ULL_OK;
}

static ull_status fill_kernel(onednn_kernel *made, const ull__onednn_argument *arguments,
                              uint32_t count, uint32_t workspace_operand, ull__kernel *kernel) {
  for (uint32_t i = 0; i < count; i++) {
    ULL__TRY(add_argument(made, &arguments[i]));
  }
  kernel->workspace_bytes = scratchpad_bytes(made->descriptor);
  if (kernel->workspace_bytes > 0) {
    ull__onednn_argument scratchpad = {DNNL_ARG_SCRATCHPAD, workspace_operand,
                                       dnnl_query_scratchpad_md, 0};
    ULL__TRY(add_argument(made, &scratchpad));
  }
  kernel->entry = run_kernel;
  kernel->constants = made;
  kernel->prepare = prepare_kernel;
  snprintf(kernel->implementation, sizeof kernel->implementation, "onednn:%.50s",
           ull__onednn_implementation(made->descriptor));
  return ULL_OK;
}

ull_status ull__onednn_kernel_create(ull__cpu *cpu, const char *kind,
                                     dnnl_primitive_desc_t descriptor,
                                     const ull__onednn_argument *arguments, uint32_t count,
                                     uint32_t workspace_operand, ull__kernel *kernel) {
  onednn_kernel *made = NULL;
  if (ull__vector_reserve(&cpu->onednn->kernels, 1) == ULL_OK) made = ull__alloc(1, sizeof *made);
  if (made == NULL) {
    (void)dnnl_primitive_desc_destroy(descriptor);
    return ULL_ERROR_OUT_OF_MEMORY;
  }
  cpu->onednn->kernels.items[cpu->onednn->kernels.count++] = made;
  made->onednn = cpu->onednn;
  made->descriptor = descriptor;
  ULL__TRY(fill_kernel(made, arguments, count, workspace_operand, kernel));
  return name_kernel(cpu, kind, made, kernel);
}

bool ull__onednn_is_generated(const char *implementation) {
  return strncmp(implementation, "ref", 3) != 0 && strstr(implementation, "gemm:") == NULL;
}

double ull__onednn_efficiency(const char *implementation, ull__isa isa) {
  bool narrow = isa == ULL__ISA_AVX512 && strstr(implementation, "avx512") == NULL;
  return narrow ? 0.42 : 0.85;
}
