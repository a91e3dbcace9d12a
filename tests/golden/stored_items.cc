// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/check.h"
#include "base/unique_fd.h"
#include "config/key_file.h"
#include "metrics/snapshot.h"
#include "tests/golden/catalog.h"
#include "tests/golden/hex_file.h"
#include "tests/golden/samples.h"
#include "trove/change_records.h"
#include "trove/datafile_name.h"
#include "trove/target_folder.h"

namespace spate::golden {
namespace {

namespace fs = std::filesystem;

constexpr const char* kBoot = "01234567-89ab-cdef-0123-456789abcdef";
constexpr trove::TargetIdentity kTarget{kFs, TargetId(513)};

/// A temporary folder for code that reads and writes files. The destructor removes it.
class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "spate-golden-XXXXXX").string();
    SPATE_CHECK(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }
  void write(const std::string& name, ByteView bytes) const {
    std::ofstream(file(name), std::ios::binary) << as_text(bytes);
    SPATE_CHECK(::chmod(file(name).c_str(), 0600) == 0);
  }
  Bytes read(const std::string& name) const { return to_bytes(as_bytes(read_text(file(name)).value())); }
  UniqueFd open() const { return UniqueFd(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)); }

 private:
  std::string path_;
};

template <typename T>
Item value_item(const std::string& name, const T& value, T (*decode)(Decoder&)) {
  Item item{"stored/" + name, name + ": docs/wire.md", {}, {}};
  Encoder out(item.bytes);
  encode(out, value);
  item.read = [value, decode](ByteView bytes) -> std::string {
    Decoder in(bytes);
    const T read = decode(in);
    const auto good = in.finish("value");
    if (!good) return good.error().message();
    return read == value ? "" : "is read as another value";
  };
  return item;
}

Item snapshot_item() {
  metrics::Snapshot snapshot;
  metrics::Sample counter{"spate_rpc_failed_total", {{"op", "create"}}, metrics::MetricKind::kCounter, 12, {}};
  metrics::Sample gauge{"spate_io_open_datafiles", {}, metrics::MetricKind::kGauge, -3, {}};
  metrics::Sample histogram{
      "spate_rpc_request_ns", {{"op", "read"}, {"server", "2"}}, metrics::MetricKind::kHistogram, 0, {}};
  histogram.histogram.sum = 123'456;
  histogram.histogram.max = 100'000;
  histogram.histogram.buckets = {{17, 2}, {400, 1}};
  for (const auto& sample : {counter, gauge, histogram}) SPATE_CHECK(snapshot.add(sample).has_value());
  Item item{"stored/snapshot", "metrics snapshot, version 1: docs/wire.md", {}, {}};
  snapshot.encode(item.bytes);
  item.read = [snapshot](ByteView bytes) -> std::string {
    const auto read = metrics::Snapshot::decode(bytes);
    if (!read) return read.error().message();
    return *read == snapshot ? "" : "is read as another value";
  };
  return item;
}

Item target_item() {
  Folder folder;
  SPATE_CHECK(trove::create_target(folder.file("t"), kTarget).has_value());
  Item item{"stored/spate-target",
            "a target's identity file, format 1: docs/disk-datafiles.md",
            folder.read("t/spate-target"),
            {}};
  item.read = [](ByteView bytes) -> std::string {
    Folder own;
    own.write("spate-target", bytes);
    const auto read = trove::read_target_identity(own.path());
    if (!read) return read.error().message();
    return *read == kTarget ? "" : "is read as another target";
  };
  return item;
}

std::vector<trove::ChangeRecord> change_records() {
  return {{{Handle(7), 3}, 1, 0x1700000000000001, 1'700'000'000'000'000'121}, {{Handle(9), 0}, 0, 12, -1}};
}

Item changes_item() {
  const Folder folder;
  auto records = trove::ChangeRecords::create(folder.open().get(), kBoot, 3);
  SPATE_CHECK(records.has_value());
  for (const trove::ChangeRecord& record : change_records()) (*records)->store((*records)->take(), record);
  Item item{
      "stored/changes", "a target's change records, version 1: docs/disk-datafiles.md", folder.read("changes"), {}};
  item.read = [](ByteView bytes) -> std::string {
    const Folder own;
    own.write("changes", bytes);
    const trove::LeftOverRecords read = trove::ChangeRecords::read(own.open().get(), kBoot);
    const auto expected = change_records();
    if (!read.same_boot) return "is not seen as of the same boot";
    const bool same = std::ranges::equal(read.records, expected, [](const auto& a, const auto& b) {
      return a.id == b.id && a.changing == b.changing && a.counter == b.counter && a.mtime_ns == b.mtime_ns;
    });
    return same ? "" : "is read as other records";
  };
  return item;
}

/// The paths of datafiles. A folder's name is a hash, so this detects a library that computes another hash.
Item names_item() {
  const std::vector<DatafileId> ids{{Handle(7), 0}, {Handle(0x0002000000000007), 3}, {Handle(~0ULL), 4095}};
  std::string text;
  for (const DatafileId& id : ids) text.append(trove::DatafilePath(id).c_str()).append("\n");
  Item item{"stored/datafile-names",
            "paths of datafiles in a target's folder: docs/disk-datafiles.md",
            to_bytes(as_bytes(text)),
            {}};
  item.read = [ids, text](ByteView bytes) -> std::string {
    std::istringstream lines{std::string(as_text(bytes))};
    std::vector<DatafileId> read;
    for (std::string line; std::getline(lines, line);) {
      const auto id = line.size() > 3 ? trove::parse_datafile_name(line.substr(3)) : std::nullopt;
      if (!id) return line + " is no datafile's name";
      if (trove::hash_folder_name(trove::hash_folder(*id)) != line.substr(0, 2))
        return line + " is in the wrong folder";
      read.push_back(*id);
    }
    return read == ids ? "" : "is read as other datafiles";
  };
  return item;
}

class FixedRandom final : public Random {
 public:
  std::uint64_t next() override { return next_ += 0x0101010101010101; }

 private:
  std::uint64_t next_ = 0x0706050403020100;
};

Item key_file_item() {
  const Folder folder;
  FixedRandom random;
  const auto key = config::create_key_file(folder.file("key"), random);
  SPATE_CHECK(key.has_value());
  Item item{"stored/key", "a key file: 64 hex digits", folder.read("key"), {}};
  item.read = [key = *key](ByteView bytes) -> std::string {
    const Folder own;
    own.write("key", bytes);
    const auto read = config::read_key_file(own.file("key"));
    if (!read) return read.error().message();
    return *read == key ? "" : "is read as another key";
  };
  return item;
}

}  // namespace

std::vector<Item> stored_items() {
  std::vector<Item> items{
      value_item("layout", sample_layout(), decode_layout),
      value_item("cluster-map", sample_map(), decode_cluster_map),
      snapshot_item(),
      target_item(),
      changes_item(),
      names_item(),
      key_file_item(),
  };
  const char* const kinds[] = {"contiguous", "list", "strided", "strided_window"};
  std::size_t i = 0;
  for (const datatype::Description& d : sample_descriptions()) {
    items.push_back(value_item(fmt::format("description.{}", kinds[i++]), d, datatype::decode_description));
  }
  return items;
}

std::vector<Item> all_items() {
  std::vector<Item> items = wire_items();
  for (auto part : {auth_items(), tcp_items(), record_items(), stored_items()})
    items.insert(items.end(), part.begin(), part.end());
  return items;
}

}  // namespace spate::golden
