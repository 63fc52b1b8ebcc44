/* Memory for libjpeg: small objects from the fixed pool, arrays from one block of scratch whose
 * size is known before it is taken. Virtual arrays are kept whole. Nothing is given back but all at
 * once, also what the library calls permanent: tables of one picture must not decode the next. */
#include <string.h>

#include "data/image/jpeg.h"

/* As wide as the widest vector of the library's loops, twice, as its own arrays have it. */
enum { ALIGNMENT = ULL__SCRATCH_ALIGNMENT, TAIL = ULL__SCRATCH_ALIGNMENT };

struct jvirt_barray_control {
  JBLOCKARRAY rows;
  JDIMENSION row_count, blocks_per_row;
  boolean zeroed;
  struct jvirt_barray_control *next;
};

static uint64_t round_up(uint64_t bytes) {
  return (bytes + (ALIGNMENT - 1)) & ~(uint64_t)(ALIGNMENT - 1);
}

static uint64_t pointer_bytes(uint64_t rows) {
  return round_up(rows * sizeof(void *));
}

uint64_t ull__jpeg_sample_array_bytes(uint64_t samples_per_row, uint64_t rows) {
  return pointer_bytes(rows) + rows * round_up(samples_per_row) + TAIL;
}

uint64_t ull__jpeg_block_array_bytes(uint64_t blocks_per_row, uint64_t rows) {
  return pointer_bytes(rows) + round_up(rows * blocks_per_row * sizeof(JBLOCK));
}

static ull__jpeg *jpeg_of(j_common_ptr cinfo) {
  return cinfo->client_data;
}

static void *take_small(j_common_ptr cinfo, int pool, size_t bytes) {
  ull__jpeg *jpeg = jpeg_of(cinfo);
  size_t rounded = (bytes + 31) & ~(size_t)31;
  (void)pool;
  if (bytes > ULL__JPEG_SMALL_BYTES || rounded > ULL__JPEG_SMALL_BYTES - jpeg->small_used)
    ERREXIT1(cinfo, JERR_OUT_OF_MEMORY, 1);
  void *taken = jpeg->small + jpeg->small_used;
  jpeg->small_used += rounded;
  return taken;
}

static void *take_large(j_common_ptr cinfo, uint64_t bytes) {
  ull__jpeg *jpeg = jpeg_of(cinfo);
  uint64_t rounded = round_up(bytes);
  if (rounded > jpeg->large_bytes - jpeg->large_used) ERREXIT1(cinfo, JERR_OUT_OF_MEMORY, 2);
  void *taken = jpeg->large + jpeg->large_used;
  jpeg->large_used += rounded;
  return taken;
}

static JSAMPARRAY take_sample_array(j_common_ptr cinfo, int pool, JDIMENSION samples,
                                    JDIMENSION rows) {
  (void)pool;
  uint64_t stride = round_up(samples);
  JSAMPARRAY array = take_large(cinfo, pointer_bytes(rows));
  JSAMPROW row = take_large(cinfo, rows * stride + TAIL);
  for (JDIMENSION r = 0; r < rows; r++) array[r] = row + r * stride;
  return array;
}

static JBLOCKARRAY take_block_array(j_common_ptr cinfo, int pool, JDIMENSION blocks,
                                    JDIMENSION rows) {
  (void)pool;
  JBLOCKARRAY array = take_large(cinfo, pointer_bytes(rows));
  JBLOCKROW row = take_large(cinfo, (uint64_t)rows * blocks * sizeof(JBLOCK));
  for (JDIMENSION r = 0; r < rows; r++) array[r] = row + (uint64_t)r * blocks;
  return array;
}

static jvirt_barray_ptr request_blocks(j_common_ptr cinfo, int pool, boolean zeroed,
                                       JDIMENSION blocks, JDIMENSION rows, JDIMENSION most) {
  ull__jpeg *jpeg = jpeg_of(cinfo);
  (void)most;
  jvirt_barray_ptr array = take_small(cinfo, pool, sizeof *array);
  *array = (struct jvirt_barray_control){
      .row_count = rows, .blocks_per_row = blocks, .zeroed = zeroed, .next = jpeg->arrays};
  jpeg->arrays = array;
  return array;
}

static jvirt_sarray_ptr request_samples(j_common_ptr cinfo, int pool, boolean zeroed,
                                        JDIMENSION samples, JDIMENSION rows, JDIMENSION most) {
  (void)pool, (void)zeroed, (void)samples, (void)rows, (void)most;
  ERREXIT(cinfo, JERR_NOT_COMPILED); /* only colour quantisation asks for them */
  return NULL;
}

static JSAMPARRAY see_samples(j_common_ptr cinfo, jvirt_sarray_ptr array, JDIMENSION start,
                              JDIMENSION rows, boolean writable) {
  (void)array, (void)start, (void)rows, (void)writable;
  ERREXIT(cinfo, JERR_BAD_VIRTUAL_ACCESS);
  return NULL;
}

static void realise(j_common_ptr cinfo) {
  ull__jpeg *jpeg = jpeg_of(cinfo);
  for (jvirt_barray_ptr a = jpeg->arrays; a != NULL; a = a->next) {
    a->rows = take_block_array(cinfo, JPOOL_IMAGE, a->blocks_per_row, a->row_count);
    if (a->zeroed && a->row_count > 0)
      memset(a->rows[0], 0, (size_t)a->row_count * a->blocks_per_row * sizeof(JBLOCK));
  }
  jpeg->arrays = NULL;
}

static JBLOCKARRAY see_blocks(j_common_ptr cinfo, jvirt_barray_ptr array, JDIMENSION start,
                              JDIMENSION rows, boolean writable) {
  (void)writable;
  if (array->rows == NULL || rows > array->row_count || start > array->row_count - rows)
    ERREXIT(cinfo, JERR_BAD_VIRTUAL_ACCESS);
  return array->rows + start;
}

static void *take_large_object(j_common_ptr cinfo, int pool, size_t bytes) {
  return take_small(cinfo, pool, bytes);
}

static void free_pool(j_common_ptr cinfo, int pool) {
  ull__jpeg *jpeg = jpeg_of(cinfo);
  (void)pool;
  jpeg->small_used = jpeg->large_used = 0;
  jpeg->arrays = NULL;
}

static void self_destruct(j_common_ptr cinfo) {
  (void)cinfo;
}

void ull__jpeg_install_memory(ull__jpeg *jpeg) {
  jpeg->library_memory = jpeg->cinfo.mem;
  jpeg->memory = (struct jpeg_memory_mgr){
      .alloc_small = take_small,
      .alloc_large = take_large_object,
      .alloc_sarray = take_sample_array,
      .alloc_barray = take_block_array,
      .request_virt_sarray = request_samples,
      .request_virt_barray = request_blocks,
      .realize_virt_arrays = realise,
      .access_virt_sarray = see_samples,
      .access_virt_barray = see_blocks,
      .free_pool = free_pool,
      .self_destruct = self_destruct,
  };
  jpeg->cinfo.mem = &jpeg->memory;
}

/* ---- the need, before anything is taken ---- */

static uint64_t multiple(uint64_t value, int of) {
  return (value + (uint64_t)of - 1) / (uint64_t)of * (uint64_t)of;
}

/* The coefficients of the whole picture, where rows cannot be finished one after the other. */
static uint64_t coefficient_bytes(const struct jpeg_decompress_struct *cinfo) {
  uint64_t bytes = 0;
  for (int c = 0; c < cinfo->num_components; c++) {
    const jpeg_component_info *component = &cinfo->comp_info[c];
    bytes += ull__jpeg_block_array_bytes(
        multiple(component->width_in_blocks, component->h_samp_factor),
        multiple(component->height_in_blocks, component->v_samp_factor));
  }
  return bytes;
}

static bool is_needed(const struct jpeg_decompress_struct *cinfo, int component) {
  return cinfo->out_color_space != JCS_GRAYSCALE || cinfo->jpeg_color_space == JCS_RGB ||
         component == 0;
}

/* How one component is brought to full size, as libjpeg's upsampler decides. */
typedef struct upsampling {
  int h_in, v_in;
  bool full_size, context;
} upsampling;

static upsampling upsampling_of(const struct jpeg_decompress_struct *cinfo, int c) {
  const jpeg_component_info *component = &cinfo->comp_info[c];
  int least = cinfo->min_DCT_scaled_size;
  bool fancy = cinfo->do_fancy_upsampling && least > 1;
  upsampling u = {.h_in = component->h_samp_factor * component->DCT_scaled_size / least,
                  .v_in = component->v_samp_factor * component->DCT_scaled_size / least};
  bool same_width = u.h_in == cinfo->max_h_samp_factor;
  bool half_width = u.h_in * 2 == cinfo->max_h_samp_factor;
  bool half_height = u.v_in * 2 == cinfo->max_v_samp_factor;
  u.full_size = same_width && u.v_in == cinfo->max_v_samp_factor;
  u.context = fancy && half_height && is_needed(cinfo, c) &&
              (same_width || (half_width && component->downsampled_width > 2));
  return u;
}

uint64_t ull__jpeg_row_bytes(const struct jpeg_decompress_struct *cinfo) {
  return round_up((uint64_t)cinfo->output_width * (uint64_t)cinfo->out_color_components);
}

uint64_t ull__jpeg_need(const struct jpeg_decompress_struct *cinfo) {
  uint64_t bytes = ULL__JPEG_ROWS * ull__jpeg_row_bytes(cinfo) + TAIL;
  bool context = false;
  for (int c = 0; c < cinfo->num_components; c++)
    context = context || upsampling_of(cinfo, c).context;
  uint64_t groups = (uint64_t)cinfo->min_DCT_scaled_size + (context ? 2 : 0);
  for (int c = 0; c < cinfo->num_components; c++) {
    const jpeg_component_info *component = &cinfo->comp_info[c];
    upsampling u = upsampling_of(cinfo, c);
    bytes += ull__jpeg_sample_array_bytes((uint64_t)component->width_in_blocks *
                                              (uint64_t)component->DCT_scaled_size,
                                          (uint64_t)u.v_in * groups);
    if (!u.full_size && is_needed(cinfo, c))
      bytes += ull__jpeg_sample_array_bytes(multiple(cinfo->output_width, cinfo->max_h_samp_factor),
                                            (uint64_t)cinfo->max_v_samp_factor);
  }
  if (jpeg_has_multiple_scans((struct jpeg_decompress_struct *)cinfo))
    bytes += coefficient_bytes(cinfo);
  return bytes;
}
