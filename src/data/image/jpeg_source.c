/* The library reads from the input's window; long segments that nobody wants are stepped over
 * without being read. */
#include <string.h>

#include "data/image/exif.h"
#include "data/image/jpeg.h"

static ull__jpeg *jpeg_of(j_decompress_ptr cinfo) {
  return cinfo->client_data;
}

/* Where in the record the next byte of the source is. */
static uint64_t position(const ull__jpeg *jpeg) {
  return jpeg->input->at + jpeg->input->count - jpeg->source.bytes_in_buffer;
}

static void move(ull__jpeg *jpeg, uint64_t at) {
  ull_status status = ull__input_move(jpeg->input, at);
  if (status != ULL_OK) ull__jpeg_stop(jpeg, status);
  jpeg->source.next_input_byte = jpeg->input->bytes;
  jpeg->source.bytes_in_buffer = jpeg->input->count;
}

static void begin(j_decompress_ptr cinfo) {
  ull__jpeg *jpeg = jpeg_of(cinfo);
  jpeg->source.next_input_byte = jpeg->input->bytes;
  jpeg->source.bytes_in_buffer = jpeg->input->count;
}

/* Behind the record's end stands an end marker that is not there: the library goes on with it,
 * fills what is left with the last it knows, and says so. */
static boolean fill(j_decompress_ptr cinfo) {
  static const JOCTET end_of_image[] = {0xff, JPEG_EOI};
  ull__jpeg *jpeg = jpeg_of(cinfo);
  if (!jpeg->ended) move(jpeg, jpeg->input->at + jpeg->input->count);
  if (jpeg->input->count > 0) return TRUE;
  jpeg->ended = true;
  WARNMS(cinfo, JWRN_JPEG_EOF);
  jpeg->source.next_input_byte = end_of_image;
  jpeg->source.bytes_in_buffer = sizeof end_of_image;
  return TRUE;
}

static void skip(j_decompress_ptr cinfo, long count) {
  ull__jpeg *jpeg = jpeg_of(cinfo);
  if (count <= 0) return;
  if ((size_t)count <= jpeg->source.bytes_in_buffer) {
    jpeg->source.next_input_byte += count;
    jpeg->source.bytes_in_buffer -= (size_t)count;
  } else if (jpeg->ended) {
    fill(cinfo);
  } else {
    move(jpeg, position(jpeg) + (uint64_t)count);
  }
}

static void end(j_decompress_ptr cinfo) {
  (void)cinfo;
}

void ull__jpeg_install_source(ull__jpeg *jpeg) {
  jpeg->source = (struct jpeg_source_mgr){
      .init_source = begin,
      .fill_input_buffer = fill,
      .skip_input_data = skip,
      .resync_to_restart = jpeg_resync_to_restart,
      .term_source = end,
  };
  jpeg->cinfo.src = &jpeg->source;
}

/* EXIF goes over XMP, whichever comes first; of several the first counts. */
static void note_orientation(ull__jpeg *jpeg, const uint8_t *bytes, size_t count) {
  static const char exif_head[] = "Exif", xmp_head[] = "http://ns.adobe.com/xap/1.0/";
  bool exif = count > sizeof exif_head && memcmp(bytes, exif_head, sizeof exif_head) == 0;
  bool xmp = count > sizeof xmp_head && memcmp(bytes, xmp_head, sizeof xmp_head) == 0;
  if (jpeg->turned_by_exif || (!exif && !xmp) || (xmp && jpeg->info->orientation != 1)) return;
  int orientation = exif ? ull__exif_orientation(bytes, count) : ull__xmp_orientation(bytes, count);
  if (orientation == 0) return;
  jpeg->info->orientation = orientation;
  jpeg->turned_by_exif = exif;
}

/* A segment is at most 65,535 bytes and the window is wider: moved to the segment's first byte it
 * holds all of it that there is. */
boolean ull__jpeg_read_app1(j_decompress_ptr cinfo) {
  ull__jpeg *jpeg = jpeg_of(cinfo);
  if (jpeg->source.bytes_in_buffer < 2 && !jpeg->ended) move(jpeg, position(jpeg));
  if (jpeg->source.bytes_in_buffer < 2) return fill(cinfo);
  const JOCTET *bytes = jpeg->source.next_input_byte;
  size_t length = (size_t)bytes[0] << 8 | bytes[1];
  if (length < 2) length = 2; /* wrong, and passed over as the library does */
  if (jpeg->source.bytes_in_buffer < length && !jpeg->ended) move(jpeg, position(jpeg));
  bytes = jpeg->source.next_input_byte;
  size_t there = jpeg->source.bytes_in_buffer < length ? jpeg->source.bytes_in_buffer : length;
  note_orientation(jpeg, bytes + 2, there > 2 ? there - 2 : 0);
  skip(cinfo, (long)length);
  return TRUE;
}
