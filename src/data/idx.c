/* `idx:DIR`: the files of MNIST and its relatives. Big endian header (magic 0 0 type rank, one
 * 32-bit extent a dimension), then the elements. Only unsigned bytes occur in practice and are
 * read.
 *
 * A plain file is read in place. A gzip file is decompressed into memory once, and only as far as
 * its header says: the size is checked against what deflate can produce before anything is
 * allocated. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"
#include "data/inflate.h"
#include "data/stored.h"

enum { TYPE_UINT8 = 0x08, HEADER_MAX = 4 + 4 * 8, IMAGES_RANK = 3, LABELS_RANK = 1 };

typedef struct idx_header {
  int rank;
  uint64_t extents[8];
  uint64_t header_bytes;
  uint64_t data_bytes;
} idx_header;

/* Where the bytes come from while the header is read: the file itself, or its decompressed form. */
typedef struct idx_reader {
  const char *path;
  ull__content raw;
  ull__inflater *inflater; /* NULL: plain */
  uint64_t position;
} idx_reader;

static ull_status bad_file(const char *path) {
  ull__error_holder("%s", path);
  return ull__error_change("fetch the file again");
}

static ull_status read_some(idx_reader *reader, void *to, uint64_t count, uint64_t *got) {
  if (reader->inflater != NULL) return ull__inflater_read(reader->inflater, to, count, got);
  uint64_t left = reader->raw.bytes - reader->position;
  *got = count < left ? count : left;
  ULL__TRY(ull__content_read(&reader->raw, reader->position, to, *got));
  reader->position += *got;
  return ULL_OK;
}

static ull_status read_header_bytes(idx_reader *reader, void *to, uint64_t count) {
  uint64_t got;
  ULL__TRY(read_some(reader, to, count, &got));
  if (got == count) return ULL_OK;
  ULL__FAIL(ULL_ERROR_DATA, "%s: is truncated: it ends inside the header", reader->path);
  return bad_file(reader->path);
}

static ull_status check_magic(const char *path, const uint8_t *magic, int rank) {
  if (magic[0] != 0 || magic[1] != 0) {
    ULL__FAIL(ULL_ERROR_DATA, "%s: is not an IDX file: it begins with %02x%02x%02x%02x", path,
              magic[0], magic[1], magic[2], magic[3]);
    return bad_file(path);
  }
  if (magic[2] != TYPE_UINT8) {
    ULL__FAIL(ULL_ERROR_UNSUPPORTED,
              "%s: has elements of IDX type 0x%02x; only unsigned bytes (0x08)"
              " are read",
              path, magic[2]);
    ull__error_holder("%s", path);
    return ull__error_change("convert it to an npz file");
  }
  if (magic[3] != rank) {
    ULL__FAIL(ULL_ERROR_DATA, "%s: has %d dimensions; %s need %d", path, magic[3],
              rank == IMAGES_RANK ? "images" : "labels", rank);
    return bad_file(path);
  }
  return ULL_OK;
}

static ull_status read_header(idx_reader *reader, int rank, idx_header *header) {
  uint8_t bytes[HEADER_MAX];
  ULL__TRY(read_header_bytes(reader, bytes, 4));
  ULL__TRY(check_magic(reader->path, bytes, rank));
  ULL__TRY(read_header_bytes(reader, bytes + 4, 4 * (uint64_t)rank));
  *header = (idx_header){.rank = rank, .header_bytes = 4 + 4 * (uint64_t)rank, .data_bytes = 1};
  for (int i = 0; i < rank; i++) {
    header->extents[i] = ull__big32(bytes + 4 + 4 * i);
    ull_status status =
        ull__size_mul(header->data_bytes, header->extents[i], reader->path, &header->data_bytes);
    if (status != ULL_OK) {
      ULL__FAIL(ULL_ERROR_DATA, "%s: the extents in its header multiply beyond 63 bits",
                reader->path);
      return bad_file(reader->path);
    }
  }
  if (header->data_bytes > 0) return ULL_OK;
  ULL__FAIL(ULL_ERROR_DATA, "%s: is empty: its header has an extent of 0", reader->path);
  return bad_file(reader->path);
}

static ull_status wrong_length(const char *path, const idx_header *header, uint64_t found,
                               bool longer) {
  ULL__FAIL(ULL_ERROR_DATA,
            "%s: its header promises %" PRIu64 " bytes of %" PRIu64
            " samples, but it has %s%" PRIu64,
            path, header->data_bytes, header->extents[0], longer ? "more than " : "only ", found);
  ull__error_bytes(header->data_bytes, found);
  return bad_file(path);
}

static ull_status load_plain(idx_reader *reader, const idx_header *header,
                             ull__stored_array *array) {
  uint64_t present = reader->raw.bytes - header->header_bytes;
  if (present != header->data_bytes) {
    bool longer = present > header->data_bytes;
    return wrong_length(reader->path, header, longer ? header->data_bytes : present, longer);
  }
  array->content = reader->raw;
  array->data_offset = header->header_bytes;
  return ULL_OK;
}

static ull_status inflate_data(idx_reader *reader, const idx_header *header, uint8_t *memory) {
  uint64_t got, extra;
  uint8_t byte;
  ULL__TRY(read_some(reader, memory, header->data_bytes, &got));
  if (got < header->data_bytes) return wrong_length(reader->path, header, got, false);
  ULL__TRY(read_some(reader, &byte, 1, &extra));
  return extra ? wrong_length(reader->path, header, got, true) : ULL_OK;
}

static ull_status load_gzip(ull_source *source, const ull_source_options *options,
                            idx_reader *reader, const idx_header *header,
                            ull__stored_array *array) {
  if (!ull__inflate_is_possible(reader->raw.bytes, header->data_bytes)) {
    ULL__FAIL(ULL_ERROR_DATA,
              "%s: its header promises %" PRIu64 " bytes, more than %" PRIu64
              " compressed bytes can hold",
              reader->path, header->data_bytes, reader->raw.bytes);
    ull__error_bytes(header->data_bytes, reader->raw.bytes);
    return bad_file(reader->path);
  }
  ULL__TRY(ull__source_hold(source, options, reader->path, header->data_bytes));
  array->content = (ull__content){.file = reader->raw.file, .bytes = header->data_bytes};
  array->content.memory = ull__alloc_aligned(64, header->data_bytes);
  if (array->content.memory == NULL) return ull_error_last()->status;
  return inflate_data(reader, header, array->content.memory);
}

static ull_status load_reader(ull_source *source, const ull_source_options *options,
                              idx_reader *reader, int rank, idx_header *header,
                              ull__stored_array *array) {
  ULL__TRY(read_header(reader, rank, header));
  return reader->inflater == NULL ? load_plain(reader, header, array)
                                  : load_gzip(source, options, reader, header, array);
}

static ull_status load_compressed(ull_source *source, const ull_source_options *options,
                                  idx_reader *reader, int rank, idx_header *header,
                                  ull__stored_array *array) {
  ull__inflater *inflater = ull__alloc(1, sizeof *inflater);
  if (inflater == NULL) return ull_error_last()->status;
  ull_status status = ull__inflater_open(inflater, &reader->raw, ULL__FORMAT_GZIP);
  if (status == ULL_OK) {
    reader->inflater = inflater;
    status = load_reader(source, options, reader, rank, header, array);
    ull__inflater_close(inflater);
  }
  ull__free(inflater);
  return status;
}

static ull_status load_file(ull_source *source, const ull_source_options *options, const char *path,
                            int rank, idx_header *header) {
  ull__stored *stored = source->state;
  ull__stored_array *array = &stored->arrays[source->array_count];
  ull__data_file *file;
  ULL__TRY(ull__stored_open_file(source, path, &file));
  idx_reader reader = {.path = file->path, .raw = {.file = file, .bytes = file->bytes}};
  if (ull__is_gzip(&reader.raw)) {
    return load_compressed(source, options, &reader, rank, header, array);
  }
  return load_reader(source, options, &reader, rank, header, array);
}

static ull_status find_file(const char *folder, const char *prefix, const char *what, int rank,
                            char **path) {
  for (int i = 0; i < 4; i++) {
    char separator = i < 2 ? '-' : '.';
    *path = ull__format("%s/%s-%s%cidx%d-ubyte%s", folder, prefix, what, separator, rank,
                        i % 2 ? ".gz" : "");
    if (*path == NULL) return ull_error_last()->status;
    if (access(*path, F_OK) == 0) return ULL_OK;
    ull__free(*path);
  }
  ULL__FAIL(ULL_ERROR_DATA, "%s: has neither %s-%s-idx%d-ubyte nor %s-%s-idx%d-ubyte.gz", folder,
            prefix, what, rank, prefix, what, rank);
  ull__error_holder("--data idx:%s", folder);
  return ull__error_change("give the folder that holds the four IDX files");
}

static ull_status load_part(ull_source *source, const char *folder,
                            const ull_source_options *options, bool labels, idx_header *header) {
  bool from_training = options->split == ULL_SPLIT_TRAIN || options->val_split > 0;
  int rank = labels ? LABELS_RANK : IMAGES_RANK;
  char *path = NULL;
  ULL__TRY(find_file(folder, from_training ? "train" : "t10k", labels ? "labels" : "images", rank,
                     &path));
  ull_status status = load_file(source, options, path, rank, header);
  ull__free(path);
  return status;
}

static ull_status open_idx(ull_source *source, const char *folder,
                           const ull_source_options *options) {
  idx_header images, labels;
  ULL__TRY(ull__stored_create(source));
  source->has_evaluation = true;
  ULL__TRY(load_part(source, folder, options, false, &images));
  int64_t shape[3] = {1, (int64_t)images.extents[1], (int64_t)images.extents[2]};
  ULL__TRY(ull__source_add_array(source, "image", ULL_UINT8, 3, shape));
  ULL__TRY(ull__stored_agree(source, folder, "image", images.extents[0]));
  ULL__TRY(load_part(source, folder, options, true, &labels));
  ULL__TRY(ull__source_add_array(source, "label", ULL_UINT8, 0, NULL));
  return ull__stored_agree(source, folder, "label", labels.extents[0]);
}

const ull__source_kind ull__source_idx = {
    .scheme = "idx",
    .argument = "DIR",
    .open = open_idx,
    .read = ull__stored_read,
    .training_decides = true,
    .close = ull__stored_close,
};
