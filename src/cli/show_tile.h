/* One sample of a batch as a small picture: what the network gets, with normalisation undone. */
#ifndef ULL_CLI_SHOW_TILE_H
#define ULL_CLI_SHOW_TILE_H

#include "cli/canvas.h"
#include "ullage/data.h"

/* Where a batch has its picture, and what else is shown with it; -1: there is none. */
typedef struct show_arrays {
  int picture, mask, label;
} show_arrays;

/* False where no array is a picture with an element type that can be shown. */
bool show_find_arrays(const ull_source *source, const ull_loader_options *options,
                      show_arrays *arrays);

/* Size of a sample's picture in pixels. */
void show_size(const ull_loader_options *options, const show_arrays *arrays, int *width,
               int *height);

/* Draws sample `sample` of the batch at (x, y), every pixel `zoom` pixels wide and high; a mask's
 * classes but 0 as tints over it. */
void show_tile(canvas *to, int x, int y, int zoom, const ull_loader_options *options,
               const ull_source *source, const show_arrays *arrays, const ull_batch *batch,
               uint64_t sample);

/* The class' name, of mixed samples both with their shares; "" without labels. */
void show_label(const ull_source *source, const show_arrays *arrays, const ull_batch *batch,
                uint64_t sample, char *text, size_t room);

#endif
