/* The certificate of the smallest budget as JSON: what is live in the least case, and the cases
 * that are the only other ways. */
#include "train/result_certificate.h"
#include "base/error.h"
#include "base/json.h"
#include "plan/explain.h"

static ull_status put_text(json_t *object, const char *key, const char *text) {
  return ull__json_put(object, key, text ? json_string(text) : json_null());
}

static ull_status put_bytes(json_t *object, const char *key, uint64_t bytes) {
  return ull__json_put(object, key, json_integer((json_int_t)bytes));
}

static ull_status put_values(const ull__certificate *c, const ull__certificate_case *each,
                             json_t *object) {
  json_t *values = json_array();
  ULL__TRY(ull__json_put(object, "values", values));
  for (uint32_t i = 0; i < each->value_count; i++) {
    const ull__certificate_value *value = &c->values.items[each->first_value + i];
    json_t *entry = json_object();
    ULL__TRY(ull__json_append(values, entry));
    ULL__TRY(put_text(entry, "value", value->name));
    ULL__TRY(put_bytes(entry, "bytes", value->size_bytes));
    ULL__TRY(put_text(entry, "reason", value->reason));
    ULL__TRY(put_text(entry, "made_by", value->made_by));
    ULL__TRY(put_text(entry, "read_by", value->read_by));
    ULL__TRY(put_text(entry, "why", value->why));
  }
  return ULL_OK;
}

static ull_status put_case(const ull__certificate *c, const ull__certificate_case *each,
                           json_t *object) {
  json_t *after = json_array();
  ULL__TRY(put_text(object, "node", each->node));
  ULL__TRY(ull__json_put(object, "after", after));
  for (uint32_t i = 0; i < each->after_count; i++)
    ULL__TRY(ull__json_append(after, json_string(c->afters.items[each->first_after + i])));
  ULL__TRY(put_text(object, "before", each->before));
  json_t *order = json_array();
  ULL__TRY(ull__json_put(object, "order", order));
  for (int i = 0; i < 2 && each->order[0]; i++)
    ULL__TRY(ull__json_append(order, json_string(each->order[i])));
  ULL__TRY(ull__json_put(object, "holds", json_boolean(each->holds)));
  ULL__TRY(put_bytes(object, "sum_bytes", each->bytes));
  return put_values(c, each, object);
}

static ull_status put_proof(const ull__certificate *c, json_t *object) {
  json_t *others = json_array();
  ULL__TRY(put_text(object, "program", c->program));
  ULL__TRY(put_bytes(object, "instruction", c->instruction));
  ULL__TRY(put_bytes(object, "live_bytes", c->live_bytes));
  ULL__TRY(put_bytes(object, "proved_budget_bytes", c->proved_budget_bytes));
  ULL__TRY(put_bytes(object, "not_proved_bytes", c->not_proved_bytes));
  ULL__TRY(put_text(object, "needed_by", c->node));
  ULL__TRY(put_text(object, "needed", c->needed));
  ULL__TRY(put_case(c, &c->cases.items[0], object));
  ULL__TRY(ull__json_put(object, "otherwise", others));
  for (size_t i = 1; i < c->cases.count; i++) {
    json_t *entry = json_object();
    ULL__TRY(ull__json_append(others, entry));
    ULL__TRY(put_case(c, &c->cases.items[i], entry));
  }
  return ULL_OK;
}

ull_status ull__put_certificate(const ull__plan *plan, json_t *object) {
  if (!ull__plan_needs_certificate(plan)) return ULL_OK;
  ull__certificate certificate;
  json_t *entry = json_object();
  ull_status status = ull__json_put(object, "certificate", entry);
  if (status != ULL_OK) return status;
  status = ull__plan_certificate(plan, &certificate);
  if (status == ULL_OK) status = put_proof(&certificate, entry);
  ull__certificate_free(&certificate);
  return status;
}
