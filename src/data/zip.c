/* The central directory is the authority for names and sizes; the local header is read only for its
 * own length. Every offset is compared with the size of the file before it is used. Record layouts:
 * PKWARE APPNOTE 4.3. */
#include "data/zip.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

enum {
  END_BYTES = 22,
  END64_LOCATOR_BYTES = 20,
  END64_BYTES = 56,
  ENTRY_BYTES = 46,
  LOCAL_BYTES = 30,
  COMMENT_MAX = 65535,
  MEMBERS_MAX = 65536,
  FLAG_ENCRYPTED = 1,
  EXTRA_ZIP64 = 1
};
#define END_MAGIC 0x06054b50u
#define END64_LOCATOR_MAGIC 0x07064b50u
#define END64_MAGIC 0x06064b50u
#define ENTRY_MAGIC 0x02014b50u
#define LOCAL_MAGIC 0x04034b50u
#define IN_ZIP64 0xffffffffu

static ull_status broken(const ull__data_file *file, const char *what) {
  ULL__FAIL(ULL_ERROR_DATA, "%s: is not a complete ZIP archive: %s", file->path, what);
  ull__error_holder("%s", file->path);
  return ull__error_change("fetch or write the file again");
}

static ull_status read_at(const ull__data_file *file, uint64_t at, void *to, uint64_t count) {
  if (at > file->bytes || count > file->bytes - at)
    return broken(file, "a record lies outside the file");
  ull__content whole = {.file = file, .bytes = file->bytes};
  return ull__content_read(&whole, at, to, count);
}

static bool find_end_in(const uint8_t *tail, uint64_t tail_bytes, uint64_t *at) {
  for (uint64_t i = tail_bytes - END_BYTES + 1; i-- > 0;) {
    if (ull__little32(tail + i) != END_MAGIC) continue;
    if (i + END_BYTES + ull__little16(tail + i + 20) != tail_bytes) continue;
    *at = i;
    return true;
  }
  return false;
}

static ull_status find_end(const ull__data_file *file, uint8_t *end, uint64_t *offset) {
  if (file->bytes < END_BYTES) return broken(file, "it is too short");
  uint64_t tail_bytes = END_BYTES + COMMENT_MAX;
  if (tail_bytes > file->bytes) tail_bytes = file->bytes;
  uint8_t *tail = ull__alloc(1, tail_bytes);
  if (tail == NULL) return ull_error_last()->status;
  uint64_t at = 0;
  ull_status status = read_at(file, file->bytes - tail_bytes, tail, tail_bytes);
  bool found = status == ULL_OK && find_end_in(tail, tail_bytes, &at);
  if (found) memcpy(end, tail + at, END_BYTES);
  ull__free(tail);
  *offset = file->bytes - tail_bytes + at;
  if (status != ULL_OK) return status;
  return found ? ULL_OK : broken(file, "the end of its directory is missing");
}

static ull_status read_zip64(ull__zip *zip, uint64_t end_offset) {
  uint8_t locator[END64_LOCATOR_BYTES], end[END64_BYTES];
  if (end_offset < END64_LOCATOR_BYTES) return broken(zip->file, "its ZIP64 record is missing");
  ULL__TRY(read_at(zip->file, end_offset - END64_LOCATOR_BYTES, locator, sizeof locator));
  if (ull__little32(locator) != END64_LOCATOR_MAGIC) {
    return broken(zip->file, "its ZIP64 record is missing");
  }
  ULL__TRY(read_at(zip->file, ull__little64(locator + 8), end, sizeof end));
  if (ull__little32(end) != END64_MAGIC) return broken(zip->file, "its ZIP64 record is missing");
  zip->member_count = ull__little64(end + 32);
  zip->directory_bytes = ull__little64(end + 40);
  zip->directory_offset = ull__little64(end + 48);
  return ULL_OK;
}

ull_status ull__zip_open(const ull__data_file *file, ull__zip *zip) {
  uint8_t end[END_BYTES];
  uint64_t end_offset = 0;
  ULL__TRY(find_end(file, end, &end_offset));
  *zip = (ull__zip){.file = file};
  zip->member_count = ull__little16(end + 10);
  zip->directory_bytes = ull__little32(end + 12);
  zip->directory_offset = ull__little32(end + 16);
  bool needs_zip64 = zip->member_count == 0xffff || zip->directory_bytes == IN_ZIP64 ||
                     zip->directory_offset == IN_ZIP64;
  if (needs_zip64) ULL__TRY(read_zip64(zip, end_offset));
  if (zip->directory_offset > file->bytes ||
      zip->directory_bytes > file->bytes - zip->directory_offset) {
    return broken(file, "its directory lies outside the file");
  }
  return zip->member_count <= MEMBERS_MAX ? ULL_OK : broken(file, "it claims too many members");
}

/* Takes the 64-bit fields that the 32-bit ones point to, in the order the format fixes. */
static ull_status apply_zip64(const ull__zip *zip, const uint8_t *extra, uint64_t extra_bytes,
                              uint64_t *fields[3]) {
  while (extra_bytes >= 4) {
    uint64_t bytes = ull__little16(extra + 2);
    if (bytes > extra_bytes - 4) break;
    const uint8_t *at = extra + 4, *end = at + bytes;
    for (int i = 0; ull__little16(extra) == EXTRA_ZIP64 && i < 3; i++) {
      if (*fields[i] != IN_ZIP64) continue;
      if (end - at < 8) return broken(zip->file, "a ZIP64 size is missing");
      *fields[i] = ull__little64(at);
      at += 8;
    }
    extra += 4 + bytes;
    extra_bytes -= 4 + bytes;
  }
  return ULL_OK;
}

static ull_status locate_data(const ull__zip *zip, ull__zip_member *member, uint64_t local_offset) {
  uint8_t local[LOCAL_BYTES];
  ULL__TRY(read_at(zip->file, local_offset, local, sizeof local));
  if (ull__little32(local) != LOCAL_MAGIC) return broken(zip->file, "a member has no header");
  uint64_t at = local_offset + LOCAL_BYTES + ull__little16(local + 26) + ull__little16(local + 28);
  if (at > zip->file->bytes || member->compressed_bytes > zip->file->bytes - at) {
    return broken(zip->file, "a member reaches past the end");
  }
  member->data = (ull__content){.file = zip->file, .offset = at, .bytes = member->compressed_bytes};
  return ULL_OK;
}

static ull_status check_method(const ull__zip *zip, const ull__zip_member *member, int flags) {
  bool known = member->method == ULL__ZIP_STORED || member->method == ULL__ZIP_DEFLATED;
  if (!known || (flags & FLAG_ENCRYPTED)) {
    ULL__FAIL(ULL_ERROR_UNSUPPORTED, "%s: member '%s' is %s", zip->file->path, member->name,
              known ? "encrypted" : "compressed in a way other than deflate");
    ull__error_holder("%s", zip->file->path);
    return ull__error_change("write it with numpy.savez or numpy.savez_compressed");
  }
  if (member->method == ULL__ZIP_STORED && member->bytes != member->compressed_bytes) {
    return broken(zip->file, "a stored member has two sizes");
  }
  return ULL_OK;
}

static ull_status read_variable_part(ull__zip *zip, const uint8_t *entry, ull__zip_member *member,
                                     uint64_t *local_offset) {
  uint64_t name_bytes = ull__little16(entry + 28), extra_bytes = ull__little16(entry + 30);
  uint64_t at = zip->directory_offset + zip->next + ENTRY_BYTES;
  if (name_bytes > ULL__ZIP_NAME_MAX) return broken(zip->file, "a member's name is too long");
  uint8_t extra[4096];
  if (extra_bytes > sizeof extra) return broken(zip->file, "a member's extra field is too long");
  ULL__TRY(read_at(zip->file, at, member->name, name_bytes));
  ULL__TRY(read_at(zip->file, at + name_bytes, extra, extra_bytes));
  zip->next += ENTRY_BYTES + name_bytes + extra_bytes + ull__little16(entry + 32);
  uint64_t *fields[3] = {&member->bytes, &member->compressed_bytes, local_offset};
  return apply_zip64(zip, extra, extra_bytes, fields);
}

ull_status ull__zip_next(ull__zip *zip, ull__zip_member *member) {
  uint8_t entry[ENTRY_BYTES];
  if (zip->next > zip->directory_bytes || ENTRY_BYTES > zip->directory_bytes - zip->next) {
    return broken(zip->file, "its directory is cut short");
  }
  ULL__TRY(read_at(zip->file, zip->directory_offset + zip->next, entry, sizeof entry));
  if (ull__little32(entry) != ENTRY_MAGIC) return broken(zip->file, "its directory is damaged");
  *member =
      (ull__zip_member){.method = ull__little16(entry + 10), .crc32 = ull__little32(entry + 16)};
  member->compressed_bytes = ull__little32(entry + 20);
  member->bytes = ull__little32(entry + 24);
  uint64_t local_offset = ull__little32(entry + 42);
  ULL__TRY(read_variable_part(zip, entry, member, &local_offset));
  ULL__TRY(check_method(zip, member, ull__little16(entry + 8)));
  return locate_data(zip, member, local_offset);
}
