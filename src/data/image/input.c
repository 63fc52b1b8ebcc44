/* The window is moved by one read of its whole size, so that an ordinary file costs one call. */
#include "data/image/input.h"

#include <string.h>

#include "base/error.h"

ull_status ull__input_begin(ull__input *input, const ull__record *record, uint8_t *buffer) {
  *input = (ull__input){.record = record, .buffer = buffer};
  return ull__input_move(input, 0);
}

ull_status ull__input_move(ull__input *input, uint64_t at) {
  const ull__record *record = input->record;
  input->at = at;
  input->count = 0;
  if (record->memory != NULL) {
    uint64_t from = at < record->bytes ? at : record->bytes;
    input->bytes = record->memory + from;
    input->count = (size_t)(record->bytes - from);
    return ULL_OK;
  }
  input->bytes = input->buffer;
  return ull__record_read(record, at, input->buffer, ULL__INPUT_BYTES, &input->count);
}

ull_status ull__input_see(ull__input *input, uint64_t at, size_t count, const uint8_t **bytes,
                          size_t *got) {
  bool inside = at >= input->at && at - input->at <= input->count &&
                input->count - (size_t)(at - input->at) >= count;
  if (!inside) ULL__TRY(ull__input_move(input, at));
  size_t skipped = (size_t)(at - input->at);
  size_t left = input->count - skipped;
  *bytes = input->bytes + skipped;
  *got = left < count ? left : count;
  return ULL_OK;
}

/* Whether the pair lies in these bytes; the last one is found first. */
static bool has_pair(const uint8_t *bytes, size_t count, const uint8_t pair[2]) {
  for (size_t end = count; end >= 2; end--) {
    const uint8_t *last = memrchr(bytes, pair[0], end - 1);
    if (last == NULL) return false;
    if (last[1] == pair[1]) return true;
    end = (size_t)(last - bytes) + 2;
  }
  return false;
}

/* Whole files end with the pair, so the first look is a short one. */
ull_status ull__input_find_last(ull__input *input, const uint8_t pair[2], uint64_t from,
                                bool *found) {
  uint64_t end = input->record->bytes;
  size_t step = 64;
  *found = false;
  while (end > from) {
    uint64_t begin = end - from > step ? end - step : from;
    const uint8_t *bytes;
    size_t got;
    ULL__TRY(ull__input_see(input, begin, (size_t)(end - begin), &bytes, &got));
    *found = has_pair(bytes, got, pair);
    if (*found || begin == from) return ULL_OK;
    end = begin + 1; /* the pair may lie across */
    step = ULL__INPUT_BYTES;
  }
  return ULL_OK;
}
