/* Shapes with one free symbol. Dimensions are never negative; every product is checked. */
#include "graph/shape.h"

#include <stdio.h>

#include "base/checked.h"
#include "base/error.h"

ull__shape ull__shape_of(uint32_t rank, const int64_t *dims) {
  ull__shape shape = {.rank = rank};
  for (uint32_t i = 0; i < rank && i < ULL__MAX_RANK; i++) shape.dims[i] = ull__dim_of(dims[i]);
  return shape;
}

ull__shape ull__shape_batched(uint32_t rank, const int64_t *dims) {
  ull__shape shape = {.rank = rank + 1};
  shape.dims[0] = ull__dim_batch(1);
  for (uint32_t i = 0; i < rank && i + 1 < ULL__MAX_RANK; i++) {
    shape.dims[i + 1] = ull__dim_of(dims[i]);
  }
  return shape;
}

bool ull__dim_equal(ull__dim a, ull__dim b) {
  return a.constant == b.constant && a.batch == b.batch;
}

bool ull__shape_equal(const ull__shape *a, const ull__shape *b) {
  if (a->rank != b->rank) return false;
  for (uint32_t i = 0; i < a->rank; i++) {
    if (!ull__dim_equal(a->dims[i], b->dims[i])) return false;
  }
  return true;
}

bool ull__shape_is_bound(const ull__shape *shape) {
  for (uint32_t i = 0; i < shape->rank; i++) {
    if (shape->dims[i].batch != 0) return false;
  }
  return true;
}

static ull_status check_dim(ull__dim dim) {
  if (dim.constant >= 0 && dim.batch >= 0) return ULL_OK;
  return ULL__FAIL(ULL_ERROR_INVALID, "a dimension of %lld + %lld B is negative",
                   (long long)dim.constant, (long long)dim.batch);
}

static ull_status bind_dim(ull__dim dim, int64_t batch, int64_t *out) {
  ULL__TRY(check_dim(dim));
  uint64_t grown = 0, sum = 0;
  ULL__TRY(ull__size_mul((uint64_t)dim.batch, (uint64_t)batch, "dimension", &grown));
  ULL__TRY(ull__size_add((uint64_t)dim.constant, grown, "dimension", &sum));
  *out = (int64_t)sum;
  return ULL_OK;
}

ull_status ull__shape_bind(const ull__shape *shape, int64_t batch, ull__shape *out) {
  if (batch < 0) return ULL__FAIL(ULL_ERROR_INVALID, "a batch of %lld samples", (long long)batch);
  ull__shape bound = {.rank = shape->rank};
  for (uint32_t i = 0; i < shape->rank; i++) {
    ULL__TRY(bind_dim(shape->dims[i], batch, &bound.dims[i].constant));
  }
  *out = bound;
  return ULL_OK;
}

/* (c + bB)(dc + dbB), one of b and db being 0. */
static ull_status multiply(ull__dim product, ull__dim dim, ull__dim *out) {
  ULL__TRY(check_dim(dim));
  if (product.batch != 0 && dim.batch != 0) {
    return ULL__FAIL(ULL_ERROR_INVALID, "two dimensions of one value grow with the batch");
  }
  uint64_t constant = 0, left = 0, right = 0, batch = 0;
  const uint64_t c = (uint64_t)product.constant, b = (uint64_t)product.batch;
  ULL__TRY(ull__size_mul(c, (uint64_t)dim.constant, "number of elements", &constant));
  ULL__TRY(ull__size_mul(c, (uint64_t)dim.batch, "number of elements", &left));
  ULL__TRY(ull__size_mul(b, (uint64_t)dim.constant, "number of elements", &right));
  ULL__TRY(ull__size_add(left, right, "number of elements", &batch));
  *out = (ull__dim){(int64_t)constant, (int64_t)batch};
  return ULL_OK;
}

ull_status ull__shape_elements(const ull__shape *shape, ull__dim *out) {
  ull__dim product = ull__dim_of(1);
  for (uint32_t i = 0; i < shape->rank; i++) {
    ULL__TRY(multiply(product, shape->dims[i], &product));
  }
  *out = product;
  return ULL_OK;
}

ull_status ull__shape_count(const ull__shape *shape, uint64_t *elements) {
  ull__dim product;
  ULL__TRY(ull__shape_elements(shape, &product));
  if (product.batch != 0) {
    return ULL__FAIL(ULL_ERROR_INVALID, "a shape whose batch is free has no element count");
  }
  *elements = (uint64_t)product.constant;
  return ULL_OK;
}

ull_status ull__shape_bytes(const ull__shape *shape, ull_dtype dtype, uint64_t *bytes) {
  uint64_t elements = 0;
  ULL__TRY(ull__shape_count(shape, &elements));
  return ull__size_mul(elements, ull_dtype_bytes(dtype), "bytes of a value", bytes);
}

static int print_dim(char *text, size_t size, ull__dim dim) {
  const long long constant = (long long)dim.constant, batch = (long long)dim.batch;
  if (batch == 0) return snprintf(text, size, "%lld", constant);
  if (constant == 0 && batch == 1) return snprintf(text, size, "B");
  if (constant == 0) return snprintf(text, size, "%lldB", batch);
  return snprintf(text, size, "%lld+%lldB", constant, batch);
}

char *ull__shape_text(const ull__shape *shape, char *text, size_t size) {
  size_t used = 0;
  if (size == 0) return text;
  text[0] = 0;
  for (uint32_t i = 0; i <= shape->rank && used + 1 < size; i++) {
    char piece[64] = "]";
    if (i < shape->rank) {
      const int lead = snprintf(piece, sizeof piece, i == 0 ? "[" : ", ");
      print_dim(piece + lead, sizeof piece - (size_t)lead, shape->dims[i]);
    } else if (shape->rank == 0) {
      snprintf(piece, sizeof piece, "[]");
    }
    used += (size_t)snprintf(text + used, size - used, "%s", piece);
  }
  return text;
}
