// SPDX-License-Identifier: Apache-2.0
#include "base/printable.h"

#include "base/expect.h"

namespace spate {
namespace {

TEST(Printable, EscapesWhatMustNotReachATerminal) {
  EXPECT_EQ(printable("Grüße €😀"), "Grüße €😀");
  EXPECT_EQ(printable("a\nb\x1b[2J\x7f"), "a\\x0ab\\x1b[2J\\x7f");
  EXPECT_EQ(printable("a\\xff"), "a\\x5cxff");  // not to be taken for the byte 0xff
  EXPECT_EQ(printable("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(printable("\xc3"), "\\xc3");           // cut short
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");  // overlong
  EXPECT_EQ(printable("\xe0\x80\xaf"), "\\xe0\\x80\\xaf");
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // a surrogate
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // beyond U+10FFFF
  EXPECT_EQ(printable_lines("spate:/\x1b[2J: no\nline 2\xff\n"), "spate:/\\x1b[2J: no\nline 2\\xff\n");
  EXPECT_EQ(printable_lines(""), "");
}

// Some terminals begin a sequence at U+009B as at ESC [.
TEST(Printable, ControlCharactersOfTwoBytesAreEscaped) {
  EXPECT_EQ(printable("a\xc2\x9b"
                      "2J"),
            "a\\xc2\\x9b2J");
  EXPECT_EQ(printable("\xc2\x80\xc2\xa0"), "\\xc2\\x80\xc2\xa0");
}

TEST(Printable, ControlsAreEscapedAndTheRestStays) {
  EXPECT_EQ(escape_controls("a\\b\n\x1b[m\t", "\n"), "a\\b\n\\x1b[m\\x09");
}

// A name cannot show its end before its beginning, or look like two lines.
TEST(Printable, CharactersThatReverseOrBreakTheLineAreEscaped) {
  EXPECT_EQ(printable("a\u202Etxt.exe"), "a\\xe2\\x80\\xaetxt.exe");
  EXPECT_EQ(printable("\u2028\u2066\u2069"), "\\xe2\\x80\\xa8\\xe2\\x81\\xa6\\xe2\\x81\\xa9");
  EXPECT_EQ(printable("\u2027\u202F\u206A"), "\u2027\u202F\u206A");
}

}  // namespace
}  // namespace spate
