/* A pack is continued only as what it was begun as: every option that bytes follow from is
 * compared, and the first that differs is named. */
#include "data/pack/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "data/pack/sample.h"

enum { SCHEMA = 1, NAME = 300 };

static const char *const policies[] = {
    [ULL_ON_BAD_FAIL] = "fail", [ULL_ON_BAD_REPLACE] = "replace", [ULL_ON_BAD_SKIP] = "skip"};

void ull__pack_state_free(ull__pack_state *state) {
  ull__vector_free(&state->shards);
}

ull_status ull__pack_identify(const ull_source *source, const ull_pack_options *options,
                              ull__pack_identity *identity) {
  ull__sha256 digest;
  char key[ULL__PACK_KEY];
  *identity = (ull__pack_identity){.sample_count = source->count,
                                   .shard_bytes = options->shard_bytes,
                                   .memory_bytes = options->memory_bytes,
                                   .max_side = options->max_side,
                                   .quality = options->quality};
  ull__sha256_begin(&digest);
  for (size_t i = 0; i < source->array_count; i++)
    ull__sha256_add(&digest, source->arrays[i].name, strlen(source->arrays[i].name) + 1);
  for (uint64_t i = 0; i < source->count; i++) {
    ull__pack_key(source, i, key);
    ull__sha256_add(&digest, key, strlen(key) + 1);
  }
  ull__sha256_end_hex(&digest, identity->samples);
  return ULL_OK;
}

static void state_name(const ull__pack_output *output, char name[NAME]) {
  snprintf(name, NAME, "%s-pack.json", output->name);
}

/* ---- writing ---- */

static ull_status put_number(json_t *object, const char *key, uint64_t number) {
  return ull__json_put(object, key, json_integer((json_int_t)number));
}

static ull_status put_options(const ull__pack_state *state, json_t *object) {
  const ull__pack_identity *identity = &state->identity;
  ULL__TRY(ull__json_put(object, "samples_sha256", json_string(identity->samples)));
  ULL__TRY(put_number(object, "sample_count", identity->sample_count));
  ULL__TRY(put_number(object, "shard_size", identity->shard_bytes));
  ULL__TRY(put_number(object, "max_side", (uint64_t)identity->max_side));
  ULL__TRY(put_number(object, "quality", (uint64_t)identity->quality));
  ULL__TRY(put_number(object, "loader_memory", identity->memory_bytes));
  return ull__json_put(object, "on_bad", json_string(policies[state->on_bad]));
}

static ull_status put_counts(const ull__pack_state *state, json_t *object) {
  const ull_pack_result *counts = &state->counts;
  json_t *verdicts = json_object();
  ULL__TRY(ull__json_put(object, "verdicts", verdicts));
  for (int i = 0; i < ULL_VERDICT_COUNT; i++)
    ULL__TRY(put_number(verdicts, ull_verdict_name((ull_verdict)i), counts->verdicts[i]));
  ULL__TRY(put_number(object, "samples", counts->samples));
  ULL__TRY(put_number(object, "skipped", counts->skipped));
  ULL__TRY(put_number(object, "copied", counts->copied));
  ULL__TRY(put_number(object, "encoded", counts->encoded));
  ULL__TRY(put_number(object, "bytes_in", counts->bytes_in));
  ULL__TRY(put_number(object, "bad", state->bad));
  return ull__json_put(object, "first_bad",
                       json_string(ull__utf8_is_valid(counts->first_bad) ? counts->first_bad : ""));
}

static ull_status put_shards(const ull__pack_state *state, const ull__pack_output *output,
                             json_t *list) {
  char name[NAME];
  for (size_t i = 0; i < state->shards.count; i++) {
    json_t *shard = json_object();
    ULL__TRY(ull__json_append(list, shard));
    ull__pack_shard_name(output, i, name, sizeof name);
    ULL__TRY(ull__json_put(shard, "name", json_string(name)));
    ULL__TRY(put_number(shard, "bytes", state->shards.items[i].bytes));
    ULL__TRY(put_number(shard, "samples", state->shards.items[i].samples));
  }
  return ULL_OK;
}

static ull_status put_state(const ull__pack_state *state, const ull__pack_output *output,
                            json_t *object) {
  json_t *part;
  ULL__TRY(put_number(object, "schema", SCHEMA));
  ULL__TRY(ull__json_put(object, "complete", json_boolean(state->complete)));
  ULL__TRY(put_number(object, "next", state->next));
  ULL__TRY(ull__json_put(object, "options", part = json_object()));
  ULL__TRY(put_options(state, part));
  ULL__TRY(ull__json_put(object, "counts", part = json_object()));
  ULL__TRY(put_counts(state, part));
  ULL__TRY(ull__json_put(object, "shards", part = json_array()));
  return put_shards(state, output, part);
}

ull_status ull__pack_state_save(const ull__pack_state *state, const ull__pack_output *output) {
  char name[NAME], *line = NULL;
  ull__json_start();
  json_t *object = json_object();
  if (object == NULL) return ULL__FAIL(ULL_ERROR_OUT_OF_MEMORY, "no memory for the pack's state");
  ull_status status = put_state(state, output, object);
  if (status == ULL_OK) status = ull__json_line(object, &line);
  json_decref(object);
  state_name(output, name);
  if (status == ULL_OK) {
    size_t length = strlen(line);
    line[length] = '\n'; /* in the place of its 0 */
    status = ull__pack_output_write(output, name, line, length + 1);
  }
  ull__free(line);
  return status;
}

/* ---- reading ---- */

static uint64_t get_number(const json_t *object, const char *key) {
  json_int_t value = json_integer_value(json_object_get(object, key));
  return value > 0 ? (uint64_t)value : 0;
}

static ull_status other_options(const char *path, const char *what, const char *was,
                                const char *now) {
  ULL__FAIL(ULL_ERROR_MISMATCH, "%s was begun with %s %s, not %s", path, what, was, now);
  ull__error_holder("%s", path);
  return ull__error_change("go on with the same options, or pack into another folder");
}

/* 0 is what an option has that was not given. */
static void name_number(uint64_t number, char text[32]) {
  if (number > 0)
    snprintf(text, 32, "%" PRIu64, number);
  else
    snprintf(text, 32, "none");
}

static ull_status compare_number(const char *path, const json_t *options, const char *key,
                                 const char *what, uint64_t now) {
  char was_text[32], now_text[32];
  uint64_t was = get_number(options, key);
  if (was == now) return ULL_OK;
  name_number(was, was_text);
  name_number(now, now_text);
  return other_options(path, what, was_text, now_text);
}

static ull_status compare_samples(const char *path, const json_t *options,
                                  const ull__pack_identity *identity) {
  const char *samples = json_string_value(json_object_get(options, "samples_sha256"));
  if (samples != NULL && strcmp(samples, identity->samples) == 0) return ULL_OK;
  ULL__FAIL(ULL_ERROR_MISMATCH,
            "%s was begun with other samples: files were added, removed or "
            "renamed, or it is another source",
            path);
  ull__error_holder("%s", path);
  return ull__error_change("pack into another folder");
}

static ull_status compare(const char *path, const json_t *options, const ull__pack_state *state,
                          bool met_bad) {
  const ull__pack_identity *identity = &state->identity;
  const char *policy = json_string_value(json_object_get(options, "on_bad"));
  ULL__TRY(compare_number(path, options, "max_side", "--max-side", (uint64_t)identity->max_side));
  ULL__TRY(compare_number(path, options, "quality", "--quality", (uint64_t)identity->quality));
  ULL__TRY(compare_number(path, options, "shard_size", "--shard-size", identity->shard_bytes));
  ULL__TRY(
      compare_number(path, options, "loader_memory", "--loader-memory", identity->memory_bytes));
  ULL__TRY(compare_samples(path, options, identity));
  if (!met_bad || (policy != NULL && strcmp(policy, policies[state->on_bad]) == 0)) return ULL_OK;
  return other_options(path, "--on-bad", policy != NULL ? policy : "?", policies[state->on_bad]);
}

static void get_counts(const json_t *object, ull__pack_state *state) {
  ull_pack_result *counts = &state->counts;
  const json_t *verdicts = json_object_get(object, "verdicts");
  for (int i = 0; i < ULL_VERDICT_COUNT; i++)
    counts->verdicts[i] = get_number(verdicts, ull_verdict_name((ull_verdict)i));
  counts->samples = get_number(object, "samples");
  counts->skipped = get_number(object, "skipped");
  counts->copied = get_number(object, "copied");
  counts->encoded = get_number(object, "encoded");
  counts->bytes_in = get_number(object, "bytes_in");
  state->bad = get_number(object, "bad");
  const char *first = json_string_value(json_object_get(object, "first_bad"));
  if (first != NULL) snprintf(counts->first_bad, sizeof counts->first_bad, "%s", first);
}

static ull_status lost_shard(const char *path, const char *why) {
  ULL__FAIL(ULL_ERROR_MISMATCH, "%s, which the pack wrote, %s", path, why);
  ull__error_holder("%s", path);
  return ull__error_change("restore it, or remove the folder and pack anew");
}

static ull_status get_shards(const json_t *list, const ull__pack_output *output,
                             ull__pack_state *state) {
  char name[NAME], path[ULL__PACK_PATH + NAME];
  const json_t *item;
  size_t i;
  json_array_foreach((json_t *)(uintptr_t)list, i, item) {
    ull__pack_shard shard = {get_number(item, "bytes"), get_number(item, "samples")};
    uint64_t there;
    ull__pack_shard_name(output, i, name, sizeof name);
    ull__pack_output_path(output, name, path, sizeof path);
    if (!ull__pack_output_find(output, name, &there)) return lost_shard(path, "is gone");
    if (there != shard.bytes) return lost_shard(path, "has another size now");
    ULL__TRY(ull__vector_push(&state->shards, shard));
    state->counts.bytes_out += shard.bytes;
  }
  state->counts.shards = state->shards.count;
  return ULL_OK;
}

static ull_status take_up(const char *path, const json_t *object, const ull__pack_output *output,
                          ull__pack_state *state) {
  if (get_number(object, "schema") != SCHEMA || !json_is_object(json_object_get(object, "options")))
    return ULL__FAIL(ULL_ERROR_MISMATCH, "%s is not a pack's", path);
  get_counts(json_object_get(object, "counts"), state);
  ULL__TRY(compare(path, json_object_get(object, "options"), state, state->bad > 0));
  state->next = get_number(object, "next");
  state->complete = json_is_true(json_object_get(object, "complete"));
  if (state->next > state->identity.sample_count)
    return ULL__FAIL(ULL_ERROR_MISMATCH, "%s is damaged", path);
  return get_shards(json_object_get(object, "shards"), output, state);
}

/* Shards that nobody answers for are somebody's data. */
static ull_status begin(const ull__pack_state *state, const ull__pack_output *output) {
  char name[NAME], path[ULL__PACK_PATH + NAME];
  uint64_t there;
  ull__pack_shard_name(output, 0, name, sizeof name);
  ull__pack_output_path(output, name, path, sizeof path);
  if (!ull__pack_output_find(output, name, &there)) return ull__pack_state_save(state, output);
  ULL__FAIL(ULL_ERROR_MISMATCH, "%s is there already, and no -pack.json says what it is", path);
  ull__error_holder("%s", path);
  return ull__error_change("pack into another folder, or remove it");
}

ull_status ull__pack_state_open(ull__pack_state *state, const ull__pack_output *output) {
  char name[NAME], path[ULL__PACK_PATH + NAME], *text;
  size_t bytes;
  json_t *object = NULL;
  state_name(output, name);
  ull__pack_output_path(output, name, path, sizeof path);
  ULL__TRY(ull__pack_output_read(output, name, &text, &bytes));
  if (text == NULL) return begin(state, output);
  ull_status status = ull__json_parse(text, bytes, path, &object);
  ull__free(text);
  if (status == ULL_OK) status = take_up(path, object, output, state);
  json_decref(object);
  return status;
}
