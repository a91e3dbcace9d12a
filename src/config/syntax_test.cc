// SPDX-License-Identifier: Apache-2.0
// Tests which files load() accepts: the part of TOML that it reads, and its bounds.
#include <gmock/gmock.h>
#include <stdlib.h>
#include <unistd.h>

#include <fstream>

#include "base/expect.h"
#include "config/load_fixture.h"
#include "config/raw.h"

namespace spate::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Syntax, SyntaxErrorsAreReportedWithTheirLine) {
  EXPECT_THAT(mistakes("id = 2", "id = = 2"), HasSubstr("spate.toml:10: "));
  EXPECT_THAT(load(input("[fs]\nid = \"1\"\nid = \"2\"\n")).error().context(), HasSubstr("spate.toml:3: "));
  EXPECT_THAT(mistakes("[[servers]]\nid = 1", "[servers]\nid = 1"), HasSubstr("[servers] stands in line 4 already"));
  EXPECT_THAT(load(input("[[fs]]\nid = \"1\"\n")).error().context(), HasSubstr("write [fs], once"));
  EXPECT_THAT(load(input("[servers]\nid = 1\n")).error().context(), HasSubstr("write [[servers]], once for each"));
  EXPECT_THAT(load(input("\xcf\x96 = 1\n")).error().context(), HasSubstr("spate.toml:1: "));
  EXPECT_THAT(load(input(std::string(5'000'000, ' '))).error().context(), HasSubstr("longer than 4 MiB"));
  EXPECT_THAT(load(input("[[[")).error().context(), HasSubstr("spate.toml:1: "));
}

TEST(Syntax, UnsupportedTomlSyntaxIsRefusedByName) {
  EXPECT_THAT(mistakes_with("a.b = 1\n"), HasSubstr("spate.toml:4: keys have no dots here"));
  EXPECT_THAT(mistakes_with("[a.b]\n"), HasSubstr("sections are not nested here"));
  EXPECT_THAT(mistakes_with("name = {a = 1}\n"), HasSubstr("inline tables are not used here"));
  EXPECT_THAT(mistakes_with("name = \"\"\"x\"\"\"\n"), HasSubstr("texts of several lines are not used here"));
  EXPECT_THAT(mistakes_with("name = scratch\n"), HasSubstr("scratch is no value: text stands in double quotes"));
}

TEST(Syntax, NestingAndLengthHaveBounds) {
  std::string dotted;
  for (int i = 0; i < 1'000'000; ++i) dotted += "a.";
  EXPECT_ERRC(load(input(dotted + "a = 1\n")), Errc::kInvalidArgument);
  EXPECT_ERRC(load(input("a = " + std::string(1'000'000, '['))), Errc::kInvalidArgument);
  std::string tables;
  for (int i = 0; i < 1'000'000; ++i) tables += "{a=";
  EXPECT_ERRC(load(input("a = " + tables)), Errc::kInvalidArgument);
  std::string keys = "[fs]\n";
  for (int i = 0; i < 1000; ++i) keys += "k" + std::to_string(i) + "=1\n";
  EXPECT_THAT(load(input(keys)).error().context(), HasSubstr("too many keys in a section"));
  std::string sections;
  for (int i = 0; i < 100'000; ++i) sections += "[[x]]\n";
  EXPECT_THAT(load(input(sections)).error().context(), HasSubstr("too many sections"));
}

TEST(Syntax, AFileIsReadWholeAndTakesNoMoreMemoryThanItsText) {
  std::string path = testing::TempDir() + "spate_load_XXXXXX";
  const int fd = ::mkstemp(path.data());
  ASSERT_GE(fd, 0);
  ::close(fd);
  const std::string text = kGood + std::string(100'000, '#') + "\n";  // more than one read
  std::ofstream(path) << text;
  const auto loaded = load_file(path, {});
  std::ofstream(path) << std::string(kMaxFileBytes + 1, '#');
  const auto large = load_file(path, {});
  ::unlink(path.c_str());
  ASSERT_OK(loaded);
  EXPECT_EQ(loaded->text, text);
  EXPECT_LE(loaded->text.capacity(), 2 * text.size());
  EXPECT_ERRC(large, Errc::kInvalidArgument);
}

TEST(Syntax, TheSyntaxOfValues) {
  const auto name = [](const std::string& value) {
    const auto loaded = load(input(replaced(kGood, "auth", "client_key_file = " + value + "\nauth")));
    return loaded ? loaded->config.fs.client_key_file : loaded.error().context();
  };
  EXPECT_EQ(name("\"/a\\u00e4\\U0001F600\\\"\\\\#\" # comment"), "/a\u00e4\U0001F600\"\\#");
  EXPECT_EQ(name("'/a\\b\"'\r"), "/a\\b\"");
  for (const char* bad : {"\"/a", "\"/a\\x\"", "\"\\ud800\"", "\"\\U00110000\"", "\"\\u12\"", "\"/a\" 3", "\"/a\\", "",
                          "=", "]", "\"a\x01\"", "+", "_"}) {
    EXPECT_THAT(name(bad), HasSubstr("spate.toml:3: ")) << bad;
  }
  const auto lists = load(input(replaced(kGood, "[\"a/../data2\", \"/abs\"]", "[ # two\n \"/x\",\n\n \"/abs\" , ]")));
  ASSERT_OK(lists);
  EXPECT_THAT(lists->config.servers[1].storage, ElementsAre("/x", "/abs"));
  EXPECT_OK(load(input("\xef\xbb\xbf" + replaced(kGood, "id = 2", "'id' = 2_0"))));
  EXPECT_THAT(mistakes("[\"io\"]", "[\"io\" \"io\"]"), HasSubstr("a comma or ] is expected"));
  EXPECT_THAT(mistakes("[\"io\"]", "[\"io\""), HasSubstr("spate.toml:13: "));
}

}  // namespace
}  // namespace spate::config
