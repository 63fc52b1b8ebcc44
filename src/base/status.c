/* The status table as strings and exit codes. One list in ullage/status.h feeds everything here. */
#include "ullage/status.h"

typedef struct status_row {
  const char *name;
  const char *text;
  int exit_code;
} status_row;

static const status_row status_rows[ULL_STATUS_COUNT] = {
#define XX(name, json, exit_code, text) [ULL_##name] = {json, text, exit_code},
    ULL_STATUS_MAP(XX)
#undef XX
};

static const status_row *find_row(ull_status status) {
  static const status_row unknown = {"unknown", "unknown status", 1};
  return (unsigned)status < ULL_STATUS_COUNT ? &status_rows[status] : &unknown;
}

const char *ull_status_name(ull_status status) {
  return find_row(status)->name;
}

const char *ull_status_text(ull_status status) {
  return find_row(status)->text;
}

int ull_status_exit_code(ull_status status) {
  return find_row(status)->exit_code;
}
