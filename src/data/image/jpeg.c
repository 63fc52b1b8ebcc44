/* JPEG by libjpeg-turbo: the accurate inverse DCT, smooth upsampling, so that pixels are those of
 * `djpeg -dct int`, whatever part of the picture is asked for.
 *
 * Smooth upsampling looks one sample to each side. Columns are therefore decoded a pixel beyond
 * the region, and trimmed; above, the library itself reads the rows that it needs. One libjpeg
 * object serves all pictures of a reader, and nothing of one is left for the next. */
#include "data/image/jpeg.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

enum {
  EDGE = 1,                /* pixels beyond the region that its upsampling sees */
  LIBRARY_BYTES = 8 << 10, /* at most what a fresh libjpeg object holds (under 3 KiB in 2.1.5) */
  LEAST_WIDTH = 16,        /* of what is decoded: below, the library upsamples by another rule */
  FREE_SCANS = 64,
};

/* A file of a few kilobytes can ask for thousands of passes over a large picture. */
#define MOST_SCANNED_PIXELS (UINT64_C(1) << 30)

static void watch_scans(j_common_ptr common) {
  ull__jpeg *jpeg = common->client_data;
  uint64_t scans = (uint64_t)jpeg->cinfo.input_scan_number;
  uint64_t pixels = (uint64_t)jpeg->cinfo.image_width * jpeg->cinfo.image_height;
  if (scans <= FREE_SCANS || scans * pixels <= MOST_SCANNED_PIXELS) return;
  jpeg->info->verdict = ULL_VERDICT_TOO_BIG;
  jpeg->info->reason = "too many scans";
  ULL__FAIL(ULL_ERROR_DATA, "%s: too many scans", jpeg->input->record->path);
  ull__error_holder("%s", jpeg->input->record->path);
  ull__jpeg_stop(jpeg, ULL_ERROR_DATA);
}

static void destroy(void *state) {
  ull__jpeg *jpeg = state;
  jpeg->cinfo.mem = jpeg->library_memory;
  jpeg_destroy_decompress(&jpeg->cinfo);
  ull__free(jpeg);
}

static ull_status create(void **state) {
  ull__jpeg *jpeg = ull__alloc(1, sizeof *jpeg);
  if (jpeg == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  ull__jpeg_install_errors(jpeg);
  jpeg->cinfo.client_data = jpeg;
  if (setjmp(jpeg->escape) != 0) {
    jpeg_destroy_decompress(&jpeg->cinfo);
    ull__free(jpeg);
    return ULL__FAIL(ULL_ERROR_OUT_OF_MEMORY, "libjpeg cannot be prepared");
  }
  jpeg_create_decompress(&jpeg->cinfo);
  ull__jpeg_install_memory(jpeg);
  ull__jpeg_install_source(jpeg);
  jpeg_set_marker_processor(&jpeg->cinfo, JPEG_APP0 + 1, ull__jpeg_read_app1);
  jpeg->progress.progress_monitor = watch_scans;
  *state = jpeg;
  return ULL_OK;
}

/* Tables outlive a picture in libjpeg; here they do not. */
static void forget_tables(j_decompress_ptr cinfo) {
  memset(cinfo->quant_tbl_ptrs, 0, sizeof cinfo->quant_tbl_ptrs);
  memset(cinfo->dc_huff_tbl_ptrs, 0, sizeof cinfo->dc_huff_tbl_ptrs);
  memset(cinfo->ac_huff_tbl_ptrs, 0, sizeof cinfo->ac_huff_tbl_ptrs);
}

static void close_picture(void *state) {
  ull__jpeg *jpeg = state;
  jpeg_abort_decompress(&jpeg->cinfo);
  jpeg->large = NULL;
  jpeg->large_bytes = 0;
}

static bool is_cmyk(const struct jpeg_decompress_struct *cinfo) {
  return cinfo->jpeg_color_space == JCS_CMYK || cinfo->jpeg_color_space == JCS_YCCK;
}

static void fill_info(const struct jpeg_decompress_struct *cinfo, ull__image_info *info) {
  info->channels = cinfo->num_components;
  info->bits = cinfo->data_precision;
  info->progressive = cinfo->progressive_mode;
  if (is_cmyk(cinfo)) ull__image_note(info, ULL_VERDICT_REPAIRED, "CMYK converted");
}

static ull_status open_picture(ull__image_reader *reader, void *state, ull__image_info *info) {
  ull__jpeg *jpeg = state;
  jpeg->info = info;
  jpeg->input = &reader->input;
  jpeg->small = reader->pool;
  jpeg->small_used = 0;
  jpeg->scanning = jpeg->ended = jpeg->turned_by_exif = false;
  forget_tables(&jpeg->cinfo);
  if (setjmp(jpeg->escape) != 0) return ull__jpeg_failure(reader, jpeg);
  jpeg_read_header(&jpeg->cinfo, TRUE);
  ULL__TRY(ull__image_check_size(reader, info, jpeg->cinfo.image_width, jpeg->cinfo.image_height));
  if (jpeg->cinfo.jpeg_color_space == JCS_UNKNOWN)
    return ull__image_refuse(reader, info, ULL_VERDICT_UNSUPPORTED, "JPEG of unknown colours");
  fill_info(&jpeg->cinfo, info);
  return ULL_OK;
}

static void set_parameters(j_decompress_ptr cinfo, const ull__image_request *request,
                           int reduction) {
  cinfo->out_color_space = is_cmyk(cinfo)           ? JCS_CMYK
                           : request->channels == 1 ? JCS_GRAYSCALE
                                                    : JCS_EXT_RGBX;
  cinfo->dct_method = JDCT_ISLOW;
  cinfo->do_fancy_upsampling = TRUE;
  cinfo->do_block_smoothing = TRUE;
  cinfo->scale_num = 1;
  cinfo->scale_denom = (unsigned)reduction;
  jpeg_calc_output_dimensions(cinfo);
}

static int choose_reduction(int most) {
  return most >= 8 ? 8 : most >= 4 ? 4 : most >= 2 ? 2 : 1;
}

static int divide_up(int value, int by) {
  return (value + by - 1) / by;
}

static ull__rect reduce(const ull__rect *r, int by) {
  int x = r->x / by, y = r->y / by;
  return (ull__rect){x, y, divide_up(r->x + r->width, by) - x, divide_up(r->y + r->height, by) - y};
}

static ull_status prepare(ull__image_reader *reader, void *state, const ull__image_request *request,
                          ull__image_info *info, ull__image_delivery *delivery) {
  ull__jpeg *jpeg = state;
  jpeg->info = info;
  if (setjmp(jpeg->escape) != 0) return ull__jpeg_failure(reader, jpeg);
  int reduction = choose_reduction(request->max_reduction);
  *delivery =
      (ull__image_delivery){.reduction = reduction, .region = reduce(&request->region, reduction)};
  set_parameters(&jpeg->cinfo, request, delivery->reduction);
  delivery->scratch_bytes = ull__jpeg_need(&jpeg->cinfo);
  return ull__image_check_need(reader, info, delivery->scratch_bytes);
}

/* With a component that the inverse DCT itself enlarges in part, the library forgets its scale when
 * columns are left out. */
static bool can_crop(const struct jpeg_decompress_struct *cinfo) {
  for (int c = 0; c < cinfo->num_components; c++) {
    const jpeg_component_info *component = &cinfo->comp_info[c];
    int scale = component->DCT_scaled_size / cinfo->min_DCT_scaled_size;
    bool full_size = component->h_samp_factor * scale == cinfo->max_h_samp_factor &&
                     component->v_samp_factor * scale == cinfo->max_v_samp_factor;
    if (scale != 1 && !full_size) return false;
  }
  return true;
}

/* Leaves out columns beside the region. Returns the first that comes. */
static int crop_columns(j_decompress_ptr cinfo, const ull__rect *region) {
  int width = (int)cinfo->output_width;
  int left = region->x > EDGE ? region->x - EDGE : 0;
  int right = region->x + region->width + EDGE;
  if (right < left + LEAST_WIDTH) right = left + LEAST_WIDTH;
  if (right > width) right = width;
  if (right - left < LEAST_WIDTH) left = right > LEAST_WIDTH ? right - LEAST_WIDTH : 0;
  if ((left == 0 && right == width) || !can_crop(cinfo)) return 0;
  JDIMENSION from = (JDIMENSION)left, count = (JDIMENSION)(right - left);
  jpeg_crop_scanline(cinfo, &from, &count);
  return (int)from;
}

/* What the rows go through on their way to the sink. */
typedef struct output {
  const ull__image_request *request;
  const ull__image_sink *sink;
  ull__rect region;
  int left; /* column of the first decoded pixel */
  JSAMPROW rows[ULL__JPEG_ROWS];
} output;

static ull_status deliver(const ull__jpeg *jpeg, const output *out, int y, uint8_t *row) {
  const struct jpeg_decompress_struct *cinfo = &jpeg->cinfo;
  uint8_t *first = row + (size_t)(out->region.x - out->left) * (size_t)cinfo->out_color_components;
  bool inverted = cinfo->saw_Adobe_marker;
  if (is_cmyk(cinfo) && out->request->channels == 1)
    ull__jpeg_convert_cmyk_to_grey(first, first, out->region.width, inverted);
  else if (is_cmyk(cinfo))
    ull__jpeg_convert_cmyk(first, out->region.width, inverted);
  return out->sink->row(out->sink->context, y, first);
}

static ull_status push_rows(ull__jpeg *jpeg, const output *out) {
  int y = 0;
  while (y < out->region.height) {
    int left = out->region.height - y;
    JDIMENSION want = left < ULL__JPEG_ROWS ? (JDIMENSION)left : ULL__JPEG_ROWS;
    JDIMENSION got = jpeg_read_scanlines(&jpeg->cinfo, (JSAMPARRAY)out->rows, want);
    for (JDIMENSION r = 0; r < got; r++, y++) ULL__TRY(deliver(jpeg, out, y, out->rows[r]));
  }
  return ULL_OK;
}

static void take_rows(ull__jpeg *jpeg, output *out) {
  uint64_t bytes = ull__jpeg_row_bytes(&jpeg->cinfo);
  for (int r = 0; r < ULL__JPEG_ROWS; r++) out->rows[r] = jpeg->large + (uint64_t)r * bytes;
  jpeg->large_used = ULL__JPEG_ROWS * bytes + ULL__SCRATCH_ALIGNMENT;
}

/* Whether any bit of any coefficient was never sent. The library then guesses low frequencies from
 * the blocks around, up to the edges of what is decoded: columns must not be left out. */
static bool is_incomplete(const struct jpeg_decompress_struct *cinfo) {
  if (!cinfo->progressive_mode || cinfo->coef_bits == NULL) return false;
  for (int c = 0; c < cinfo->num_components; c++)
    for (int k = 0; k < DCTSIZE2; k++)
      if (cinfo->coef_bits[c][k] != 0) return true;
  return false;
}

/* The region ends above the picture's bottom: the rest is not decoded, but a file without an end is
 * found all the same. Coded data cannot hold the end's marker, so one anywhere behind will do. */
static ull_status check_end(ull__image_reader *reader, ull__jpeg *jpeg) {
  static const uint8_t end_of_image[2] = {0xff, JPEG_EOI};
  uint64_t behind = jpeg->input->at + jpeg->input->count - jpeg->source.bytes_in_buffer;
  bool found = jpeg->ended;
  if (!found)
    ULL__TRY(
        ull__input_find_last(&reader->input, end_of_image, behind > 8 ? behind - 8 : 0, &found));
  if (!found) ull__image_note(jpeg->info, ULL_VERDICT_TRUNCATED, "premature end of file");
  return ULL_OK;
}

static ull_status finish(ull__image_reader *reader, ull__jpeg *jpeg) {
  if (jpeg->cinfo.output_scanline >= jpeg->cinfo.output_height) {
    jpeg_finish_decompress(&jpeg->cinfo);
    return ULL_OK;
  }
  bool complete = jpeg_input_complete(&jpeg->cinfo);
  jpeg_abort_decompress(&jpeg->cinfo);
  return complete ? ULL_OK : check_end(reader, jpeg);
}

static ull_status run(ull__image_reader *reader, ull__jpeg *jpeg, output *out) {
  j_decompress_ptr cinfo = &jpeg->cinfo;
  take_rows(jpeg, out);
  jpeg->scanning = true;
  cinfo->progress = jpeg_has_multiple_scans(cinfo) ? &jpeg->progress : NULL;
  jpeg_start_decompress(cinfo);
  ull__huffman_take_over(jpeg);
  bool incomplete = is_incomplete(cinfo);
  if (incomplete && jpeg->info->reason[0] == '\0') jpeg->info->reason = "incomplete progression";
  if (!incomplete) out->left = crop_columns(cinfo, &out->region);
  if (out->region.y > 0) jpeg_skip_scanlines(cinfo, (JDIMENSION)out->region.y);
  ULL__TRY(push_rows(jpeg, out));
  return finish(reader, jpeg);
}

static ull_status decode(ull__image_reader *reader, void *state, const ull__image_request *request,
                         const ull__image_delivery *delivery, ull__scratch *scratch,
                         const ull__image_sink *sink, ull__image_info *info) {
  ull__jpeg *jpeg = state;
  output out = {.request = request, .sink = sink, .region = delivery->region};
  jpeg->info = info;
  jpeg->large = ull__scratch_take(scratch, delivery->scratch_bytes);
  jpeg->large_bytes = delivery->scratch_bytes;
  if (jpeg->large == NULL)
    return ULL__FAIL(ULL_ERROR_OUT_OF_MEMORY, "the scratch for pictures is too small");
  if (setjmp(jpeg->escape) != 0) return ull__jpeg_failure(reader, jpeg);
  set_parameters(&jpeg->cinfo, request, delivery->reduction);
  return run(reader, jpeg, &out);
}

const ull__image_codec ull__jpeg_codec = {
    .format = ULL__IMAGE_JPEG,
    .name = "jpeg",
    .state_bytes = sizeof(ull__jpeg) + LIBRARY_BYTES,
    .pool_bytes = ULL__JPEG_SMALL_BYTES,
    .create = create,
    .destroy = destroy,
    .open = open_picture,
    .prepare = prepare,
    .decode = decode,
    .close = close_picture,
};
