/* Slabs of host devices: a table of fixed capacity, so that a slab's entry never moves and may be
 * read by any thread that was given its id.
 *
 * Bytes are counted as asked for. Where device and host tier are the same bytes, all count as
 * device. */
#include <string.h>

#include "base/byte_size.h"
#include "base/error.h"
#include "device/host/host.h"

static ull__host_device *host(ull__device *device) {
  return (ull__host_device *)device;
}

static const ull__host_device *host_const(const ull__device *device) {
  return (const ull__host_device *)device;
}

uint64_t ull__host_capacity_bytes(const ull__device *device) {
  return host_const(device)->capacity_bytes;
}

static ull__tier counted_tier(const ull__host_device *device, ull__tier tier) {
  return device->base.backend->is_shared && tier == ULL__TIER_HOST ? ULL__TIER_DEVICE : tier;
}

uint64_t ull__host_allocated_bytes(const ull__device *device, ull__tier tier) {
  return host_const(device)->allocated_bytes[tier];
}

uint64_t ull__host_peak_bytes(const ull__device *device, ull__tier tier) {
  return host_const(device)->peak_bytes[tier];
}

/* ---- ordinary memory ---- */

ull_status ull__host_map_memory(ull__host_slab *slab) {
  ULL__TRY(ull__slab_reserve(&slab->mapping, slab->bytes));
  ull_status status = ull__slab_commit(&slab->mapping, 0, slab->bytes);
  if (status != ULL_OK) {
    ull__slab_release(&slab->mapping);
    return status;
  }
  slab->address = slab->mapping.base;
  slab->is_host_memory = true;
  return ULL_OK;
}

void ull__host_unmap_memory(ull__host_slab *slab) {
  ull__slab_release(&slab->mapping);
}

/* ---- the table ---- */

static ull_status find_unused(const ull__host_device *device, ull__slab_id *out) {
  for (ull__slab_id id = 0; id < ULL__SLAB_CAPACITY; id++) {
    if (device->slabs[id].used) continue;
    *out = id;
    return ULL_OK;
  }
  return ULL__FAIL(ULL_ERROR_OUT_OF_MEMORY, "a device holds at most %u slabs", ULL__SLAB_CAPACITY);
}

static ull_status check_capacity(const ull__host_device *device, ull__tier tier, uint64_t bytes) {
  if (tier != ULL__TIER_DEVICE) return ULL_OK;
  uint64_t available_bytes = device->capacity_bytes - device->allocated_bytes[tier];
  if (bytes <= available_bytes) return ULL_OK;
  char wanted[ULL__BYTE_SIZE_TEXT], available[ULL__BYTE_SIZE_TEXT];
  ULL__FAIL(ULL_ERROR_OUT_OF_MEMORY, "%s device memory wanted, %s available on %s",
            ull__byte_size_format(bytes, wanted), ull__byte_size_format(available_bytes, available),
            device->base.backend->name);
  return ull__error_bytes(bytes, available_bytes);
}

static ull_status check_tier(const ull__host_device *device, ull__tier tier) {
  if (tier != ULL__TIER_DISK) return ULL_OK;
  return ULL__FAIL(ULL_ERROR_UNSUPPORTED, "the device %s has no disk tier",
                   device->base.backend->name);
}

static void count_allocation(ull__host_device *device, ull__tier tier, uint64_t bytes) {
  uint64_t *allocated_bytes = &device->allocated_bytes[tier];
  *allocated_bytes += bytes;
  if (device->peak_bytes[tier] < *allocated_bytes) device->peak_bytes[tier] = *allocated_bytes;
}

ull_status ull__host_allocate(ull__device *base, ull__tier tier, uint64_t bytes,
                              ull__slab_id *out) {
  ull__host_device *device = host(base);
  ull__slab_id id = 0;
  ULL__TRY(check_tier(device, tier));
  ULL__TRY(check_capacity(device, counted_tier(device, tier), bytes));
  ULL__TRY(find_unused(device, &id));
  if (ull__fault_is_due(device, ULL__FAULT_ALLOCATE)) {
    return ull__fault_fail(device, ULL__FAULT_ALLOCATE);
  }
  ull__host_slab slab = {.used = true, .tier = tier, .bytes = bytes};
  ULL__TRY(device->map(&slab));
  if (device->poison) memset(slab.address, 0xFF, bytes);
  device->slabs[id] = slab;
  count_allocation(device, counted_tier(device, tier), bytes);
  *out = id;
  return ULL_OK;
}

static void drain(ull__host_device *device) {
  ull__schedule_lock();
  while (device->outstanding > 0) ull__await_progress(device);
  ull__schedule_unlock();
}

void ull__host_free(ull__device *base, ull__slab_id id) {
  ull__host_device *device = host(base);
  if (id >= ULL__SLAB_CAPACITY || !device->slabs[id].used) return;
  drain(device);
  ull__host_slab *slab = &device->slabs[id];
  device->allocated_bytes[counted_tier(device, slab->tier)] -= slab->bytes;
  device->unmap(slab);
  *slab = (ull__host_slab){0};
}

void ull__host_unmap_all(ull__host_device *device) {
  for (ull__slab_id id = 0; id < ULL__SLAB_CAPACITY; id++) ull__host_free(&device->base, id);
}

void *ull__host_pointer(ull__device *device, ull__slab_id id) {
  if (id >= ULL__SLAB_CAPACITY) return NULL;
  const ull__host_slab *slab = &host(device)->slabs[id];
  return slab->used && slab->is_host_memory ? slab->address : NULL;
}

/* ---- places ---- */

ull_status ull__host_check_place(const ull__host_device *device, ull__place place) {
  if (place.bytes == 0) return ULL_OK;
  if (place.slab >= ULL__SLAB_CAPACITY || !device->slabs[place.slab].used) {
    return ULL__FAIL(ULL_ERROR_INVALID, "slab %u does not exist", place.slab);
  }
  uint64_t slab_bytes = device->slabs[place.slab].bytes;
  if (place.offset <= slab_bytes && place.bytes <= slab_bytes - place.offset) return ULL_OK;
  ULL__FAIL(ULL_ERROR_INVALID, "a place of %llu bytes at %llu lies outside slab %u of %llu bytes",
            (unsigned long long)place.bytes, (unsigned long long)place.offset, place.slab,
            (unsigned long long)slab_bytes);
  return ull__error_bytes(place.bytes, slab_bytes);
}

void *ull__host_resolve(const ull__host_device *device, ull__place place) {
  return place.bytes > 0 ? device->slabs[place.slab].address + place.offset : NULL;
}

ull_status ull__host_write(ull__device *base, ull__place to, const void *from) {
  ull__host_device *device = host(base);
  ULL__TRY(ull__host_check_place(device, to));
  drain(device);
  if (to.bytes > 0) memcpy(ull__host_resolve(device, to), from, to.bytes);
  return ULL_OK;
}

ull_status ull__host_read(ull__device *base, ull__place from, void *to) {
  ull__host_device *device = host(base);
  ULL__TRY(ull__host_check_place(device, from));
  drain(device);
  if (from.bytes > 0) memcpy(to, ull__host_resolve(device, from), from.bytes);
  return ULL_OK;
}
