/* The memory summary. Totals are counted beside the cells because tags peak at different moments:
 * the peak of a sum is not the sum of peaks. */
#include "memory/summary.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/byte_size.h"
#include "base/error.h"

static void add(ull__summary_cell *cell, uint64_t bytes) {
  cell->live_bytes += bytes;
  if (cell->live_bytes > cell->peak_bytes) cell->peak_bytes = cell->live_bytes;
}

void ull__summary_add(ull__summary *summary, ull__tag tag, ull__tier tier, uint64_t bytes) {
  add(&summary->cells[tag][tier], bytes);
  add(&summary->totals[tier], bytes);
}

ull_status ull__summary_remove(ull__summary *summary, ull__tag tag, ull__tier tier,
                               uint64_t bytes) {
  ull__summary_cell *cell = &summary->cells[tag][tier];
  if (bytes > cell->live_bytes) {
    ull__fail(ULL_ERROR_INTERNAL, "%s bytes on the %s tier die that were never born",
              ull__tag_name(tag), ull__tier_name(tier));
    return ull__error_bytes(bytes, cell->live_bytes);
  }
  cell->live_bytes -= bytes;
  summary->totals[tier].live_bytes -= bytes;
  return ULL_OK;
}

void ull__summary_restart_peaks(ull__summary *summary) {
  for (int tier = 0; tier < ULL__TIER_COUNT; tier++) {
    summary->totals[tier].peak_bytes = summary->totals[tier].live_bytes;
    for (int tag = 0; tag < ULL__TAG_COUNT; tag++) {
      summary->cells[tag][tier].peak_bytes = summary->cells[tag][tier].live_bytes;
    }
  }
}

static ull_status check_cell(const ull__summary_cell *cell, const char *name, ull__tier tier) {
  if (cell->planned_bytes == cell->peak_bytes) return ULL_OK;
  ull__fail(ULL_ERROR_MISMATCH, "%s on the %s tier: %llu bytes planned, %llu counted", name,
            ull__tier_name(tier), (unsigned long long)cell->planned_bytes,
            (unsigned long long)cell->peak_bytes);
  return ull__error_bytes(cell->peak_bytes, cell->planned_bytes);
}

ull_status ull__summary_check(const ull__summary *summary) {
  for (ull__tier tier = 0; tier < ULL__TIER_COUNT; tier++) {
    for (ull__tag tag = 0; tag < ULL__TAG_COUNT; tag++) {
      ULL__TRY(check_cell(&summary->cells[tag][tier], ull__tag_name(tag), tier));
    }
    ULL__TRY(check_cell(&summary->totals[tier], "total", tier));
  }
  return ULL_OK;
}

static uint64_t field_bytes(const ull__summary_cell *cell, ull__summary_field field) {
  if (field == ULL__SUMMARY_PLANNED) return cell->planned_bytes;
  return field == ULL__SUMMARY_LIVE ? cell->live_bytes : cell->peak_bytes;
}

static uint64_t padding_of(const ull__summary *summary, ull__tier tier, ull__summary_field field) {
  return field == ULL__SUMMARY_LIVE ? 0 : summary->planned_padding_bytes[tier];
}

ull_status ull__summary_tiers_json(const ull__summary *summary, ull__summary_field field,
                                   json_t **out) {
  ull__json_start();
  json_t *object = json_object();
  ull_status status = ULL_OK;
  for (ull__tier tier = 0; status == ULL_OK && tier < ULL__TIER_COUNT; tier++) {
    uint64_t bytes = field_bytes(&summary->totals[tier], field) + padding_of(summary, tier, field);
    status = ull__json_put(object, ull__tier_name(tier), json_integer((json_int_t)bytes));
  }
  if (status != ULL_OK) json_decref(object);
  if (status == ULL_OK) *out = object;
  return status;
}

static ull_status put_tag(json_t *object, const ull__summary *summary, ull__tag tag,
                          ull__summary_field field) {
  json_t *tiers = json_object();
  ULL__TRY(ull__json_put(object, ull__tag_name(tag), tiers));
  for (ull__tier tier = 0; tier < ULL__TIER_COUNT; tier++) {
    uint64_t bytes = field_bytes(&summary->cells[tag][tier], field);
    ULL__TRY(ull__json_put(tiers, ull__tier_name(tier), json_integer((json_int_t)bytes)));
  }
  return ULL_OK;
}

ull_status ull__summary_tags_json(const ull__summary *summary, ull__summary_field field,
                                  json_t **out) {
  ull__json_start();
  json_t *object = json_object();
  ull_status status = ULL_OK;
  for (ull__tag tag = 0; status == ULL_OK && tag < ULL__TAG_COUNT; tag++) {
    status = put_tag(object, summary, tag, field);
  }
  if (status != ULL_OK) json_decref(object);
  if (status == ULL_OK) *out = object;
  return status;
}

static void write_row(FILE *file, const char *tag, const char *tier, uint64_t planned,
                      uint64_t live, uint64_t peak) {
  char a[ULL__BYTE_SIZE_TEXT], b[ULL__BYTE_SIZE_TEXT], c[ULL__BYTE_SIZE_TEXT];
  fprintf(file, "%-12s %-8s %12s %12s %12s\n", tag, tier, ull__byte_size_format(planned, a),
          ull__byte_size_format(live, b), ull__byte_size_format(peak, c));
}

static void write_tier(FILE *file, const ull__summary *summary, ull__tier tier) {
  const ull__summary_cell *total = &summary->totals[tier];
  uint64_t padding = summary->planned_padding_bytes[tier];
  if (total->planned_bytes == 0 && total->peak_bytes == 0 && padding == 0) return;
  for (ull__tag tag = 0; tag < ULL__TAG_COUNT; tag++) {
    const ull__summary_cell *cell = &summary->cells[tag][tier];
    if (cell->planned_bytes == 0 && cell->peak_bytes == 0) continue;
    write_row(file, ull__tag_name(tag), ull__tier_name(tier), cell->planned_bytes, cell->live_bytes,
              cell->peak_bytes);
  }
  if (padding > 0) write_row(file, "padding", ull__tier_name(tier), padding, 0, padding);
  write_row(file, "total", ull__tier_name(tier), total->planned_bytes + padding, total->live_bytes,
            total->peak_bytes + padding);
}

ull_status ull__summary_table(const ull__summary *summary, char **out) {
  char text[8192] = "";
  FILE *file = fmemopen(text, sizeof text, "w");
  if (file == NULL) return ULL__FAIL(ULL_ERROR_OUT_OF_MEMORY, "out of memory for a table");
  fprintf(file, "%-12s %-8s %12s %12s %12s\n", "tag", "tier", "planned", "live", "peak");
  for (ull__tier tier = 0; tier < ULL__TIER_COUNT; tier++) write_tier(file, summary, tier);
  fclose(file);
  *out = ull__strdup(text);
  return *out != NULL ? ULL_OK : ull_error_last()->status;
}
