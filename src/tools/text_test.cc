// SPDX-License-Identifier: Apache-2.0
#include "tools/text.h"

#include "base/expect.h"

namespace spate::tools {
namespace {

TEST(ToolsText, SizesHaveThreeDigits) {
  EXPECT_EQ(human_size(0), "0 B");
  EXPECT_EQ(human_size(1023), "1023 B");
  EXPECT_EQ(human_size(1024), "1.00 KiB");
  EXPECT_EQ(human_size(1536), "1.50 KiB");
  EXPECT_EQ(human_size(10 * 1024 * 1024 - 1), "10.0 MiB");
  EXPECT_EQ(human_size(1000ULL * 1024), "0.98 MiB");
  EXPECT_EQ(human_size(270553174016), "252 GiB");
  EXPECT_EQ(human_size(UINT64_MAX), "16.0 EiB");
}

TEST(ToolsText, TimesHaveThreeDigits) {
  EXPECT_EQ(human_time(0), "0 ns");
  EXPECT_EQ(human_time(999), "999 ns");
  EXPECT_EQ(human_time(41'300), "41.3 us");
  EXPECT_EQ(human_time(2'070'000), "2.07 ms");
  EXPECT_EQ(human_time(999'600'000), "1.00 s");
  EXPECT_EQ(human_time(90'000'000'000), "90.0 s");
}

TEST(ToolsText, SpansAreInTheirTwoLargestUnits) {
  EXPECT_EQ(human_span(999), "under a second");
  EXPECT_EQ(human_span(42'900), "42 s");
  EXPECT_EQ(human_span(450'047), "7 min 30 s");
  EXPECT_EQ(human_span(3'600'000), "1 h 0 min");
  EXPECT_EQ(human_span(86'399'999), "23 h 59 min");
  EXPECT_EQ(human_span(100 * 3'600'000), "4 d 4 h");
}

TEST(ToolsText, TheNearestWordIsProposed) {
  const std::vector<std::string> commands = {"mount", "umount", "mv", "rm", "rmdir", "ls"};
  EXPECT_EQ(nearest_word("mont", commands), "mount");
  EXPECT_EQ(nearest_word("muont", commands), "mount");
  EXPECT_EQ(nearest_word("rmdri", commands), "rmdir");
  EXPECT_EQ(nearest_word("format", commands), "");
  EXPECT_EQ(nearest_word("", commands), "");
}

TEST(ToolsText, ANumberAndItsNounAgree) {
  EXPECT_EQ(counted(0, "object"), "0 objects");
  EXPECT_EQ(counted(1, "object"), "1 object");
  EXPECT_EQ(counted(2, "object"), "2 objects");
}

TEST(ToolsText, ProposedWordsAreQuotedForTheShell) {
  EXPECT_EQ(shell_word("/srv/fs-1.2"), "/srv/fs-1.2");
  EXPECT_EQ(shell_word("/srv/my data"), "'/srv/my data'");
  EXPECT_EQ(shell_word("$(x)'\""), "'$(x)'\\''\"'");
  EXPECT_EQ(shell_word(""), "''");
}

}  // namespace
}  // namespace spate::tools
