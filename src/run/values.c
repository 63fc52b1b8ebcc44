/* Values by name, between the layout they are stored in and row-major order.
 *
 * Libraries convert layouts, so conversions run on the compute thread. Where the host can touch the
 * slab they work on it directly; elsewhere the stored bytes pass through host memory that is taken
 * for the call. */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "run/executor_internal.h"

typedef struct conversion {
  ull__provider *provider;
  ull_dtype dtype;
  const ull__shape *shape;
  const ull__layout *layout;
  const void *from;
  void *to;
} conversion;

static ull_status convert_to_plain(void *argument) {
  const conversion *c = argument;
  return ull__layout_to_plain(c->provider, c->dtype, c->shape, c->layout, c->from, c->to);
}

static ull_status convert_from_plain(void *argument) {
  const conversion *c = argument;
  return ull__layout_from_plain(c->provider, c->dtype, c->shape, c->layout, c->from, c->to);
}

static bool is_plain(const ull__layout *layout) {
  return layout == NULL || layout->kind == ULL__LAYOUT_PLAIN;
}

/* Where the stored bytes can be worked on: in the slab, or in memory taken for the call, which is
 * then also returned in *taken. */
static unsigned char *reach(ull__executor *executor, ull__place place, void **taken) {
  unsigned char *slab = ull__device_host_pointer(executor->device, place.slab);
  *taken = NULL;
  if (slab != NULL) return slab + place.offset;
  *taken = ull__alloc(place.bytes, 1);
  return *taken;
}

static ull_status read_place(ull__executor *executor, conversion *c, ull__place place) {
  if (is_plain(c->layout)) return ull__device_read(executor->device, place, c->to);
  void *taken;
  unsigned char *stored = reach(executor, place, &taken);
  if (stored == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  ull_status status = ULL_OK;
  if (taken != NULL) status = ull__device_read(executor->device, place, taken);
  c->from = stored;
  if (status == ULL_OK) status = ull__device_run(executor->device, convert_to_plain, c);
  ull__free(taken);
  return status;
}

static ull_status write_place(ull__executor *executor, conversion *c, ull__place place) {
  if (is_plain(c->layout)) return ull__device_write(executor->device, place, c->from);
  void *taken;
  unsigned char *stored = reach(executor, place, &taken);
  if (stored == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  c->to = stored;
  ull_status status = ull__device_run(executor->device, convert_from_plain, c);
  if (status == ULL_OK && taken != NULL) {
    status = ull__device_write(executor->device, place, taken);
  }
  ull__free(taken);
  return status;
}

/* ---- values of the persistent region ---- */

static const ull__persistent *find_value(const ull__family *family, const char *name) {
  for (uint32_t i = 0; i < family->persistent_count; i++) {
    if (strcmp(family->persistents[i].name, name) == 0) return &family->persistents[i];
  }
  return NULL;
}

static ull_status check_bytes(const char *name, const ull__shape *shape, ull_dtype dtype,
                              uint64_t bytes) {
  uint64_t needed_bytes;
  ULL__TRY(ull__shape_bytes(shape, dtype, &needed_bytes));
  if (bytes == needed_bytes) return ULL_OK;
  ULL__FAIL(ULL_ERROR_INVALID, "%s has %llu bytes, %llu were given", name,
            (unsigned long long)needed_bytes, (unsigned long long)bytes);
  return ull__error_bytes(needed_bytes, bytes);
}

static ull_status find_checked(const ull__executor *executor, const char *name, uint64_t bytes,
                               const ull__persistent **value, ull__place *place) {
  *value = find_value(executor->family, name);
  if (*value == NULL) {
    ULL__FAIL(ULL_ERROR_INVALID, "no value named %.200s lives from step to step", name);
    return ull__error_holder("%s", name);
  }
  *place = (ull__place){.slab = executor->slabs[ULL__SLAB_PERSISTENT],
                        .offset = (*value)->offset_bytes,
                        .bytes = (*value)->size_bytes};
  return check_bytes(name, &(*value)->shape, (*value)->dtype, bytes);
}

static conversion conversion_of(const ull__executor *executor, const ull__persistent *value) {
  return (conversion){.provider = executor->provider,
                      .dtype = value->dtype,
                      .shape = &value->shape,
                      .layout = value->layout};
}

ull_status ull__executor_read_value(ull__executor *executor, const char *name, void *plain,
                                    uint64_t bytes) {
  const ull__persistent *value;
  ull__place place;
  ULL__TRY(find_checked(executor, name, bytes, &value, &place));
  conversion c = conversion_of(executor, value);
  c.to = plain;
  return read_place(executor, &c, place);
}

ull_status ull__executor_write_value(ull__executor *executor, const char *name, const void *plain,
                                     uint64_t bytes) {
  const ull__persistent *value;
  ull__place place;
  ULL__TRY(find_checked(executor, name, bytes, &value, &place));
  conversion c = conversion_of(executor, value);
  c.from = plain;
  return write_place(executor, &c, place);
}

/* ---- outputs ---- */

static const ull__program_output *find_output(const ull__program *program, const char *name) {
  for (uint32_t i = 0; i < program->output_count; i++) {
    if (strcmp(program->outputs[i].name, name) == 0) return &program->outputs[i];
  }
  return NULL;
}

ull_status ull__executor_read_output(ull__executor *executor, uint32_t program, const char *name,
                                     void *to, uint64_t bytes) {
  const ull__executable *executable = &executor->executables[program];
  const ull__program *p = executable->program;
  const ull__program_output *output = find_output(p, name);
  if (output == NULL) {
    return ULL__FAIL(ULL_ERROR_INVALID, "program %s has no output %.200s", p->name, name);
  }
  const ull__track *track = &executable->tracks[output->buffer];
  if (track->is_placed && executor->last_run != executable) {
    return ULL__FAIL(ULL_ERROR_INVALID, "output %s is read although %s did not run last", name,
                     p->name);
  }
  const ull__value *value = ull__graph_value(p->lowered->graph, output->value);
  const ull__lowered_value *lowered = &p->lowered->values[output->value];
  ULL__TRY(check_bytes(name, &value->shape, value->dtype, bytes));
  const ull__place place = {.slab = executor->slabs[track->slab],
                            .offset = p->buffers[output->buffer].offset_bytes,
                            .bytes = lowered->bytes};
  conversion c = {.provider = executor->provider,
                  .dtype = value->dtype,
                  .shape = &value->shape,
                  .layout = lowered->layout,
                  .to = to};
  return read_place(executor, &c, place);
}

/* ---- before the first step ---- */

static const void *find_constant(const ull__family *family, const char *name) {
  for (uint32_t p = 0; p < family->program_count; p++) {
    const ull__graph *graph = family->programs[p].lowered->graph;
    ull__value_id id = ull__graph_find_value(graph, name);
    if (id != ULL__NONE && ull__graph_value(graph, id)->constant != NULL) {
      return ull__graph_value(graph, id)->constant;
    }
  }
  return NULL;
}

static ull_status write_constant(ull__executor *executor, const ull__persistent *value) {
  uint64_t bytes;
  const void *constant = find_constant(executor->family, value->name);
  if (constant == NULL) {
    return ULL__FAIL(ULL_ERROR_INTERNAL, "the bytes of constant %s are nowhere", value->name);
  }
  ULL__TRY(ull__shape_bytes(&value->shape, value->dtype, &bytes));
  return ull__executor_write_value(executor, value->name, constant, bytes);
}

static ull_status zero(const ull__launch_frame *frame) {
  const uint64_t *bytes = frame->constants;
  memset(frame->operands[0], 0, *bytes);
  return ULL_OK;
}

static ull_status build_zero(ull__executor *executor, const ull__persistent *value,
                             ull__launch *launch) {
  ull__place *place = ull__executor_alloc(executor, 1, sizeof *place);
  if (place == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  *place = (ull__place){.slab = executor->slabs[ULL__SLAB_PERSISTENT],
                        .offset = value->offset_bytes,
                        .bytes = value->size_bytes};
  *launch = (ull__launch){.entry = zero,
                          .constants = &place->bytes,
                          .places = place,
                          .place_count = 1,
                          .tag = UINT32_MAX};
  return ULL_OK;
}

/* Lists the launches that zero all values of a role. */
static ull_status list_zeroes(ull__executor *executor, ull__role role, ull__launch **out,
                              uint32_t *out_count) {
  const ull__family *family = executor->family;
  ull__launch *launches = ull__executor_alloc(executor, family->persistent_count, sizeof *launches);
  if (launches == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  uint32_t count = 0;
  for (uint32_t i = 0; i < family->persistent_count; i++) {
    const ull__persistent *value = &family->persistents[i];
    if (value->role != role || value->size_bytes == 0) continue;
    ULL__TRY(build_zero(executor, value, &launches[count++]));
  }
  *out = launches;
  *out_count = count;
  return ULL_OK;
}

static ull_status run_all(ull__executor *executor, const ull__launch *launches, uint32_t count) {
  ull_status status = ULL_OK;
  for (uint32_t i = 0; i < count && status == ULL_OK; i++) {
    status = ull__device_launch(executor->device, ULL__LANE_COMPUTE, &launches[i]);
  }
  return status == ULL_OK ? ull__device_synchronize(executor->device) : status;
}

ull_status ull__executor_zero_gradients(ull__executor *executor) {
  return run_all(executor, executor->gradient_zeroes, executor->gradient_count);
}

ull_status ull__executor_fill_persistents(ull__executor *executor) {
  ull__launch *states;
  uint32_t state_count;
  for (uint32_t i = 0; i < executor->family->persistent_count; i++) {
    const ull__persistent *value = &executor->family->persistents[i];
    if (value->role == ULL__ROLE_CONSTANT) ULL__TRY(write_constant(executor, value));
  }
  ULL__TRY(list_zeroes(executor, ULL__ROLE_OPTIMIZER_STATE, &states, &state_count));
  ULL__TRY(run_all(executor, states, state_count));
  ULL__TRY(list_zeroes(executor, ULL__ROLE_GRADIENT, &executor->gradient_zeroes,
                       &executor->gradient_count));
  return ull__executor_zero_gradients(executor);
}
