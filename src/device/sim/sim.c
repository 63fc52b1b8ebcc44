/* The sim device: memory that only launches and copies can reach, and a link with a rate.
 *
 * A slab of the device tier is a memfd. `guard` maps it without any right; the mapping that work
 * uses lies between two guard pages inside `window`. Both directions of the link have an engine of
 * their own, so they overlap. */
#include "device/sim/sim.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"
#include "device/host/host.h"

static ull_status refuse(uint64_t bytes, const char *what) {
  ULL__FAIL(ULL_ERROR_OUT_OF_MEMORY, "cannot %s %llu bytes of sim memory: %s", what,
            (unsigned long long)bytes, strerror(errno));
  return ull__error_bytes(bytes, 0);
}

static void unmap_device(ull__host_slab *slab) {
  uint64_t page_bytes = ull__page_bytes();
  uint64_t mapped_bytes = ull__align_up(slab->bytes, page_bytes);
  if (slab->guard != NULL) munmap(slab->guard, mapped_bytes);
  if (slab->window != NULL) munmap(slab->window, mapped_bytes + 2 * page_bytes);
}

static void *map_none(uint64_t bytes, int flags, int file) {
  void *address = mmap(NULL, bytes, PROT_NONE, flags, file, 0);
  return address != MAP_FAILED ? address : NULL;
}

static ull_status map_file(ull__host_slab *slab, int file) {
  uint64_t page_bytes = ull__page_bytes();
  uint64_t mapped_bytes = ull__align_up(slab->bytes, page_bytes);
  if (fallocate(file, 0, 0, (off_t)mapped_bytes) != 0) return refuse(mapped_bytes, "commit");
  slab->guard = map_none(mapped_bytes, MAP_SHARED, file);
  slab->window =
      map_none(mapped_bytes + 2 * page_bytes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
  if (slab->guard == NULL || slab->window == NULL) return refuse(mapped_bytes, "map");
  void *inner = (unsigned char *)slab->window + page_bytes;
  slab->address = mmap(inner, mapped_bytes, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_FIXED | MAP_POPULATE, file, 0);
  return slab->address != MAP_FAILED ? ULL_OK : refuse(mapped_bytes, "map");
}

static ull_status map_device(ull__host_slab *slab) {
  uint64_t mapped_bytes;
  ULL__TRY(ull__size_align(slab->bytes, ull__page_bytes(), "a slab", &mapped_bytes));
  int file = memfd_create("ullage-sim", MFD_CLOEXEC);
  if (file < 0) return refuse(slab->bytes, "create");
  ull_status status = map_file(slab, file);
  close(file);
  if (status != ULL_OK) unmap_device(slab);
  return status;
}

static ull_status map_sim(ull__host_slab *slab) {
  return slab->tier == ULL__TIER_DEVICE ? map_device(slab) : ull__host_map_memory(slab);
}

static void unmap_sim(ull__host_slab *slab) {
  if (slab->tier == ULL__TIER_DEVICE) {
    unmap_device(slab);
  } else {
    ull__host_unmap_memory(slab);
  }
}

const void *ull__sim_address(const ull__device *device, ull__slab_id slab) {
  if (device->backend != &ull__sim_backend || slab >= ULL__SLAB_CAPACITY) return NULL;
  return ((const ull__host_device *)device)->slabs[slab].guard;
}

static ull_status open_sim(const char *rest, const ull__device_options *options,
                           ull__device **out) {
  ull__sim_text text;
  ULL__TRY(ull__sim_text_parse(rest != NULL ? rest : "", &text));
  ull__host_device *device = ull__alloc(1, sizeof *device);
  if (device == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  device->base.backend = &ull__sim_backend;
  device->capacity_bytes = text.capacity_bytes;
  device->link_bytes_per_second = text.link_bytes_per_second;
  device->link_latency_ns = text.link_latency_ns;
  device->has_virtual_clock = options->virtual_clock;
  device->map = map_sim;
  device->unmap = unmap_sim;
  ull_status status = ull__host_create(device, options, ULL__COPY_WORKERS);
  if (status != ULL_OK) {
    ull__free(device);
    return status;
  }
  *out = &device->base;
  return ULL_OK;
}

const ull__device_backend ull__sim_backend = {
    .name = "sim",
    .is_shared = false,
    .open = open_sim,
    ULL__HOST_BACKEND_ROWS,
};
