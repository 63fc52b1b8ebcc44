/* What counts as UTF-8, and what is put in the place of what does not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/utf8.h"

static void characters_have_their_length(void **state) {
  (void)state;
  static const struct {
    const char *text;
    size_t length;
  } cases[] = {
      {"", 0},
      {"a", 1},
      {"\x7f", 1},
      {"\xc2\x80", 2},
      {"\xe0\xa0\x80", 3},
      {"\xed\x9f\xbf", 3},
      {"\xf0\x90\x80\x80", 4},
      {"\xf4\x8f\xbf\xbf", 4},
      {"\x80", 0},     /* begins in the middle */
      {"\xc0\xaf", 0}, /* longer than needed */
      {"\xe0\x9f\xbf", 0},
      {"\xf0\x8f\xbf\xbf", 0},
      {"\xed\xa0\x80", 0},     /* a surrogate */
      {"\xf4\x90\x80\x80", 0}, /* beyond the last character */
      {"\xf5\x80\x80\x80", 0},
      {"\xff", 0},
      {"\xc2", 0}, /* cut */
      {"\xe2\x82", 0},
      {"\xf0\x9f\x98", 0},
      {"\xe2\x28\xa1", 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    assert_int_equal(ull__utf8_length(cases[i].text), cases[i].length);
    bool is_valid = cases[i].length > 0 || cases[i].text[0] == '\0';
    assert_int_equal(ull__utf8_is_valid(cases[i].text), is_valid);
  }
}

static void every_byte_alone_is_ascii_or_nothing(void **state) {
  (void)state;
  for (int byte = 1; byte < 256; byte++) {
    const char text[] = {(char)byte, '\0'};
    assert_int_equal(ull__utf8_length(text), byte < 128);
  }
}

static void cleaning_keeps_text_and_its_length(void **state) {
  (void)state;
  char text[] = "gr\xc3\xbcn \xff\x1b[31m \xe2\x82\xac \xe2\x82";
  ull__utf8_clean(text);
  assert_string_equal(text, "gr\xc3\xbcn ??[31m \xe2\x82\xac ??");
  assert_true(ull__utf8_is_valid(text));
}

static void messages_that_are_cut_stay_text(void **state) {
  (void)state;
  char name[2048];
  for (size_t shift = 0; shift < 3; shift++) {
    memset(name, 'a', shift);
    for (size_t i = shift; i + 3 < sizeof name; i += 3) memcpy(name + i, "\xe2\x82\xac", 4);
    ull__fail(ULL_ERROR_DATA, "%s", name);
    ull__error_holder("%s", name);
    ull__error_change("%s", name);
    ull__error_context("%s", name);
    const ull_error *error = ull_error_last();
    assert_true(ull__utf8_is_valid(error->message));
    assert_true(ull__utf8_is_valid(error->holder));
    assert_true(ull__utf8_is_valid(error->change));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(characters_have_their_length),
      cmocka_unit_test(every_byte_alone_is_ascii_or_nothing),
      cmocka_unit_test(cleaning_keeps_text_and_its_length),
      cmocka_unit_test(messages_that_are_cut_stay_text),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
