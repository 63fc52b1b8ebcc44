/* Names of tags and tiers. */
#include "memory/tag.h"

const char *ull__tag_name(ull__tag tag) {
  static const char *const names[ULL__TAG_COUNT] = {
#define XX(name, text) [ULL__TAG_##name] = text,
      ULL__TAG_MAP(XX)
#undef XX
  };
  return (unsigned)tag < ULL__TAG_COUNT ? names[tag] : "unknown";
}

const char *ull__tier_name(ull__tier tier) {
  static const char *const names[ULL__TIER_COUNT] = {"device", "host", "disk"};
  return (unsigned)tier < ULL__TIER_COUNT ? names[tier] : "unknown";
}
