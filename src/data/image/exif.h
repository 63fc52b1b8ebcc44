/* The one thing that metadata is asked for: how the camera was held. */
#ifndef ULL_DATA_IMAGE_EXIF_H
#define ULL_DATA_IMAGE_EXIF_H

#include <stddef.h>
#include <stdint.h>

/* Orientation, 1 to 8, of EXIF data from its byte order mark on ("II*" or "MM*"); an "Exif" heading
 * in front is passed over. 0 where the data does not say or is malformed: pixels never fail for it.
 */
int ull__exif_orientation(const uint8_t *bytes, size_t count);

/* The same of an XMP text: tiff:Orientation as an attribute or an element. */
int ull__xmp_orientation(const uint8_t *bytes, size_t count);

/* The same of EXIF data as ImageMagick writes it into PNG: a title, a length, hexadecimal digits in
 * lines. The text may be cut. */
int ull__hex_profile_orientation(const uint8_t *text, size_t count);

#endif
