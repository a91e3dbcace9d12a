// SPDX-License-Identifier: Apache-2.0
#include "tools/sum_list.h"

#include <optional>

#include "base/expect.h"

namespace spate::tools {
namespace {

const std::string kSha(64, 'a');
const std::string kXxh(32, '0');

TEST(SumList, ALineIsParsedAsItWasPrinted) {
  for (const char* name : {"a", "a b/c", " lead", "*star", "back\\slash", "line\nbreak", "\\n", "r\r", "\xff\xfe"}) {
    const SumLine line{DigestKind::kXxh3, kXxh, name};
    std::string text = format_sum(line);
    ASSERT_EQ(text.back(), '\n');
    text.pop_back();
    EXPECT_EQ(text.find('\n'), std::string::npos) << name;
    const auto back = parse_sum(text);
    ASSERT_NE(back, std::nullopt) << name;
    EXPECT_EQ(back->name, name);
    EXPECT_EQ(back->hex, kXxh);
    EXPECT_EQ(back->kind, DigestKind::kXxh3);
  }
}

TEST(SumList, ReadsLinesOfSha256sum) {
  EXPECT_EQ(format_sum({DigestKind::kSha256, kSha, "a/b"}), kSha + "  a/b\n");
  const auto binary = parse_sum(std::string(64, 'B') + " *a/b");
  ASSERT_NE(binary, std::nullopt);
  EXPECT_EQ(binary->name, "a/b");
  EXPECT_EQ(binary->hex, std::string(64, 'b'));
}

TEST(SumList, RefusesLinesWithoutAChecksum) {
  for (const std::string& bad : {std::string(), kSha, kSha + "  ", kSha + " a", kXxh.substr(1) + "  a", kSha + "0  a",
                                 "x" + kSha + "  a", "\\" + kSha + "  bad\\escape", "\\" + kSha + "  end\\"}) {
    EXPECT_EQ(parse_sum(bad), std::nullopt) << bad;
  }
}

TEST(SumList, CountsMalformedLines) {
  const SumList list = parse_sums("# made today\r\n" + kSha + "  one\r\n\nnonsense\n" + kXxh + "  two");
  ASSERT_EQ(list.lines.size(), 2U);
  EXPECT_EQ(list.lines[0].name, "one");
  EXPECT_EQ(list.lines[1].name, "two");
  EXPECT_EQ(list.malformed, 1U);
}

}  // namespace
}  // namespace spate::tools
