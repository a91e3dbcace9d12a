// SPDX-License-Identifier: Apache-2.0
#include "config/describe.h"

#include <gmock/gmock.h>

#include <fstream>
#include <iterator>

#include "base/expect.h"
#include "config/convert.h"
#include "config/keys.h"

namespace spate::config {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

FileSystemConfig example() {
  FileSystemConfig config;
  config.fs.id = FsId(0xfedcba9876543210);
  config.fs.client_key_file = "/k/client.key";
  config.fs.server_key_file = "/k/ser\"ver\\.key";
  config.meta.sync = Duration(0);
  config.defaults.strip_bytes = 65537;
  ServerConfig meta;
  meta.id = ServerId(1);
  meta.urls = {"tcp://127.0.0.1:7400", "shm://a"};
  meta.roles.meta = true;
  meta.roles.io = true;
  meta.keyval = "/d/meta";
  meta.storage = {"/d/0", "/d/1"};
  ServerConfig io;
  io.id = ServerId(2);
  io.urls = {"tcp://127.0.0.1:7401"};
  io.roles.io = true;
  io.storage = {"/d/2"};
  io.trove = TroveKind::kMemory;
  io.roles.block = true;
  config.servers = {meta, io};
  ExportConfig image;
  image.name = "image";
  image.source = "spate:/images/1";
  image.server = ServerId(2);
  image.allow = {"10.0.0.0/8", "psk:a"};
  ExportConfig disk;
  disk.name = "disk";
  disk.source = "/dev/disk";
  disk.read_only = true;
  config.exports = {image, disk};
  return config;
}

TEST(ToToml, IsReadBackAsTheSameValue) {
  const FileSystemConfig config = example();
  const std::string text = to_toml(config);
  const auto loaded = load({text, "x.toml", "/nowhere", {}});
  ASSERT_OK(loaded) << text;
  EXPECT_EQ(loaded->config, config);
  EXPECT_THAT(text, AllOf(HasSubstr("\n# connect_timeout = \"3 s\"\n"), HasSubstr("\nsync = \"commit\"\n"),
                          HasSubstr("\nid = \"fedcba9876543210\"\n"), HasSubstr("\ntrove = \"mem\"\n")));
}

TEST(Keys, EachHasADocADefaultWithinItsRangeAndAVariable) {
  for (const Key& key : keys()) {
    SCOPED_TRACE(key.full_name());
    EXPECT_NE(find_section(key.section), nullptr);
    EXPECT_EQ(find_key(key.section, key.name), &key);
    EXPECT_GT(key.doc.size(), 10U);
    EXPECT_EQ(key.environment_name().empty(), find_section(key.section)->repeated);
    const Value value = default_value(key);
    const auto* number = std::get_if<std::uint64_t>(&value);
    const bool special =
        key.required || key.type == Type::kChoice || (key.type == Type::kSync && number && *number == 0);
    if (number != nullptr && !special) {
      EXPECT_GE(*number, key.min);
      EXPECT_LE(*number, key.max);
    }
  }
}

TEST(Keys, SetStoresTheValueThatGetReadsAndNothingElse) {
  for (const Key& key : keys()) {
    SCOPED_TRACE(key.full_name());
    FileSystemConfig config = example();
    for (const Key& other : keys()) {
      if (&other == &key) continue;
      const Value before = key.get(config, 1);
      other.set(config, 1, default_value(other));
      EXPECT_EQ(key.get(config, 1), before) << other.full_name();
    }
    const Value value = key.get(example(), 0);
    key.set(config, 0, value);
    EXPECT_EQ(key.get(config, 0), value);
  }
}

TEST(Explain, NamesMeaningRangeDefaultAndVariable) {
  EXPECT_EQ(*explain("defaults.strip_bytes"),
            "defaults.strip_bytes\n"
            "    Size of one target's contiguous piece of a file.\n"
            "    allowed:  a size such as \"64 KiB\", 4 KiB .. 4 GiB\n"
            "    default:  \"1 MiB\"\n"
            "    variable: SPATE_DEFAULTS_STRIP_BYTES\n");
  EXPECT_THAT(*explain("meta"), AllOf(HasSubstr("[meta]"), HasSubstr("meta.sync"), Not(HasSubstr("defaults."))));
  const std::string all = *explain("");
  for (const Key& key : keys()) EXPECT_THAT(all, HasSubstr(key.full_name()));
  EXPECT_THAT(explain("meta.sinc").error().context(), HasSubstr("did you mean \"sync\"?"));
  EXPECT_THAT(explain("zzzzzz").error().context(), HasSubstr("no key \"zzzzzz\""));
}

TEST(Explain, DocsConfigMdHoldsTheTable) {
  std::ifstream file(SPATE_SOURCE_DIR "/docs/config.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(page, testing::EndsWith(explain_markdown()))
      << "the end of docs/config.md must be what explain_markdown() returns";
}

TEST(Show, ShowsEachValueWithItsOrigin) {
  auto loaded = load({to_toml(example()), "x.toml", "/", {*override_from_argument("client.deadline=5 s")}});
  ASSERT_OK(loaded);
  const std::string text = show(*loaded);
  EXPECT_THAT(text,
              AllOf(HasSubstr("deadline = \"5 s\"  # command line\n"),
                    HasSubstr("connect_timeout = \"3 s\"  # default\n"), HasSubstr("trove = \"mem\"  # x.toml:")));
  EXPECT_EQ(load({text, "shown", "/", {}})->config, loaded->config);
}

TEST(EditDistance, CountsEditsAndSwaps) {
  EXPECT_EQ(edit_distance("sync", "sync"), 0U);
  EXPECT_EQ(edit_distance("sync", "snyc"), 1U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("ca", "abc"), 3U);
}

}  // namespace
}  // namespace spate::config
