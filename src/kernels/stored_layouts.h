/* Names and the layouts their values are kept in from program to program. */
#ifndef ULL_KERNELS_STORED_LAYOUTS_H
#define ULL_KERNELS_STORED_LAYOUTS_H

#include "kernels/lowering.h"

/* Adds a name that is not there yet; the name is copied. */
ull_status ull__stored_layouts_add(ull__stored_layouts *layouts, const char *name,
                                   const ull__layout *layout);

#endif
