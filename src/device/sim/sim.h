/* A device with a memory of its own, played by the processor.
 *
 * Its memory is a file in memory mapped twice. The address that is given out faults when it is
 * touched; a second mapping is used by launches and copies alone. */
#ifndef ULL_DEVICE_SIM_SIM_H
#define ULL_DEVICE_SIM_SIM_H

#include "device/device.h"

typedef struct ull__sim_text {
  uint64_t capacity_bytes;
  uint64_t link_bytes_per_second;
  uint64_t link_latency_ns;
} ull__sim_text;

/* "512MiB@8GB/s", "512MiB@8GB/s,latency=10us". ULL_ERROR_USAGE names the part that is wrong. */
ull_status ull__sim_text_parse(const char *text, ull__sim_text *out);

/* The address given out for a slab in the device tier of a sim: never readable or writable. NULL
 * for other slabs. */
const void *ull__sim_address(const ull__device *device, ull__slab_id slab);

#endif
