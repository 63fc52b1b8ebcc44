/* Three ways of saying an orientation: EXIF's own chunk, XMP in a text, and EXIF in hexadecimal
 * digits, compressed, as ImageMagick writes it. Of the compressed text only the beginning is
 * inflated, into a fixed buffer. */
#include <string.h>

#include <zlib.h>

#include "data/image/exif.h"
#include "data/image/png.h"

/* Enough for the first directory. zlib takes at most 48 KiB of the working memory. */
enum { TEXT_BYTES = 8192 };

typedef struct arena {
  uint8_t *at;
  size_t left;
} arena;

static void *take(void *opaque, uInt items, uInt size) {
  arena *a = opaque;
  size_t bytes = ((size_t)items * size + 15) & ~(size_t)15;
  if (bytes > a->left) return NULL;
  void *taken = a->at;
  a->at += bytes;
  a->left -= bytes;
  return taken;
}

static void give_back(void *opaque, void *block) {
  (void)opaque, (void)block;
}

/* The beginning of what is compressed. Returns its length. */
static size_t inflate_some(const uint8_t *bytes, size_t count, uint8_t *working) {
  arena a = {working + TEXT_BYTES, ULL__PNG_SMALL_BYTES - TEXT_BYTES};
  z_stream stream = {.zalloc = take, .zfree = give_back, .opaque = &a};
  stream.next_in = (Bytef *)bytes;
  stream.avail_in = (uInt)count;
  stream.next_out = working;
  stream.avail_out = TEXT_BYTES;
  if (inflateInit(&stream) != Z_OK) return 0;
  inflate(&stream, Z_SYNC_FLUSH);
  inflateEnd(&stream);
  return TEXT_BYTES - stream.avail_out;
}

static bool begins(const uint8_t *content, size_t count, const char *keyword, size_t length) {
  return count > length && memcmp(content, keyword, length) == 0; /* its 0 included */
}

int ull__png_metadata_orientation(const uint8_t type[4], const uint8_t *content, size_t count,
                                  uint8_t *working) {
  static const char xmp[] = "XML:com.adobe.xmp", raw_exif[] = "Raw profile type exif",
                    raw_app1[] = "Raw profile type APP1";
  if (memcmp(type, "eXIf", 4) == 0) return ull__exif_orientation(content, count);
  if (memcmp(type, "iTXt", 4) == 0 && begins(content, count, xmp, sizeof xmp) &&
      content[sizeof xmp] == 0)
    return ull__xmp_orientation(content, count);
  bool plain = memcmp(type, "tEXt", 4) == 0;
  static const size_t head = sizeof raw_exif; /* as long as the other one */
  if (!begins(content, count, raw_exif, head) && !begins(content, count, raw_app1, head)) return 0;
  if (plain) return ull__hex_profile_orientation(content + head, count - head);
  size_t length = inflate_some(content + head + 1, count - head - 1, working);
  return ull__hex_profile_orientation(working, length);
}
