/* What the files of the JPEG decoder share: one libjpeg object and everything it is given. */
#ifndef ULL_DATA_IMAGE_JPEG_H
#define ULL_DATA_IMAGE_JPEG_H

#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h>

/* After jpeglib.h, whose configuration decides the numbers in it. */
#include <jerror.h>

#include "data/image/codec.h"
#include "data/image/jpeg_huffman.h"

/* The library's small objects: state of its modules, Huffman and dequantisation tables. Measured
 * over every form of file: at most 21 KiB; what needs more is an error, never an overrun. */
enum { ULL__JPEG_SMALL_BYTES = 64 << 10 };

enum { ULL__JPEG_ROWS = 8 }; /* decoded by one call */

typedef struct ull__jpeg {
  struct jpeg_decompress_struct cinfo; /* client_data leads back here */
  struct jpeg_error_mgr errors;
  struct jpeg_source_mgr source;
  struct jpeg_progress_mgr progress;
  struct jpeg_memory_mgr memory;
  struct jpeg_memory_mgr *library_memory; /* in place while the object is created and destroyed */

  ull__input *input;
  ull__image_info *info; /* of the picture that is open; notes go here */
  jmp_buf escape;
  ull_status stopped; /* why, where the library did not fail itself */

  uint8_t *small; /* ULL__JPEG_SMALL_BYTES */
  size_t small_used;
  uint8_t *large; /* taken for this picture */
  uint64_t large_bytes, large_used;
  struct jvirt_barray_control *arrays; /* requested, not yet realised */

  ull__huffman huffman;

  bool scanning;       /* past the headers: what is wrong from here on is wrong in the pixels */
  bool turned_by_exif; /* the orientation is EXIF's, not XMP's */
  bool ended;          /* the data has ended too early */
} ull__jpeg;

/* Functions that libjpeg calls. */
void ull__jpeg_install_memory(ull__jpeg *jpeg);
void ull__jpeg_install_source(ull__jpeg *jpeg);
void ull__jpeg_install_errors(ull__jpeg *jpeg);

/* After jpeg_start_decompress: Huffman decoding of our own from here on, where the picture is an
 * ordinary one (sequential, all components in one scan, tables 0 and 1); any other stays the
 * library's. */
void ull__huffman_take_over(ull__jpeg *jpeg);

/* Leaves the library with a status of our own; the record is filled. Does not return. */
void ull__jpeg_stop(ull__jpeg *jpeg, ull_status status) __attribute__((noreturn));

/* ULL_ERROR_DATA and a verdict from what the library has failed with (or the status that stopped
 * it).
 */
ull_status ull__jpeg_failure(ull__image_reader *reader, ull__jpeg *jpeg);

/* Reads Exif from the APP1 segment that the source stands at: its orientation goes to the info. */
boolean ull__jpeg_read_app1(j_decompress_ptr cinfo);

/* Scratch that arrays of the library take. */
uint64_t ull__jpeg_sample_array_bytes(uint64_t samples_per_row, uint64_t rows);
uint64_t ull__jpeg_block_array_bytes(uint64_t blocks_per_row, uint64_t rows);

/* Everything that decoding takes of the scratch, for the parameters set in cinfo and the dimensions
 * that jpeg_calc_output_dimensions found. */
uint64_t ull__jpeg_need(const struct jpeg_decompress_struct *cinfo);

/* Rows as they come out of the library: ULL__JPEG_ROWS of these bytes. */
uint64_t ull__jpeg_row_bytes(const struct jpeg_decompress_struct *cinfo);

/* Four bytes of inverted ("adobe") or plain CMYK to red, green, blue and 255, in place. */
void ull__jpeg_convert_cmyk(uint8_t *row, int width, bool inverted);

/* The same to grey; `to` may be `row`. */
void ull__jpeg_convert_cmyk_to_grey(const uint8_t *row, uint8_t *to, int width, bool inverted);

#endif
