/* What the rest of the loader asks about augmentations. */
#ifndef ULL_DATA_AUGMENT_H
#define ULL_DATA_AUGMENT_H

#include "ullage/data.h"

/* The framing of pictures, never ULL_FRAMING_UNSET. */
ull_framing ull__augment_framing(const ull_augment *augment);

/* Whether whole pictures of uint8 are changed between resizing and normalisation. */
bool ull__augment_changes_pixels(const ull_augment *augment);

#endif
