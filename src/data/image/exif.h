/* The one thing that EXIF data is asked for. */
#ifndef ULL_DATA_IMAGE_EXIF_H
#define ULL_DATA_IMAGE_EXIF_H

#include <stddef.h>
#include <stdint.h>

/* Orientation, 1 to 8, of EXIF data from its byte order mark on ("II*" or "MM*"); an "Exif" heading
 * in front is passed over. 0 where the data does not say or is malformed: pixels never fail for it.
 */
int ull__exif_orientation(const uint8_t *bytes, size_t count);

#endif
