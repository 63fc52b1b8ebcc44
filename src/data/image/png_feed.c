/* Chunks: eight bytes of length and type, the content, four bytes of checksum. */
#include <string.h>

#include <zlib.h>

#include "base/error.h"
#include "data/image/png.h"

enum { SIGNATURE = 8, HEAD = 8, TAIL = 4, FRAME = HEAD + TAIL, MOST_METADATA = 64 << 10 };

static const char cut_behind[] = "the file ends early, behind the pixels";

static uint32_t read32(const uint8_t *bytes) {
  return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static bool is_type(const uint8_t type[4], const char *name) {
  return memcmp(type, name, 4) == 0;
}

static bool is_critical(const uint8_t type[4]) {
  return (type[0] & 0x20) == 0;
}

static void note_checksum(const ull__png_feed *feed) {
  bool pixels = is_critical(feed->type) && !is_type(feed->type, "IEND");
  ull__image_note(feed->info, pixels ? ULL_VERDICT_DAMAGED : ULL_VERDICT_WARNED,
                  pixels ? "wrong checksum of the coded data" : "wrong checksum of a side chunk");
}

static ull_status end_early(ull__png_feed *feed) {
  feed->ended = true;
  return ULL_OK;
}

/* The head of the chunk at feed->at; feed->done is 0 afterwards. */
static ull_status enter(ull__png_feed *feed) {
  const uint8_t *head;
  size_t got;
  ULL__TRY(ull__input_see(feed->input, feed->at, HEAD, &head, &got));
  if (got < HEAD) return end_early(feed);
  feed->length = read32(head);
  memcpy(feed->type, head + 4, 4);
  feed->done = 0;
  feed->checksum = (uint32_t)crc32(0, NULL, 0);
  return ULL_OK;
}

/* Moves the part of these bytes that the checksum covers into it, and compares it at its end. */
static void check(ull__png_feed *feed, const uint8_t *bytes, size_t count) {
  uint64_t from = feed->done, to = feed->done + count, end = HEAD + feed->length;
  uint64_t low = from > 4 ? from : 4, high = to < end ? to : end;
  if (low < high)
    feed->checksum = (uint32_t)crc32(feed->checksum, bytes + (low - from), (uInt)(high - low));
  for (uint64_t at = from > end ? from : end; at < to; at++) {
    unsigned shift = 24 - 8 * (unsigned)(at - end);
    if (bytes[at - from] != (uint8_t)(feed->checksum >> shift)) {
      note_checksum(feed);
      break;
    }
  }
  feed->done += count;
  feed->at += count;
}

static bool is_passed(const ull__png_feed *feed) {
  return feed->done == FRAME + feed->length;
}

/* Reads the rest of the chunk for its checksum. */
static ull_status pass_over(ull__png_feed *feed) {
  while (!is_passed(feed) && !feed->ended) {
    uint64_t left = FRAME + feed->length - feed->done;
    const uint8_t *bytes;
    size_t got;
    ULL__TRY(
        ull__input_see(feed->input, feed->at, left < 8192 ? (size_t)left : 8192, &bytes, &got));
    if (got == 0) return end_early(feed);
    check(feed, bytes, got);
  }
  return ULL_OK;
}

/* ---- before the pixels ---- */

/* EXIF's own chunk goes over what texts say. */
static ull_status read_orientation(ull__png_feed *feed) {
  bool exif = is_type(feed->type, "eXIf");
  bool text =
      is_type(feed->type, "tEXt") || is_type(feed->type, "zTXt") || is_type(feed->type, "iTXt");
  if (!exif && !text) return ULL_OK;
  if (feed->length > MOST_METADATA || (!exif && feed->info->orientation != 1)) return ULL_OK;
  const uint8_t *bytes;
  size_t got;
  ULL__TRY(ull__input_see(feed->input, feed->at + HEAD, (size_t)feed->length, &bytes, &got));
  int orientation = ull__png_metadata_orientation(feed->type, bytes, got, feed->working);
  if (orientation != 0) feed->info->orientation = orientation;
  return ULL_OK;
}

static void start(ull__png_feed *feed, uint64_t at) {
  feed->at = at;
  feed->length = feed->done = 0;
  memset(feed->type, 0, sizeof feed->type);
  feed->ended = feed->complete = false;
}

ull_status ull__png_survey(ull__png_feed *feed) {
  start(feed, SIGNATURE);
  while (!feed->ended) {
    ULL__TRY(enter(feed));
    if (feed->ended || is_type(feed->type, "IDAT") || is_type(feed->type, "IEND")) break;
    ULL__TRY(read_orientation(feed));
    if (is_critical(feed->type)) { /* seen by the decoder, and checked on the way to it */
      feed->at += FRAME + feed->length;
      continue;
    }
    ULL__TRY(pass_over(feed));
  }
  return ULL_OK;
}

/* ---- for libspng ---- */

void ull__png_feed_begin(ull__png_feed *feed) {
  start(feed, 0);
  feed->done = FRAME;
  feed->stopped = ULL_OK;
}

/* Finds the next chunk that is given on: before the pixels the critical ones (the survey has
 * checked the others), from then on all, since one in between ends the pixels. */
static ull_status next_chunk(ull__png_feed *feed) {
  bool begun = is_type(feed->type, "IDAT");
  while (!feed->ended) {
    ULL__TRY(enter(feed));
    if (feed->ended || begun || is_critical(feed->type)) return ULL_OK;
    feed->at += FRAME + feed->length;
  }
  return ULL_OK;
}

/* One piece of what libspng asks for; *got is 0 at the early end. */
static ull_status give_piece(ull__png_feed *feed, uint8_t *to, size_t count, size_t *got) {
  const uint8_t *bytes;
  *got = 0;
  if (feed->at < SIGNATURE) {
    uint64_t left = SIGNATURE - feed->at;
    ULL__TRY(
        ull__input_see(feed->input, feed->at, left < count ? (size_t)left : count, &bytes, got));
    memcpy(to, bytes, *got);
    feed->at += *got;
    return ULL_OK;
  }
  if (is_passed(feed)) ULL__TRY(next_chunk(feed));
  if (feed->ended) return ULL_OK;
  uint64_t left = FRAME + feed->length - feed->done;
  ULL__TRY(ull__input_see(feed->input, feed->at, left < count ? (size_t)left : count, &bytes, got));
  memcpy(to, bytes, *got);
  check(feed, bytes, *got);
  return ULL_OK;
}

int ull__png_feed_read(spng_ctx *context, void *user, void *to, size_t count) {
  ull__png_feed *feed = user;
  (void)context;
  for (uint8_t *next = to; count > 0;) {
    size_t got;
    feed->stopped = give_piece(feed, next, count, &got);
    if (feed->stopped != ULL_OK) return SPNG_IO_ERROR;
    if (got == 0) {
      feed->ended = true;
      return SPNG_IO_EOF;
    }
    next += got;
    count -= got;
  }
  return 0;
}

/* ---- behind the pixels ---- */

ull_status ull__png_feed_finish(ull__png_feed *feed) {
  ULL__TRY(pass_over(feed));
  while (!feed->ended && !is_type(feed->type, "IEND")) {
    ULL__TRY(enter(feed));
    if (!feed->ended) ULL__TRY(pass_over(feed));
  }
  if (feed->ended) ull__image_note(feed->info, ULL_VERDICT_WARNED, cut_behind);
  return ULL_OK;
}

/* Most files end with the last chunk and nothing else; where not, its place is found by walking. */
ull_status ull__png_find_end(ull__png_feed *feed, bool *found) {
  static const uint8_t last[FRAME] = {0, 0, 0, 0, 'I', 'E', 'N', 'D', 0xae, 0x42, 0x60, 0x82};
  uint64_t bytes = feed->input->record->bytes;
  ull__png_feed walk = *feed;
  const uint8_t *tail;
  size_t got;
  *found = true;
  if (bytes >= FRAME) {
    ULL__TRY(ull__input_see(feed->input, bytes - FRAME, FRAME, &tail, &got));
    if (got == FRAME && memcmp(tail, last, FRAME) == 0) return ULL_OK;
  }
  walk.at += FRAME + walk.length - walk.done;
  while (!walk.ended && !is_type(walk.type, "IEND")) {
    ULL__TRY(enter(&walk));
    walk.at += FRAME + walk.length;
  }
  *found = !walk.ended;
  if (*found && walk.at > bytes) ull__image_note(feed->info, ULL_VERDICT_WARNED, cut_behind);
  return ULL_OK;
}
