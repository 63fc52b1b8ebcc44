/* A growing text. */
#include <stdarg.h>
#include <stdio.h>

#include "base/alloc.h"
#include "plan/explain_internal.h"

void ull__page_add(ull__page *page, const char *format, ...) {
  va_list list, again;
  va_start(list, format);
  va_copy(again, list);
  int length = vsnprintf(NULL, 0, format, list);
  if (page->status == ULL_OK && length >= 0)
    page->status = ull__vector_reserve(&page->text, (size_t)length + 1);
  if (page->status == ULL_OK && length >= 0) {
    vsnprintf(page->text.items + page->text.count, (size_t)length + 1, format, again);
    page->text.count += (size_t)length;
  }
  va_end(again);
  va_end(list);
}

void ull__page_add_bar(ull__page *page, uint64_t part, uint64_t whole, uint32_t width) {
  uint32_t filled = whole ? (uint32_t)((double)part / (double)whole * width + 0.5) : 0;
  for (uint32_t i = 0; i < filled && i < width; i++) ull__page_add(page, "█");
  for (uint32_t i = filled; i < width; i++) ull__page_add(page, "·");
  ull__page_add(page, " ");
}

ull_status ull__page_take(ull__page *page, char **out) {
  ull__page_add(page, "%s", "");
  if (page->status == ULL_OK)
    *out = page->text.items;
  else
    ull__vector_free(&page->text);
  return page->status;
}
