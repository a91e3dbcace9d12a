// SPDX-License-Identifier: Apache-2.0
// This version reads what earlier versions sent and stored, and its own bytes do not change unnoticed.
#include <fmt/format.h>

#include <cctype>
#include <filesystem>
#include <map>
#include <regex>
#include <set>

#include "base/expect.h"
#include "config/load.h"
#include "server/meta/store/keys.h"
#include "tests/golden/catalog.h"
#include "tests/golden/config_sample.h"
#include "tests/golden/hex_file.h"
#include "wire/messages.h"

namespace spate::golden {
namespace {

namespace fs = std::filesystem;

const std::string kFolder = std::string(SPATE_SOURCE_DIR) + "/tests/golden";

/// All items by their names, which are unique. Made once.
const std::map<std::string, Item>& catalog() {
  static const std::map<std::string, Item> items = [] {
    std::map<std::string, Item> all;
    for (Item& item : all_items()) {
      const std::string name = item.name;
      EXPECT_TRUE(all.emplace(name, std::move(item)).second) << name << " is there twice";
    }
    return all;
  }();
  return items;
}

std::string file_of(const Item& item) { return fmt::format("{}/v{}/{}.hex", kFolder, item.since, item.name); }

Result<Bytes> golden(const std::string& name) {
  SPATE_TRY(auto text, read_text(file_of(catalog().at(name))));
  return from_hex(text);
}

TEST(Golden, EverythingHasAFile) {
  for (const auto& [name, item] : catalog()) {
    EXPECT_TRUE(fs::exists(file_of(item))) << name << ": write it with golden_write (tests/golden/README.md)";
  }
}

TEST(Golden, EveryFileBelongsToAnItem) {
  for (const auto& entry : fs::recursive_directory_iterator(kFolder)) {
    if (entry.path().extension() != ".hex") continue;
    const std::string path = fs::relative(entry.path(), kFolder).replace_extension().string();
    const std::string name = path.substr(path.find('/') + 1);
    EXPECT_TRUE(catalog().contains(name)) << name << ".hex: kept for ever; what reads it may not go";
  }
}

TEST(Golden, EachFileDecodesToTheWrittenValue) {
  for (const auto& [name, item] : catalog()) {
    const auto bytes = golden(name);
    ASSERT_OK(bytes) << name;
    EXPECT_EQ(item.read(*bytes), "") << name;
  }
}

TEST(Golden, ThisVersionWritesTheSameBytes) {
  for (const auto& [name, item] : catalog()) {
    const auto bytes = golden(name);
    ASSERT_OK(bytes) << name;
    EXPECT_EQ(to_hex(name, item.bytes), to_hex(name, *bytes))
        << "changed without a new version: tests/golden/README.md";
  }
}

/// The comparison of fields detects a change of each byte. Truncated bytes are refused.
TEST(Golden, AChangedByteIsSeen) {
  for (const auto& [name, item] : catalog()) {
    auto bytes = golden(name);
    ASSERT_OK(bytes);
    // These have reserved or unused bytes.
    if (name.starts_with("tcp/") || name == "stored/changes") continue;
    if (name == "stored/datafile-names" || name == "stored/key") continue;
    for (std::size_t i = 0; i < bytes->size(); ++i) {
      const std::byte kept = std::exchange((*bytes)[i], (*bytes)[i] ^ std::byte{0x11});
      EXPECT_NE(item.read(*bytes), "") << name << ", byte " << i;
      (*bytes)[i] = kept;
      EXPECT_NE(item.read(ByteView(*bytes).first(i)), "") << name << " cut to " << i;
    }
  }
}

TEST(Golden, EveryOperationIsThere) {
  std::size_t operations = 0;
  wire::for_each_operation([&]<typename Request, typename Reply>(wire::Op op) {
    EXPECT_TRUE(catalog().contains(fmt::format("wire/{}.request", op_name(op)))) << op_name(op);
    EXPECT_TRUE(catalog().contains(fmt::format("wire/{}.reply", op_name(op)))) << op_name(op);
    ++operations;
  });
  EXPECT_GE(operations, 40U);
}

/// Converts "TruncateIntent" to "truncate_intent", and "InodeRecord" to "inode".
std::string file_name_of(std::string type) {
  if (type.ends_with("Record")) type.resize(type.size() - 6);
  std::string name;
  for (const char c : type) {
    if (std::isupper(static_cast<unsigned char>(c)) != 0 && !name.empty()) name += '_';
    name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return name;
}

/// The record types for which a header declares an encoder.
std::vector<std::string> record_types(const std::string& header, const std::string& encoder) {
  const auto text = read_text(std::string(SPATE_SOURCE_DIR) + "/src/server/" + header);
  EXPECT_OK(text);
  std::vector<std::string> types;
  const std::regex declaration(encoder + R"(\(const (\w+)& record)");
  for (std::sregex_iterator it(text->begin(), text->end(), declaration), end; it != end; ++it) {
    types.push_back((*it)[1]);
  }
  return types;
}

TEST(Golden, EveryRecordIsThere) {
  const auto meta = record_types("meta/store/records.h", "void encode_record");
  const auto io = record_types("io/records.h", "Bytes encode");
  EXPECT_GE(meta.size(), 10U);
  EXPECT_GE(io.size(), 3U);
  for (const std::string& type : meta) EXPECT_TRUE(catalog().contains("meta/" + file_name_of(type))) << type;
  for (const std::string& type : io) EXPECT_TRUE(catalog().contains("io/" + file_name_of(type))) << type;
}

std::string_view key_name(meta::KeyKind kind) {
  switch (kind) {  // no default, so that the compiler reports a new kind
    case meta::KeyKind::kInode: return "inode";
    case meta::KeyKind::kEntry: return "entry";
    case meta::KeyKind::kXattr: return "xattr";
    case meta::KeyKind::kSession: return "session";
    case meta::KeyKind::kAnswer: return "answer";
    case meta::KeyKind::kOpen: return "open";
    case meta::KeyKind::kRemoval: return "removal";
    case meta::KeyKind::kTruncate: return "truncate";
    case meta::KeyKind::kUnsettled: return "unsettled";
    case meta::KeyKind::kGlobal: return "global";
    case meta::KeyKind::kDataGroup: return "data_group";
    case meta::KeyKind::kQueue: return "queue";
  }
  return {};
}

TEST(Golden, EveryKindOfKeyIsThere) {
  std::set<std::string_view> kinds;
  for (char c = 0; c < 127; ++c) {
    const std::string_view name = key_name(static_cast<meta::KeyKind>(c));
    if (name.empty()) continue;
    kinds.insert(name);
    const auto found = catalog().find(fmt::format("meta/key.{}", name));
    ASSERT_NE(found, catalog().end()) << name;
    EXPECT_EQ(static_cast<char>(found->second.bytes.front()), c) << name;
  }
  EXPECT_EQ(kinds.size(), 12U);
}

TEST(Golden, TheConfigFileIsRead) {
  const auto text = read_text(kFolder + "/v1/stored/spate.toml");
  ASSERT_OK(text);
  const auto loaded = config::load({*text, "spate.toml", "/etc/spate", {}});
  ASSERT_OK(loaded);
  EXPECT_EQ(loaded->config, sample_config());
}

TEST(Golden, ParsingHexYieldsThePrintedBytes) {
  Bytes bytes = to_bytes(as_bytes("abc"));
  bytes.resize(200);
  bytes.push_back(std::byte{0xFF});
  EXPECT_EQ(from_hex(to_hex("a comment", bytes)).value(), bytes);
  EXPECT_ERRC(from_hex("0"), Errc::kCorrupt);
  EXPECT_ERRC(from_hex("0g"), Errc::kCorrupt);
  EXPECT_ERRC(from_hex("00x99999999999"), Errc::kCorrupt);
}

}  // namespace
}  // namespace spate::golden
