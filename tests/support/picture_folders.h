/* Folders of pictures for tests of the loader, and streams of batches as numbers. */
#ifndef TESTS_SUPPORT_PICTURE_FOLDERS_H
#define TESTS_SUPPORT_PICTURE_FOLDERS_H

#include "ullage/data.h"

enum { FOLDER_CLASSES = 3, STREAM_MOST = 4096 };

/* `count` JPEGs of 33 to 120 pixels a side in class folders below `root`: grey, progressive and
 * subsampled ones among them. */
void put_pictures(const char *root, int count);

/* Where picture `number` of put_pictures is, relative to the root; static. */
const char *picture_name(int number);

/* [3, side, side] float32 images normalised with ImageNet's numbers, and int64 labels; random crops
 * and flips; shuffled batches of 8. The bindings are static. */
ull_loader_options picture_options(const ull_source *source, int side);

ull_loader *create_loader(const ull_loader_options *options);

/* One number for every sample from the loader's place on, of its pixels, label and index; at most
 * `most` samples, whole batches. Returns how many. */
int hash_samples(ull_loader *loader, uint32_t *hashes, int most);

/* The same of a fresh loader that begins at the beginning. */
int hash_stream(const ull_loader_options *options, uint32_t *hashes);

#endif
