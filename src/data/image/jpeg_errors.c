/* What libjpeg complains about, as verdicts. Its warnings are the only sign of damage that decodes:
 * each is classed by what it says about the pixels. */
#include "base/error.h"
#include "data/image/jpeg.h"

typedef struct meaning {
  int code;
  ull_verdict verdict;
  const char *reason;
} meaning;

static const meaning warnings[] = {
    {JWRN_JPEG_EOF, ULL_VERDICT_TRUNCATED, "premature end of file"},
    {JWRN_HIT_MARKER, ULL_VERDICT_DAMAGED, "premature end of the coded data"},
    {JWRN_HUFF_BAD_CODE, ULL_VERDICT_DAMAGED, "bad Huffman code"},
    {JWRN_ARITH_BAD_CODE, ULL_VERDICT_DAMAGED, "bad arithmetic code"},
    {JWRN_BOGUS_PROGRESSION, ULL_VERDICT_DAMAGED, "scans in an impossible order"},
    {JWRN_MUST_RESYNC, ULL_VERDICT_DAMAGED, "a restart marker is missing"},
    {JWRN_EXTRANEOUS_DATA, ULL_VERDICT_WARNED, "junk before a marker"},
    {JWRN_NOT_SEQUENTIAL, ULL_VERDICT_WARNED, "odd parameters of a sequential scan"},
    {JWRN_ADOBE_XFORM, ULL_VERDICT_WARNED, "unknown colour transform in the Adobe marker"},
    {JWRN_JFIF_MAJOR, ULL_VERDICT_WARNED, "unknown revision of JFIF"},
    {JWRN_BOGUS_ICC, ULL_VERDICT_WARNED, "malformed colour profile"},
};

static const meaning failures[] = {
    {JERR_NO_SOI, ULL_VERDICT_NOT_AN_IMAGE, "not a picture"},
    {JERR_BAD_PRECISION, ULL_VERDICT_UNSUPPORTED, "JPEG with other than 8 bits a sample"},
    {JERR_SOF_UNSUPPORTED, ULL_VERDICT_UNSUPPORTED, "lossless or hierarchical JPEG"},
    {JERR_EMPTY_IMAGE, ULL_VERDICT_UNSUPPORTED, "a side of no pixels (DNL is not read)"},
    {JERR_CONVERSION_NOTIMPL, ULL_VERDICT_UNSUPPORTED, "JPEG of unknown colours"},
    {JERR_FRACT_SAMPLE_NOTIMPL, ULL_VERDICT_UNSUPPORTED, "JPEG with fractional sampling factors"},
    {JERR_CCIR601_NOTIMPL, ULL_VERDICT_UNSUPPORTED, "JPEG with CCIR 601 sampling"},
    {JERR_IMAGE_TOO_BIG, ULL_VERDICT_TOO_BIG, "a side above 65,500 pixels"},
    {JERR_WIDTH_OVERFLOW, ULL_VERDICT_TOO_BIG, "too wide"},
    {JERR_NO_IMAGE, ULL_VERDICT_DAMAGED, "no picture inside"},
    {JERR_SOF_NO_SOS, ULL_VERDICT_DAMAGED, "no scan inside"},
    {JERR_SOS_NO_SOF, ULL_VERDICT_DAMAGED, "a scan before the frame's header"},
    {JERR_SOF_DUPLICATE, ULL_VERDICT_DAMAGED, "two frame headers"},
    {JERR_SOI_DUPLICATE, ULL_VERDICT_DAMAGED, "a second picture begins inside"},
    {JERR_BAD_HUFF_TABLE, ULL_VERDICT_DAMAGED, "bad Huffman table"},
    {JERR_NO_HUFF_TABLE, ULL_VERDICT_DAMAGED, "a Huffman table is missing"},
    {JERR_NO_ARITH_TABLE, ULL_VERDICT_DAMAGED, "an arithmetic table is missing"},
    {JERR_NO_QUANT_TABLE, ULL_VERDICT_DAMAGED, "a quantisation table is missing"},
    {JERR_DHT_INDEX, ULL_VERDICT_DAMAGED, "bad Huffman table"},
    {JERR_DQT_INDEX, ULL_VERDICT_DAMAGED, "bad quantisation table"},
    {JERR_DAC_INDEX, ULL_VERDICT_DAMAGED, "bad arithmetic table"},
    {JERR_DAC_VALUE, ULL_VERDICT_DAMAGED, "bad arithmetic table"},
    {JERR_BAD_LENGTH, ULL_VERDICT_DAMAGED, "bad length of a segment"},
    {JERR_BAD_COMPONENT_ID, ULL_VERDICT_DAMAGED, "a scan of an unknown component"},
    {JERR_BAD_PROGRESSION, ULL_VERDICT_DAMAGED, "bad parameters of a progressive scan"},
    {JERR_BAD_SAMPLING, ULL_VERDICT_DAMAGED, "bad sampling factors"},
    {JERR_BAD_MCU_SIZE, ULL_VERDICT_DAMAGED, "sampling factors too large for one scan"},
    {JERR_COMPONENT_COUNT, ULL_VERDICT_DAMAGED, "too many components"},
    {JERR_UNKNOWN_MARKER, ULL_VERDICT_DAMAGED, "a marker of unknown kind"},
    {JERR_EOI_EXPECTED, ULL_VERDICT_DAMAGED, "more scans than announced"},
};

static const meaning *find(const meaning *table, size_t count, int code) {
  for (size_t i = 0; i < count; i++)
    if (table[i].code == code) return &table[i];
  return NULL;
}

static ull__jpeg *jpeg_of(j_common_ptr cinfo) {
  return cinfo->client_data;
}

/* Bytes left over in front of a marker: harmless among the headers; in a scan they are coded data
 * that was not understood. */
static ull_verdict class_of(const ull__jpeg *jpeg, const meaning *m) {
  return m->code == JWRN_EXTRANEOUS_DATA && jpeg->scanning ? ULL_VERDICT_DAMAGED : m->verdict;
}

static void note(j_common_ptr cinfo, int level) {
  ull__jpeg *jpeg = jpeg_of(cinfo);
  if (level >= 0) return; /* tracing */
  cinfo->err->num_warnings++;
  const meaning *m = find(warnings, sizeof warnings / sizeof warnings[0], cinfo->err->msg_code);
  if (m == NULL)
    ull__image_note(jpeg->info, ULL_VERDICT_WARNED, "an unknown complaint of the decoder");
  else
    ull__image_note(jpeg->info, class_of(jpeg, m), m->reason);
}

static void leave(j_common_ptr cinfo) {
  ull__jpeg *jpeg = jpeg_of(cinfo);
  jpeg->stopped = ULL_OK;
  longjmp(jpeg->escape, 1);
}

static void print_nothing(j_common_ptr cinfo) {
  (void)cinfo;
}

static void format_nothing(j_common_ptr cinfo, char *buffer) {
  (void)cinfo;
  buffer[0] = '\0';
}

void ull__jpeg_stop(ull__jpeg *jpeg, ull_status status) {
  jpeg->stopped = status;
  longjmp(jpeg->escape, 1);
}

void ull__jpeg_install_errors(ull__jpeg *jpeg) {
  jpeg->cinfo.err = jpeg_std_error(&jpeg->errors);
  jpeg->errors.error_exit = leave;
  jpeg->errors.emit_message = note;
  jpeg->errors.output_message = print_nothing;
  jpeg->errors.format_message = format_nothing;
}

ull_status ull__jpeg_failure(ull__image_reader *reader, ull__jpeg *jpeg) {
  ull__image_info *info = jpeg->info;
  if (jpeg->stopped == ULL_ERROR_IO) {
    info->verdict = ULL_VERDICT_UNREADABLE;
    info->reason = "cannot be read";
  }
  if (jpeg->stopped != ULL_OK) return jpeg->stopped;
  int code = jpeg->errors.msg_code;
  if (code == JERR_OUT_OF_MEMORY)
    return ULL__FAIL(ULL_ERROR_INTERNAL, "%s: the decoder took more than was foreseen",
                     reader->input.record->path);
  const meaning *m = find(failures, sizeof failures / sizeof failures[0], code);
  ull_verdict verdict = m != NULL ? m->verdict : ULL_VERDICT_DAMAGED;
  const char *reason = m != NULL ? m->reason : "malformed";
  if (verdict == ULL_VERDICT_DAMAGED && jpeg->ended)
    return ull__image_refuse(reader, info, ULL_VERDICT_TRUNCATED, "premature end of file");
  return ull__image_refuse(reader, info, verdict, reason);
}
