/* Failures on demand: ULLAGE_FAULT=launch:n, copy:n or allocate:n in the environment when a device
 * is opened makes its n-th such call fail, for tests of what happens then. Copies are those of any
 * kind. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "device/host/host.h"

static const char *const stages[ULL__FAULT_COUNT] = {"launch", "copy", "allocate"};

void ull__faults_read(ull__host_device *device) {
  const char *text = getenv("ULLAGE_FAULT");
  for (int stage = 0; text != NULL && stage < ULL__FAULT_COUNT; stage++) {
    size_t length = strlen(stages[stage]);
    if (strncmp(text, stages[stage], length) != 0 || text[length] != ':') continue;
    device->fault_at[stage] = device->calls_until_fault[stage] =
        strtoull(text + length + 1, NULL, 10);
  }
}

bool ull__fault_is_due(ull__host_device *device, ull__fault_stage stage) {
  return device->calls_until_fault[stage] > 0 && --device->calls_until_fault[stage] == 0;
}

ull_status ull__fault_fail(const ull__host_device *device, ull__fault_stage stage) {
  unsigned long long at = device->fault_at[stage];
  ull_status status = stage == ULL__FAULT_ALLOCATE ? ULL_ERROR_OUT_OF_MEMORY : ULL_ERROR_DEVICE;
  ULL__FAIL(status, "%s %llu of the device %s failed", stages[stage], at,
            device->base.backend->name);
  return ull__error_holder("ULLAGE_FAULT=%s:%llu", stages[stage], at);
}
