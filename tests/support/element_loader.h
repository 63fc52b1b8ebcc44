/* A loader over a small set of images of one size, the source of a group of tests. */
#ifndef TESTS_SUPPORT_ELEMENT_LOADER_H
#define TESTS_SUPPORT_ELEMENT_LOADER_H

#include "ullage/data.h"

enum { SAMPLES = 53, HEIGHT = 6, WIDTH = 5, BATCH = 8, EPOCHS = 3, BATCHES = 7 };

/* IDX files in a root of their own (data_trees.h); `elements` is the training part. */
extern ull_source *elements;
int set_up_elements(void **state);
int tear_down_elements(void **state);

ull_source *open_elements(ull_split split);

/* Augmented float images and int64 labels, bound by element_bindings, which a test may change. */
extern ull_binding element_bindings[2];
ull_loader_options element_options(void);

/* Of the arrays and of the samples' numbers. */
uint32_t hash_batch(const ull_batch *batch);

/* Hashes of all batches from the loader's position on; returns their number. */
int hash_batches(ull_loader *loader, uint32_t *hashes);

/* The BATCHES * EPOCHS batches of element_options without threads, in one slot. */
void reference_batches(uint32_t *hashes);

#endif
