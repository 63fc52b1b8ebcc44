/* Signatures, and extensions that lie. */
#include "data/image/sniff.h"

#include <string.h>
#include <strings.h>

typedef struct signature {
  ull__image_format format;
  const char *refusal;
  size_t at; /* the bytes that matter, and where */
  size_t count;
  const char *bytes;
} signature;

static const signature signatures[] = {
    {ULL__IMAGE_JPEG, NULL, 0, 2, "\xff\xd8"},
    {ULL__IMAGE_PNG, NULL, 0, 8, "\x89PNG\r\n\x1a\n"},
    {ULL__IMAGE_WEBP, NULL, 8, 4, "WEBP"},
    {ULL__IMAGE_UNKNOWN, "GIF is not read", 0, 4, "GIF8"},
    {ULL__IMAGE_UNKNOWN, "TIFF is not read", 0, 4, "II*\0"},
    {ULL__IMAGE_UNKNOWN, "TIFF is not read", 0, 4, "MM\0*"},
    {ULL__IMAGE_UNKNOWN, "TIFF is not read", 0, 4, "II+\0"},
    {ULL__IMAGE_UNKNOWN, "TIFF is not read", 0, 4, "MM\0+"},
    {ULL__IMAGE_UNKNOWN, "JPEG 2000 is not read", 0, 4, "\xff\x4f\xff\x51"},
    {ULL__IMAGE_UNKNOWN, "JPEG 2000 is not read", 4, 4, "jP  "},
    {ULL__IMAGE_UNKNOWN, "JPEG XL is not read", 0, 2, "\xff\x0a"},
    {ULL__IMAGE_UNKNOWN, "JPEG XL is not read", 4, 4, "JXL "},
    {ULL__IMAGE_UNKNOWN, "AVIF is not read", 4, 8, "ftypavif"},
    {ULL__IMAGE_UNKNOWN, "AVIF is not read", 4, 8, "ftypavis"},
    {ULL__IMAGE_UNKNOWN, "HEIF is not read", 4, 7, "ftyphei"},
    {ULL__IMAGE_UNKNOWN, "HEIF is not read", 4, 7, "ftyphev"},
    {ULL__IMAGE_UNKNOWN, "HEIF is not read", 4, 7, "ftypmif"},
    {ULL__IMAGE_UNKNOWN, "Photoshop's format is not read", 0, 4, "8BPS"},
    {ULL__IMAGE_UNKNOWN, "MNG is not read", 0, 8, "\x8aMNG\r\n\x1a\n"},
    {ULL__IMAGE_UNKNOWN, "JNG is not read", 0, 8, "\x8bJNG\r\n\x1a\n"},
    {ULL__IMAGE_UNKNOWN, "QOI is not read", 0, 4, "qoif"},
};

/* "BM" begins much that is no picture: the size of the header behind it has few values. */
static bool is_bmp(const uint8_t *bytes, size_t count) {
  static const uint8_t header_sizes[] = {12, 16, 40, 52, 56, 64, 108, 124};
  if (count < 18 || memcmp(bytes, "BM", 2) != 0) return false;
  if (bytes[15] != 0 || bytes[16] != 0 || bytes[17] != 0) return false;
  return memchr(header_sizes, bytes[14], sizeof header_sizes) != NULL;
}

/* P1 to P7, then white space. */
static bool is_netpbm(const uint8_t *bytes, size_t count) {
  return count >= 3 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '7' &&
         (bytes[2] == '\n' || bytes[2] == ' ' || bytes[2] == '\r' || bytes[2] == '\t');
}

ull__sniffed ull__image_sniff(const uint8_t *bytes, size_t count) {
  for (size_t i = 0; i < sizeof signatures / sizeof signatures[0]; i++) {
    const signature *s = &signatures[i];
    if (count < s->at + s->count || memcmp(bytes + s->at, s->bytes, s->count) != 0) continue;
    if (s->format == ULL__IMAGE_WEBP && memcmp(bytes, "RIFF", 4) != 0) continue;
    return (ull__sniffed){.format = s->format, .refusal = s->refusal};
  }
  if (is_bmp(bytes, count)) return (ull__sniffed){.refusal = "BMP is not read"};
  if (is_netpbm(bytes, count)) return (ull__sniffed){.refusal = "Netpbm is not read"};
  return (ull__sniffed){.refusal = NULL};
}

static const struct {
  const char *extension;
  ull__image_format format;
} extensions[] = {
    {"jpg", ULL__IMAGE_JPEG},     {"jpeg", ULL__IMAGE_JPEG},    {"jpe", ULL__IMAGE_JPEG},
    {"jfif", ULL__IMAGE_JPEG},    {"mpo", ULL__IMAGE_JPEG},     {"png", ULL__IMAGE_PNG},
    {"apng", ULL__IMAGE_PNG},     {"webp", ULL__IMAGE_WEBP},    {"gif", ULL__IMAGE_UNKNOWN},
    {"bmp", ULL__IMAGE_UNKNOWN},  {"tif", ULL__IMAGE_UNKNOWN},  {"tiff", ULL__IMAGE_UNKNOWN},
    {"heic", ULL__IMAGE_UNKNOWN}, {"avif", ULL__IMAGE_UNKNOWN},
};

bool ull__image_name_lies(const char *path, ull__image_format format) {
  const char *dot = strrchr(path, '.');
  if (dot == NULL) return false;
  for (size_t i = 0; i < sizeof extensions / sizeof extensions[0]; i++)
    if (strcasecmp(dot + 1, extensions[i].extension) == 0) return extensions[i].format != format;
  return false;
}
