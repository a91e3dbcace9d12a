// SPDX-License-Identifier: Apache-2.0
#include "tools/modes.h"

#include "base/expect.h"

namespace spate::tools {
namespace {

/// The mode after chmod; 0177777 if the text is no mode.
std::uint32_t changed(std::string_view text, std::uint32_t mode, bool directory = false, std::uint32_t umask = 022) {
  const auto change = ModeChange::parse(text, umask);
  return change ? change->apply(mode, directory) : 0177777;
}

TEST(ModeChange, OctalReplacesTheMode) {
  EXPECT_EQ(changed("755", 0600), 0755U);
  EXPECT_EQ(changed("0", 0600), 0U);
  EXPECT_EQ(changed("04711", 0600), 04711U);
}

TEST(ModeChange, ClausesAddRemoveAndSetBits) {
  EXPECT_EQ(changed("u+x", 0644), 0744U);
  EXPECT_EQ(changed("go-rwx", 0755), 0700U);
  EXPECT_EQ(changed("u=rw,g=r,o=", 0777), 0640U);
  EXPECT_EQ(changed("u+r-w", 0200), 0400U);
  EXPECT_EQ(changed("a+s", 0755), 06755U);
  EXPECT_EQ(changed("+t", 0755, true), 01755U);
}

TEST(ModeChange, WithoutAClassTheUmaskLimitsTheBits) {
  EXPECT_EQ(changed("+w", 0444), 0644U);
  EXPECT_EQ(changed("a+w", 0444), 0666U);
  EXPECT_EQ(changed("-w", 0666, false, 022), 0466U);
  EXPECT_EQ(changed("=r", 0777, false, 027), 0440U);
  EXPECT_EQ(changed("=", 02777, true), 02000U);
}

TEST(ModeChange, CapitalXIsForDirectoriesAndProgramsOnly) {
  EXPECT_EQ(changed("a+X", 0644), 0644U);
  EXPECT_EQ(changed("a+X", 0744), 0755U);
  EXPECT_EQ(changed("a+X", 0644, true), 0755U);
}

TEST(ModeChange, OneClassTakesTheBitsOfAnother) {
  EXPECT_EQ(changed("g=u", 0640), 0660U);
  EXPECT_EQ(changed("o-g", 0677), 0670U);
}

TEST(ModeChange, SettingTheBitsOfADirectoryKeepsItsSetgid) {
  EXPECT_EQ(changed("g=rx", 02770, true), 02750U);
  EXPECT_EQ(changed("g=rx", 02770), 0750U);
}

TEST(ModeChange, InvalidModesAreRefused) {
  for (const char* text : {"", "8", "77777", "u", "u+q", "z+x", "u+x,", "755x", ","}) {
    EXPECT_EQ(changed(text, 0644), 0177777U) << text;
  }
}

}  // namespace
}  // namespace spate::tools
