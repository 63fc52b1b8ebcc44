/* RIFF: chunks of a name, a length and that many bytes, made even. An animation's frames are chunks
 * that hold chunks behind a head of sixteen bytes. */
#include <string.h>

#include "base/error.h"
#include "data/image/exif.h"
#include "data/image/webp.h"

enum { HEAD = 8, RIFF_HEAD = 12, FRAME_HEAD = 16, MOST_METADATA = 64 << 10 };

typedef struct walk {
  ull__image_reader *reader;
  ull__image_info *info;
  ull__webp_parts *parts;
  bool turned_by_exif;
  uint64_t end; /* of the record, or of what the file announces, whichever is first */
} walk;

static uint64_t read32(const uint8_t *bytes) {
  return (uint64_t)bytes[3] << 24 | (uint64_t)bytes[2] << 16 | (uint64_t)bytes[1] << 8 | bytes[0];
}

static int read24(const uint8_t *bytes) {
  return bytes[2] << 16 | bytes[1] << 8 | bytes[0];
}

static bool is_name(const uint8_t *bytes, const char *name) {
  return memcmp(bytes, name, 4) == 0;
}

static ull_status see(const walk *w, uint64_t at, size_t count, const uint8_t **bytes,
                      size_t *got) {
  return ull__input_see(&w->reader->input, at, count, bytes, got);
}

static void take_frame(const walk *w, const uint8_t *head, uint64_t at, uint64_t length) {
  ull__webp_parts *parts = w->parts;
  if (parts->frame_bytes != 0) return;
  parts->frame = at;
  parts->frame_bytes = HEAD + length;
  parts->lossless = is_name(head, "VP8L");
  parts->frame_is_cut = length > w->reader->input.record->bytes - at - HEAD;
}

static ull_status read_canvas(const walk *w, uint64_t at) {
  const uint8_t *bytes;
  size_t got;
  ULL__TRY(see(w, at, 10, &bytes, &got));
  if (got < 10) return ULL_OK;
  w->parts->extended = true;
  w->parts->canvas_width = read24(bytes + 4) + 1;
  w->parts->canvas_height = read24(bytes + 7) + 1;
  return ULL_OK;
}

/* EXIF goes over XMP. */
static ull_status read_orientation(walk *w, uint64_t at, uint64_t length, bool exif) {
  const uint8_t *bytes;
  size_t got;
  if (length > MOST_METADATA || w->turned_by_exif) return ULL_OK;
  ULL__TRY(see(w, at, (size_t)length, &bytes, &got));
  int orientation = exif ? ull__exif_orientation(bytes, got) : ull__xmp_orientation(bytes, got);
  if (orientation == 0) return ULL_OK;
  w->info->orientation = orientation;
  w->turned_by_exif = exif;
  return ULL_OK;
}

static ull_status walk_chunks(walk *w, uint64_t at, uint64_t end, bool inside_frame);

static ull_status enter_animation_frame(walk *w, uint64_t at, uint64_t end) {
  const uint8_t *bytes;
  size_t got;
  if (w->parts->frame_bytes != 0) return ULL_OK;
  ULL__TRY(see(w, at, FRAME_HEAD, &bytes, &got));
  if (got < FRAME_HEAD) return ULL_OK;
  w->parts->animated = true;
  w->parts->frame_x = read24(bytes) * 2;
  w->parts->frame_y = read24(bytes + 3) * 2;
  return walk_chunks(w, at + FRAME_HEAD, end, true);
}

static ull_status visit(walk *w, const uint8_t head[HEAD], uint64_t at, bool inside_frame) {
  uint64_t length = read32(head + 4), content = at + HEAD;
  if (is_name(head, "VP8 ") || is_name(head, "VP8L")) take_frame(w, head, at, length);
  if (inside_frame) return ULL_OK;
  if (is_name(head, "VP8X")) return read_canvas(w, content);
  if (is_name(head, "EXIF")) return read_orientation(w, content, length, true);
  if (is_name(head, "XMP ")) return read_orientation(w, content, length, false);
  if (is_name(head, "ANMF")) return enter_animation_frame(w, content, content + length);
  return ULL_OK;
}

static ull_status walk_chunks(walk *w, uint64_t at, uint64_t end, bool inside_frame) {
  if (end > w->end) end = w->end;
  while (at < end && end - at >= HEAD) {
    uint8_t head[HEAD];
    const uint8_t *bytes;
    size_t got;
    ULL__TRY(see(w, at, HEAD, &bytes, &got));
    if (got < HEAD) return ULL_OK;
    memcpy(head, bytes, HEAD);
    ULL__TRY(visit(w, head, at, inside_frame));
    uint64_t length = read32(head + 4);
    at += HEAD + length + (length & 1);
  }
  return ULL_OK;
}

ull_status ull__webp_survey(ull__image_reader *reader, ull__image_info *info,
                            ull__webp_parts *parts) {
  uint64_t bytes = reader->input.record->bytes;
  *parts = (ull__webp_parts){.frame_bytes = 0};
  uint64_t announced = HEAD + read32(reader->input.bytes + 4);
  parts->tail_is_cut = announced > bytes;
  walk w = {
      .reader = reader, .info = info, .parts = parts, .end = announced < bytes ? announced : bytes};
  ULL__TRY(walk_chunks(&w, RIFF_HEAD, w.end, false));
  if (parts->frame_bytes != 0) return ULL_OK;
  if (parts->tail_is_cut)
    return ull__image_refuse(reader, info, ULL_VERDICT_TRUNCATED, "premature end of file");
  return ull__image_refuse(reader, info, ULL_VERDICT_DAMAGED, "no picture inside");
}
