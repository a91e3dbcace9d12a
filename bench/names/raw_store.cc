// SPDX-License-Identifier: Apache-2.0
#include "names/raw_store.h"

#include <rocksdb/db.h>

#include <chrono>
#include <filesystem>

#include "trove/rocksdb/options.h"

namespace spate::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

Error broken(const rocksdb::Status& status) { return Error(Errc::kIoError, "the bare RocksDB: " + status.ToString()); }

}  // namespace

RawStore::RawStore(std::string folder, std::unique_ptr<rocksdb::DB> store)
    : folder_(std::move(folder)), store_(std::move(store)) {}
RawStore::RawStore(RawStore&& other) noexcept
    : folder_(std::exchange(other.folder_, {})), store_(std::move(other.store_)), next_(other.next_) {}

RawStore::~RawStore() {
  store_.reset();
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

Result<RawStore> RawStore::open(const std::string& folder) {
  trove::RocksdbOptions options;
  options.folder = folder;
  rocksdb::Options settings = trove::rocksdb_options(options);
  settings.create_if_missing = true;
  rocksdb::DB* store = nullptr;
  const rocksdb::Status opened = rocksdb::DB::Open(settings, folder, &store);
  if (!opened.ok()) return broken(opened);
  return RawStore(folder, std::unique_ptr<rocksdb::DB>(store));
}

Result<double> RawStore::puts_per_second(std::uint64_t count) {
  std::string value(200, 'v');
  const auto begin = Clock::now();
  for (std::uint64_t i = 0; i < count; ++i) {
    char key[24];
    std::snprintf(key, sizeof key, "i%016llx", static_cast<unsigned long long>(next_++));
    const rocksdb::Status put = store_->Put({}, key, value);
    if (!put.ok()) return broken(put);
  }
  return static_cast<double>(count) / seconds_since(begin);
}

Result<double> RawStore::scan_seconds(std::uint64_t count) {
  while (next_ < count) {
    SPATE_TRY(std::ignore, puts_per_second(count - next_));
  }
  const auto begin = Clock::now();
  const std::unique_ptr<rocksdb::Iterator> at(store_->NewIterator({}));
  std::uint64_t seen = 0;
  for (at->SeekToFirst(); at->Valid() && seen < count; at->Next()) ++seen;
  if (seen < count) return Error(Errc::kIoError, "the bare RocksDB has lost records");
  return seconds_since(begin);
}

}  // namespace spate::bench
