/* The memory tiers a plan places bytes in. */
#ifndef ULL_MEMORY_TIER_H
#define ULL_MEMORY_TIER_H

typedef enum ull__tier {
  ULL__TIER_DEVICE,
  ULL__TIER_HOST,
  ULL__TIER_DISK,
  ULL__TIER_COUNT
} ull__tier;

/* "device", "host", "disk": the keys of TIER maps in JSON. Never NULL. */
const char *ull__tier_name(ull__tier tier);

#endif
