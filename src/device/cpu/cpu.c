/* The processor as a device: every tier but the disk is one pool of ordinary memory, one thread
 * copies. */
#include "base/alloc.h"
#include "base/error.h"
#include "device/host/host.h"

static ull_status open_cpu(const char *rest, const ull__device_options *options,
                           ull__device **out) {
  if (rest != NULL) return ULL__FAIL(ULL_ERROR_USAGE, "the device cpu takes no ':%.64s'", rest);
  ull__host_device *device = ull__alloc(1, sizeof *device);
  if (device == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  device->base.backend = &ull__cpu_backend;
  device->capacity_bytes = UINT64_MAX;
  device->map = ull__host_map_memory;
  device->unmap = ull__host_unmap_memory;
  ull_status status = ull__host_create(device, options, 1);
  if (status != ULL_OK) {
    ull__free(device);
    return status;
  }
  *out = &device->base;
  return ULL_OK;
}

const ull__device_backend ull__cpu_backend = {
    .name = "cpu",
    .is_shared = true,
    .open = open_cpu,
    ULL__HOST_BACKEND_ROWS,
};
