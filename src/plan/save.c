/* The file of --save: docs/plan-file.md describes it.
 *
 * Text is appended to one buffer while the family is walked, without a tree of it in memory, and
 * written in one piece. The training program stands twice, since scripts read it at top level. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/vector.h"
#include "plan/program.h"

/* The first failure stays, and what follows it writes nothing. */
typedef struct writer {
  ULL__VECTOR(char) text;
  ull_status status;
} writer;

static const char *const action_names[] = {[ULL__ACTION_LAUNCH] = "launch",
                                           [ULL__ACTION_COPY_IN] = "copy_in",
                                           [ULL__ACTION_COPY_OUT] = "copy_out",
                                           [ULL__ACTION_DISK_READ] = "disk_read",
                                           [ULL__ACTION_DISK_WRITE] = "disk_write",
                                           [ULL__ACTION_COLLECTIVE] = "collective",
                                           [ULL__ACTION_MARK] = "mark"};

static const char *const lane_names[ULL__LANE_COUNT] = {
    [ULL__LANE_COMPUTE] = "compute", [ULL__LANE_HOST_COMPUTE] = "host_compute",
    [ULL__LANE_COPY_IN] = "copy_in", [ULL__LANE_COPY_OUT] = "copy_out",
    [ULL__LANE_DISK] = "disk",       [ULL__LANE_NETWORK] = "network"};

/* ---- pieces of text ---- */

static void put_bytes(writer *w, const char *bytes, size_t count) {
  if (w->status != ULL_OK) return;
  w->status = ull__vector_reserve(&w->text, count);
  if (w->status != ULL_OK) return;
  memcpy(w->text.items + w->text.count, bytes, count);
  w->text.count += count;
}

static void put(writer *w, const char *text) {
  put_bytes(w, text, strlen(text));
}

static void put_format(writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* For numbers: at most 160 characters. */
static void put_format(writer *w, const char *format, ...) {
  char text[160];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  put(w, text);
}

static void put_string(writer *w, const char *text) {
  put(w, "\"");
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\')
      put_format(w, "\\%c", c);
    else if (c < 0x20)
      put_format(w, "\\u%04x", c);
    else
      put_bytes(w, text, 1);
  }
  put(w, "\"");
}

static void put_real(writer *w, double value) {
  char *line;
  json_t *real = ull__json_real(value);
  if (w->status == ULL_OK) w->status = real ? ull__json_line(real, &line) : ULL_ERROR_OUT_OF_MEMORY;
  if (w->status == ULL_OK) {
    put(w, line);
    ull__free(line);
  }
  json_decref(real);
}

/* ---- a program ---- */

static void put_value(writer *w, const ull__graph *graph, ull__value_id value) {
  if (value == ULL__NONE)
    put(w, "null");
  else
    put_string(w, ull__graph_value(graph, value)->name);
}

static void put_buffer(writer *w, const ull__graph *graph, const ull__buffer *b, uint32_t id) {
  put_format(w, "{\"id\":%u,\"value\":", id);
  put_value(w, graph, b->value);
  put(w, ",\"name\":");
  put_string(w, b->name);
  put_format(w,
             ",\"tag\":\"%s\",\"tier\":\"%s\",\"slab\":%u,\"offset_bytes\":%" PRIu64
             ",\"size_bytes\":%" PRIu64,
             ull__tag_name(b->tag), ull__tier_name(b->tier), b->slab, b->offset_bytes,
             b->size_bytes);
  put_format(w, ",\"first\":%u,\"last\":%u,\"persistent\":%s}", b->first, b->last,
             b->persistent ? "true" : "false");
}

/* Absent operands are left out. */
static void put_indices(writer *w, const char *key, const uint32_t *indices, uint32_t count) {
  const char *separator = "";
  put_format(w, ",\"%s\":[", key);
  for (uint32_t i = 0; i < count; i++) {
    if (indices[i] == ULL__NONE) continue;
    put_format(w, "%s%u", separator, indices[i]);
    separator = ",";
  }
  put(w, "]");
}

static void put_node(writer *w, const ull__program *program, const ull__instruction *i) {
  if (i->node == ULL__NONE) {
    put(w, "null,\"value\":");
    put_value(w, program->lowered->graph, i->value);
    return;
  }
  put_string(w, ull__graph_node(program->lowered->graph, i->node)->name);
  put(w, ",\"implementation\":");
  put_string(w, program->lowered->nodes[i->node].kernel.implementation);
}

static void put_instruction(writer *w, const ull__program *program, const ull__instruction *i) {
  put_format(w, "{\"op\":\"%s\",\"node\":", action_names[i->action]);
  put_node(w, program, i);
  put_format(w, ",\"lane\":\"%s\"", lane_names[i->lane]);
  put_indices(w, "reads", i->operands, i->input_count);
  put_indices(w, "writes", i->operands + i->input_count, i->output_count + i->has_workspace);
  put_indices(w, "waits", i->waits, i->wait_count);
  put_format(w, ",\"recomputed\":%s,\"seconds\":", i->recomputed ? "true" : "false");
  put_real(w, i->seconds);
  put(w, "}");
}

static void put_tables(writer *w, const ull__program *program) {
  put(w, "\"buffers\":[");
  for (uint32_t b = 0; b < program->buffer_count; b++) {
    put(w, b > 0 ? ",\n" : "\n");
    put_buffer(w, program->lowered->graph, &program->buffers[b], b);
  }
  put(w, "],\n\"instructions\":[");
  for (uint32_t i = 0; i < program->instruction_count; i++) {
    put(w, i > 0 ? ",\n" : "\n");
    put_instruction(w, program, &program->instructions[i]);
  }
  put(w, "]");
}

static void put_outputs(writer *w, const ull__program *program) {
  put(w, "\"outputs\":[");
  for (uint32_t o = 0; o < program->output_count; o++) {
    put(w, o > 0 ? ",{\"name\":" : "{\"name\":");
    put_string(w, program->outputs[o].name);
    put_format(w, ",\"buffer\":%u}", program->outputs[o].buffer);
  }
  put(w, "],\n");
}

static void put_program(writer *w, const ull__program *program) {
  put(w, "{\"name\":");
  put_string(w, program->name);
  put_format(w, ",\"batch\":%lld,\"arena_bytes\":%" PRIu64 ",\"lower_bound_bytes\":%" PRIu64,
             (long long)program->batch, program->arena_bytes, program->lower_bound_bytes);
  put(w, ",\"seconds\":");
  put_real(w, program->seconds);
  put(w, ",\n");
  put_outputs(w, program);
  put_tables(w, program);
  put(w, "}");
}

/* ---- the file ---- */

static const char *const own_keys[] = {"schema",   "fingerprint", "runtime_bytes", "slabs",
                                       "programs", "buffers",     "instructions"};

static bool is_own(const char *key) {
  for (size_t i = 0; i < sizeof own_keys / sizeof own_keys[0]; i++)
    if (strcmp(own_keys[i], key) == 0) return true;
  return false;
}

static ull_status put_header(writer *w, const char *header) {
  json_t *object, *value;
  const char *key;
  ULL__TRY(ull__json_parse(header, strlen(header), "header of a plan", &object));
  json_object_foreach(object, key, value) {
    char *line = NULL;
    if (is_own(key)) continue;
    if (w->status == ULL_OK) w->status = ull__json_line(value, &line);
    put_string(w, key);
    put(w, ":");
    put(w, line ? line : "");
    put(w, ",\n");
    ull__free(line);
  }
  json_decref(object);
  return w->status;
}

static void put_slabs(writer *w, const ull__family *family) {
  static const char *const kinds[ULL__SLAB_KINDS] = {"persistent", "arena", "loader", "runtime"};
  put(w, "\"slabs\":[");
  for (uint32_t s = 0; s < ULL__SLAB_KINDS; s++)
    put_format(w, "%s{\"kind\":\"%s\",\"tier\":\"%s\",\"bytes\":%" PRIu64 "}", s > 0 ? "," : "",
               kinds[s], ull__tier_name(family->slabs[s].tier), family->slabs[s].bytes);
  put(w, "],\n");
}

static ull_status put_family(writer *w, const ull__family *family, const char *header) {
  put(w, "{");
  if (header) ULL__TRY(put_header(w, header));
  put(w, "\"schema\":1,\n\"fingerprint\":");
  put_string(w, family->fingerprint);
  put_format(w, ",\n\"runtime_bytes\":%" PRIu64 ",\n", family->slabs[ULL__SLAB_RUNTIME].bytes);
  put_slabs(w, family);
  put(w, "\"programs\":[");
  for (uint32_t p = 0; p < family->program_count; p++) {
    put(w, p > 0 ? ",\n" : "\n");
    put_program(w, &family->programs[p]);
  }
  put(w, "],\n");
  if (family->program_count > 0) put_tables(w, &family->programs[0]);
  put(w, "}\n");
  return w->status;
}

ull_status ull__family_save(const ull__family *family, const char *path, const char *header) {
  writer w = {0};
  ull__json_start();
  ull_status status = put_family(&w, family, header);
  if (status == ULL_OK) status = ull__file_write_atomic(path, w.text.items, w.text.count);
  ull__vector_free(&w.text);
  return status;
}
