#!/usr/bin/env python3
"""Writes src/data/text/unicode_classes.c: which code points are letters, numbers and spaces.

    python3 tools/make_unicode_classes.py src/data/text/unicode_classes.c

Needs the unicodedata2 package in version 16.0.0, whose tables are Unicode 16.0: what the regular
expressions of Hugging Face's tokenizers 0.23 know. Letters and numbers are the general categories
L* and N*; spaces are the property White_Space.
"""

import sys

import unicodedata2 as unicode

assert unicode.unidata_version == "16.0.0", unicode.unidata_version

SPACES = {*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029,
          0x202F, 0x205F, 0x3000}
OTHER, LETTER, NUMBER, SPACE = range(4)


def class_of(code):
    if code in SPACES:
        return SPACE
    return {"L": LETTER, "N": NUMBER}.get(unicode.category(chr(code))[0], OTHER)


def main():
    changes, last = [], None
    for code in range(0x110000):
        now = class_of(code)
        if now != last:
            changes.append(code << 2 | now)
        last = now
    lines, line = [], ""
    for word in changes:
        text = f"0x{word:x},"
        if len(line) + len(text) > 96:
            lines.append(line)
            line = ""
        line += (" " if line else "") + text
    lines.append(line)
    with open(sys.argv[1], "w", encoding="ascii") as out:
        out.write(f"""/* Letters, numbers and spaces of Unicode 16.0, as tools/make_unicode_classes.py wrote them.
 *
 * A word is the first code point of a run, shifted by two, and the run's class. */
#include "data/text/unicode.h"

#include <stddef.h>

/* clang-format off */
static const uint32_t changes[] = {{
""")
        for line in lines:
            out.write(f"  {line}\n")
        out.write("""};
/* clang-format on */

ull__unicode_class ull__unicode_class_of(uint32_t code) {
  size_t low = 0, high = sizeof changes / sizeof *changes;
  while (high - low > 1) {
    size_t middle = (low + high) / 2;
    if (changes[middle] >> 2 <= code) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return (ull__unicode_class)(changes[low] & 3);
}
""")


main()
