// SPDX-License-Identifier: Apache-2.0
// golden_write tests/golden: writes missing golden files (in v1, v2 ...), and changes no existing ones.
// golden_write --seeds FOLDER: writes seeds for the fuzzers of messages and values to FOLDER/wire, FOLDER/model ...
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "config/describe.h"
#include "tests/golden/catalog.h"
#include "tests/golden/config_sample.h"
#include "tests/golden/hex_file.h"
#include "wire/op.h"

namespace spate::golden {
namespace {

namespace fs = std::filesystem;

bool write_file(const fs::path& path, std::string_view text) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  std::ofstream out(path, std::ios::binary);
  out << text;
  return out.good();
}

/// Writes the file if it is missing. False: the write failed, or the file exists with another text.
bool write_missing(const fs::path& path, std::string_view text) {
  const auto there = read_text(path.string());
  if (!there) {
    std::printf("new: %s\n", path.c_str());
    return write_file(path, text);
  }
  if (*there == text) return true;
  std::fprintf(stderr, "%s: there already, and other bytes are written now; see tests/golden/README.md\n",
               path.c_str());
  return false;
}

bool write_golden(const fs::path& folder) {
  bool good = true;
  for (const Item& item : all_items())
    good &= write_missing(folder / ("v" + std::to_string(item.since)) / (item.name + ".hex"),
                          to_hex(item.comment, item.bytes));
  const fs::path config = folder / "v1" / "stored" / "spate.toml";
  if (!fs::exists(config)) good &= write_missing(config, config::to_toml(sample_config()));
  return good;
}

/// The number of the operation of an item such as "wire/create.request"; 0: it belongs to none.
std::uint8_t operation_of(const std::string& name) {
#define SPATE_SEED_OP(id, number, text, ...) \
  if (name.starts_with("wire/" #text ".")) return number;
  SPATE_OPERATIONS(SPATE_SEED_OP)
#undef SPATE_SEED_OP
  return 0;
}

/// The bytes before a seed, by which its fuzzer chooses the decoder. Sets `fuzzer`; empty: the item has no fuzzer.
std::string seed_of(const Item& item, std::string& fuzzer) {
  const std::string body(as_text(item.bytes));
  const auto with = [&](const char* name, std::string choice) {
    fuzzer = name;
    return choice + body;
  };
  const auto two = [](int kind, std::uint8_t op) {
    return std::string{static_cast<char>(kind), static_cast<char>(op)};
  };
  if (item.name.starts_with("wire/request_header")) return with("wire", two(0, 0));
  if (item.name.starts_with("wire/reply_header")) return with("wire", two(1, 0));
  if (item.name.find(".request") != std::string::npos) return with("wire", two(2, operation_of(item.name)));
  if (item.name.find(".reply") != std::string::npos) return with("wire", two(3, operation_of(item.name)));
  if (item.name == "stored/layout") return with("model", std::string(1, '\0'));
  if (item.name == "stored/cluster-map") return with("model", "\1");
  if (item.name == "auth/user_restrictions") return with("model", "\2");
  return {};
}

bool write_seeds(const fs::path& folder) {
  bool good = true;
  for (const Item& item : all_items()) {
    std::string fuzzer;
    const std::string seed = seed_of(item, fuzzer);
    if (fuzzer.empty()) continue;
    good &= write_missing(folder / fuzzer / item.name.substr(item.name.find('/') + 1), seed);
  }
  return good;
}

}  // namespace
}  // namespace spate::golden

int main(int argc, char** argv) {
  const std::string first = argc > 1 ? argv[1] : "";
  if (argc == 3 && first == "--seeds") return spate::golden::write_seeds(argv[2]) ? 0 : 1;
  if (argc == 2 && !first.starts_with("-")) return spate::golden::write_golden(first) ? 0 : 1;
  std::fprintf(stderr, "usage: golden_write FOLDER | golden_write --seeds FOLDER\n");
  return 2;
}
