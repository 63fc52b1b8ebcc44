/* A header is one block: name, size and kind in fixed places, a sum over it. Kinds 'L' and 'x' are
 * members whose content describes the next one. Everything read is checked before it is used:
 * sizes against 63 bits, names against their room, the sum against the block.
 *
 * Sources: POSIX.1-2017, pax ("ustar Interchange Format", "pax Extended Header"); the GNU tar
 * manual, "Basic Tar Format". */
#include "data/tar/format.h"

#include <string.h>

#include "base/error.h"

enum {
  NAME_AT = 0,
  NAME_BYTES = 100,
  SIZE_AT = 124,
  SIZE_BYTES = 12,
  SUM_AT = 148,
  SUM_BYTES = 8,
  KIND_AT = 156,
  MAGIC_AT = 257,
  PREFIX_AT = 345,
  PREFIX_BYTES = 155,
  RECORD_BLOCKS = 20,
  SPARSE_AT = 482,      /* of a header: whether the map goes on */
  SPARSE_MORE_AT = 504, /* of a block of the map */
};

void ull__tar_begin(ull__tar_reader *reader, ull__tar_read read, void *context) {
  memset(reader, 0, sizeof *reader);
  reader->read = read;
  reader->context = context;
}

/* Octal digits between spaces, or GNU's big endian number behind a set top bit. */
static bool parse_number(const uint8_t *field, size_t count, uint64_t *out) {
  uint64_t value = 0;
  size_t i = 0;
  if (field[0] & 0x80) {
    if (field[0] != 0x80) return false;
    for (i = 1; i < count; i++) {
      if (value >> 55) return false;
      value = value << 8 | field[i];
    }
    *out = value;
    return true;
  }
  while (i < count && field[i] == ' ') i++;
  size_t digits = i;
  for (; i < count && field[i] >= '0' && field[i] <= '7'; i++)
    value = value << 3 | (field[i] - '0');
  if (i < count && field[i] != ' ' && field[i] != '\0') return false;
  *out = value;
  return i > digits || count == digits || field[digits] == '\0';
}

static bool sum_agrees(const uint8_t *block) {
  uint64_t said;
  if (!parse_number(block + SUM_AT, SUM_BYTES, &said)) return false;
  uint64_t plain = 0;
  int64_t with_signs = 0;
  for (int i = 0; i < ULL__TAR_BLOCK; i++) {
    uint8_t byte = i >= SUM_AT && i < SUM_AT + SUM_BYTES ? ' ' : block[i];
    plain += byte;
    with_signs += (int8_t)byte;
  }
  return said == plain || (int64_t)said == with_signs;
}

static bool is_empty(const uint8_t *block) {
  for (int i = 0; i < ULL__TAR_BLOCK; i++) {
    if (block[i] != 0) return false;
  }
  return true;
}

static void copy_field(char *to, const uint8_t *field, size_t bytes) {
  memcpy(to, field, bytes);
  to[bytes] = '\0';
}

static void name_from_header(const uint8_t *block, char *name) {
  char prefix[PREFIX_BYTES + 1], base[NAME_BYTES + 1];
  copy_field(base, block + NAME_AT, NAME_BYTES);
  /* GNU's own format ("ustar  ") keeps times where POSIX keeps the prefix. */
  bool posix = memcmp(block + MAGIC_AT, "ustar\0", 6) == 0;
  copy_field(prefix, block + PREFIX_AT, posix ? PREFIX_BYTES : 0);
  size_t used = strlen(prefix);
  memcpy(name, prefix, used);
  if (used > 0) name[used++] = '/';
  memcpy(name + used, base, strlen(base) + 1);
}

static ull_status stop(ull__tar_reader *reader, ull__tar_end end, bool *found) {
  reader->end = end;
  *found = false;
  return ULL_OK;
}

static bool is_word(const char *text, size_t bytes, const char *word) {
  return bytes == strlen(word) && memcmp(text, word, bytes) == 0;
}

static bool take_name_value(ull__tar_reader *reader, const char *value, size_t bytes) {
  if (bytes >= sizeof reader->long_name || memchr(value, '\0', bytes)) return false;
  memcpy(reader->long_name, value, bytes);
  reader->long_name[bytes] = '\0';
  reader->has_long_name = true;
  return true;
}

/* One pax record, "LENGTH NAME=VALUE\n"; false where it makes no sense. */
static bool take_record(ull__tar_reader *reader, const char *record, size_t bytes) {
  const char *name = memchr(record, ' ', bytes);
  if (name == NULL || record[bytes - 1] != '\n') return false;
  name++;
  size_t left = bytes - 1 - (size_t)(name - record);
  const char *value = memchr(name, '=', left);
  if (value == NULL) return false;
  size_t name_bytes = (size_t)(value - name), value_bytes = left - name_bytes - 1;
  value++;
  if (is_word(name, name_bytes, "path"))
    return reader->is_sparse || take_name_value(reader, value, value_bytes);
  if (is_word(name, name_bytes, "GNU.sparse.name")) {
    reader->is_sparse = true;
    return take_name_value(reader, value, value_bytes);
  }
  if (is_word(name, name_bytes, "size")) {
    reader->long_size = 0;
    for (size_t i = 0; i < value_bytes; i++) {
      if (value[i] < '0' || value[i] > '9' || reader->long_size >> 59) return false;
      reader->long_size = reader->long_size * 10 + (uint64_t)(value[i] - '0');
    }
    reader->has_long_size = value_bytes > 0;
  } else if (name_bytes > 11 && memcmp(name, "GNU.sparse.", 11) == 0) {
    reader->is_sparse = true;
  }
  return true;
}

static bool take_pax(ull__tar_reader *reader, const char *text, size_t bytes) {
  while (bytes > 0 && text[0] != '\0') {
    size_t length = 0;
    for (size_t i = 0; i < bytes && text[i] >= '0' && text[i] <= '9'; i++) {
      length = length * 10 + (size_t)(text[i] - '0');
      if (length > bytes) return false;
    }
    if (length < 5 || !take_record(reader, text, length)) return false;
    text += length;
    bytes -= length;
  }
  return true;
}

static bool take_long_name(ull__tar_reader *reader, const char *text, size_t bytes) {
  size_t length = strnlen(text, bytes);
  if (length >= sizeof reader->long_name) return false;
  memcpy(reader->long_name, text, length);
  reader->long_name[length] = '\0';
  reader->has_long_name = true;
  return true;
}

static ull_status take_extension(ull__tar_reader *reader, const ull__tar_member *member, char kind,
                                 bool *found) {
  char *text = reader->extension;
  size_t got;
  if (member->bytes > sizeof reader->extension) return stop(reader, ULL__TAR_DAMAGED, found);
  ULL__TRY(ull__tar_content(reader, member, text, (size_t)member->bytes, &got));
  if (got < member->bytes) return stop(reader, ULL__TAR_CUT, found);
  bool sound = kind == 'x'   ? take_pax(reader, text, got)
               : kind == 'L' ? take_long_name(reader, text, got)
                             : true;
  if (!sound) return stop(reader, ULL__TAR_DAMAGED, found);
  *found = true;
  return ULL_OK;
}

/* Puts what extensions said in the place of what the header says. */
static void apply_extensions(ull__tar_reader *reader, ull__tar_member *member) {
  if (reader->has_long_name) memcpy(member->name, reader->long_name, sizeof member->name);
  if (reader->has_long_size) member->bytes = reader->long_size;
  member->indirect = reader->is_sparse;
  reader->has_long_name = reader->has_long_size = reader->is_sparse = false;
}

static bool is_extension(char kind) {
  return kind == 'x' || kind == 'g' || kind == 'L' || kind == 'K';
}

static ull_status parse_header(ull__tar_reader *reader, size_t got, ull__tar_member *member,
                               char *kind, bool *found) {
  const uint8_t *block = reader->first;
  uint64_t bytes;
  if (!sum_agrees(block) || !parse_number(block + SIZE_AT, SIZE_BYTES, &bytes))
    return stop(reader, ULL__TAR_DAMAGED, found);
  *kind = (char)block[KIND_AT];
  name_from_header(block, member->name);
  member->bytes = bytes;
  member->indirect = false;
  if (!is_extension(*kind)) apply_extensions(reader, member);
  member->indirect |= *kind == '1' || *kind == '2' || *kind == 'S';
  member->regular = !member->indirect && (*kind == '0' || *kind == '\0' || *kind == '7');
  /* Links and folders have no content, whatever their size says. */
  if (*kind >= '1' && *kind <= '6') member->bytes = 0;
  if (member->bytes > INT64_MAX / 4 || reader->at > INT64_MAX / 4)
    return stop(reader, ULL__TAR_DAMAGED, found);
  member->offset = reader->at + ULL__TAR_BLOCK;
  member->begin = block + ULL__TAR_BLOCK;
  member->begin_bytes = got - ULL__TAR_BLOCK;
  if (member->begin_bytes > member->bytes) member->begin_bytes = (size_t)member->bytes;
  reader->at =
      member->offset + (member->bytes + ULL__TAR_BLOCK - 1) / ULL__TAR_BLOCK * ULL__TAR_BLOCK;
  *found = true;
  return ULL_OK;
}

/* The map of an old sparse file goes on in blocks between header and content. */
static ull_status skip_map(ull__tar_reader *reader, ull__tar_member *member) {
  bool goes_on = reader->first[SPARSE_AT] != 0;
  while (goes_on) {
    size_t got;
    ULL__TRY(reader->read(reader->context, member->offset, reader->first, ULL__TAR_BLOCK, &got));
    if (got < ULL__TAR_BLOCK) return ULL_OK;
    goes_on = reader->first[SPARSE_MORE_AT] != 0;
    member->offset += ULL__TAR_BLOCK;
    reader->at += ULL__TAR_BLOCK;
  }
  return ULL_OK;
}

/* Behind the end mark: archives are filled up to records of 20 blocks. */
static ull_status look_behind_end(ull__tar_reader *reader, bool *found) {
  for (uint64_t at = reader->at + ULL__TAR_BLOCK, i = 0; i <= 2 * RECORD_BLOCKS; i++) {
    size_t got;
    ULL__TRY(reader->read(reader->context, at, reader->first, ULL__TAR_BLOCK, &got));
    if (got < ULL__TAR_BLOCK) break;
    if (!is_empty(reader->first)) return stop(reader, ULL__TAR_MORE, found);
    at += ULL__TAR_BLOCK;
  }
  return stop(reader, ULL__TAR_ENDED, found);
}

static ull_status end_here(ull__tar_reader *reader, size_t got, bool *found) {
  if (got == 0) return stop(reader, ULL__TAR_NO_MARK, found);
  if (got < ULL__TAR_BLOCK) return stop(reader, ULL__TAR_CUT, found);
  bool lone = got >= 2 * ULL__TAR_BLOCK && !is_empty(reader->first + ULL__TAR_BLOCK);
  return lone ? stop(reader, ULL__TAR_DAMAGED, found) : look_behind_end(reader, found);
}

ull_status ull__tar_next(ull__tar_reader *reader, ull__tar_member *member, bool *found) {
  for (;;) {
    size_t got;
    char kind;
    ULL__TRY(reader->read(reader->context, reader->at, reader->first, sizeof reader->first, &got));
    if (got < ULL__TAR_BLOCK || is_empty(reader->first)) return end_here(reader, got, found);
    ULL__TRY(parse_header(reader, got, member, &kind, found));
    if (*found && kind == 'S') return skip_map(reader, member);
    if (!*found || !is_extension(kind)) return ULL_OK;
    ULL__TRY(take_extension(reader, member, kind, found));
    if (!*found) return ULL_OK;
  }
}

ull_status ull__tar_content(ull__tar_reader *reader, const ull__tar_member *member, void *to,
                            size_t bytes, size_t *got) {
  if (bytes > member->bytes) bytes = (size_t)member->bytes;
  if (bytes > member->begin_bytes && member->begin_bytes == ULL__TAR_BLOCK) {
    memcpy(to, member->begin, ULL__TAR_BLOCK);
    ULL__TRY(reader->read(reader->context, member->offset + ULL__TAR_BLOCK,
                          (uint8_t *)to + ULL__TAR_BLOCK, bytes - ULL__TAR_BLOCK, got));
    *got += ULL__TAR_BLOCK;
    return ULL_OK;
  }
  *got = bytes < member->begin_bytes ? bytes : member->begin_bytes;
  memcpy(to, member->begin, *got);
  return ULL_OK;
}
