/* docs/operators.md is what the operator table says. ULLAGE_UPDATE_GOLDEN=1 writes it anew. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "graph/graph.h"
#include "graph/ops/ops.h"
#include "support/data_files.h"

static const char *batch_rule_text(ull__batch_rule rule) {
  static const char *const texts[] = {"per sample", "free", "sum", "mean", "mixed"};
  return texts[rule];
}

static void write_attributes(FILE *out, const ull__operator *row) {
  for (uint32_t i = 0; row->attributes && row->attributes[i].name; i++) {
    const ull__attribute_spec *spec = &row->attributes[i];
    fprintf(out, "%s%s ", i ? ", " : "", spec->name);
    if (spec->is_real) {
      fprintf(out, "%g", spec->standard.f);
    } else {
      fprintf(out, "%lld", (long long)spec->standard.i);
    }
  }
}

/* "y over x, dy" as numbers: which output may lie in which inputs' bytes. */
static void write_storage(FILE *out, const ull__operator *row) {
  const char *separator = "";
  if (row->flags & ULL__OP_VIEW) fprintf(out, "view");
  for (uint32_t o = 0; o < row->outputs; o++) {
    if (row->updates[o]) {
      fprintf(out, "%supdates %u", separator, row->updates[o] - 1u);
      separator = ", ";
    }
    for (uint32_t i = 0; i < row->max_inputs && row->overwrites[o] != 0xffff; i++) {
      if (!(row->overwrites[o] >> i & 1)) continue;
      fprintf(out, "%sover %u", separator, i);
      separator = ", ";
    }
    if (row->overwrites[o] == 0xffff) fprintf(out, "over any");
  }
}

static void write_kind(FILE *out, const ull__operator *row) {
  const char *separator = "";
  const struct {
    uint32_t flag;
    const char *text;
  } kinds[] = {{ULL__OP_ELEMENTWISE, "element-wise"},
               {ULL__OP_ONCE, "once a step"},
               {ULL__OP_RANDOM, "random"},
               {ULL__OP_VIEW, "view"}};
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    if (!(row->flags & kinds[k].flag)) continue;
    fprintf(out, "%s%s", separator, kinds[k].text);
    separator = ", ";
  }
}

static void write_row(FILE *out, const ull__operator *row) {
  fprintf(out, "| `%s` | %u", row->name, row->min_inputs);
  if (row->max_inputs != row->min_inputs) fprintf(out, "-%u", row->max_inputs);
  fprintf(out, " | %u | ", row->outputs);
  write_attributes(out, row);
  fprintf(out, " | %s | ", batch_rule_text(row->batch_rule));
  write_kind(out, row);
  fprintf(out, " | ");
  write_storage(out, row);
  fprintf(out, " | %s |\n", row->gradient ? "yes" : "");
}

static void write_document(FILE *out) {
  fprintf(out,
          "# Operators\n\n"
          "Made from the tables in `src/graph/ops`; do not edit. Inputs and outputs are counts, "
          "attributes stand with their defaults.\n\n"
          "**Batch**: *per sample* = sample i of the output depends on sample i of the inputs "
          "alone; *free* = does not see the batch; *sum*, *mean* = over the batch; *mixed* = "
          "anything else, never split into micro-batches.\n"
          "**Storage**: *over i* = the first possible output may take the bytes of input i when "
          "that input is dead; *updates i* = always does; *view* = is input 0 under another "
          "shape.\n");
  for (uint32_t f = 0; f < ull__op_family_count; f++) {
    const ull__op_family *family = &ull__op_families[f];
    fprintf(out,
            "\n## %s\n\n"
            "| operator | inputs | outputs | attributes | batch | kind | storage | gradient |\n"
            "|---|---|---|---|---|---|---|---|\n",
            family->name);
    for (uint32_t i = 0; i < *family->count; i++) write_row(out, &family->rows[i]);
  }
}

static char *make_document(size_t *size) {
  char *text = NULL;
  FILE *out = open_memstream(&text, size);
  assert_non_null(out);
  write_document(out);
  assert_int_equal(fclose(out), 0);
  return text;
}

static void the_document_is_up_to_date(void **state) {
  (void)state;
  size_t size = 0;
  const char *path = source_path("docs/operators.md");
  char *made = make_document(&size);
  const char *update = getenv("ULLAGE_UPDATE_GOLDEN");
  if (update && strcmp(update, "1") == 0) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(made, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
  }
  FILE *file = fopen(path, "r");
  if (!file) fail_msg("%s is missing; ULLAGE_UPDATE_GOLDEN=1 writes it", path);
  char *found = calloc(1, size + 2);
  const size_t length = fread(found, 1, size + 1, file);
  fclose(file);
  if (length != size || memcmp(found, made, size) != 0) {
    fail_msg("%s is not what the table says; ULLAGE_UPDATE_GOLDEN=1 writes it anew", path);
  }
  free(found);
  free(made);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_document_is_up_to_date)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
