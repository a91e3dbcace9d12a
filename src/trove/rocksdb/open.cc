// SPDX-License-Identifier: Apache-2.0
// Opening the store: RocksDB's options, the format record, and what to say when it does not work.
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>

#include "base/codec.h"
#include "log/log.h"
#include "trove/rocksdb/read.h"
#include "trove/rocksdb/rocksdb_keyval.h"
#include "trove/rocksdb/status.h"
#include "trove/rocksdb/store.h"

namespace spate::trove {
namespace {

// docs/disk-keyval.md, "Format record".
constexpr std::string_view kFormatName = "spate keyval";
constexpr std::uint32_t kFormatVersion = 1;
constexpr std::size_t kMaxFormatName = 64;

rocksdb::BlockBasedTableOptions table_options(const RocksdbOptions& options) {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(options.block_cache_bytes, /*num_shard_bits=*/2);
  table.block_size = 4096;
  table.format_version = 5;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  // Index and filters in pieces and in the cache: a store of any size takes no more memory than the cache.
  table.index_type = rocksdb::BlockBasedTableOptions::kTwoLevelIndexSearch;
  table.partition_filters = true;
  table.cache_index_and_filter_blocks = true;
  table.cache_index_and_filter_blocks_with_high_priority = true;
  table.pin_top_level_index_and_filter = true;
  return table;
}

rocksdb::Options rocksdb_options(const RocksdbOptions& options) {
  rocksdb::Options db;
  if (options.env != nullptr) db.env = options.env;
  db.create_if_missing = true;
  db.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table_options(options)));
  db.write_buffer_size = options.write_buffer_bytes;
  db.max_write_buffer_number = 3;
  db.target_file_size_base = std::uint64_t{32} << 20;
  db.max_bytes_for_level_base = std::uint64_t{64} << 20;
  db.level_compaction_dynamic_level_bytes = true;
  db.compression = rocksdb::kNoCompression;
  db.max_open_files = 256;
  db.max_background_jobs = 2;
  db.bytes_per_sync = std::uint64_t{1} << 20;  // tables only; for the log it would stall the writer
  // One thread writes: the concurrent memtable would only cost.
  db.allow_concurrent_memtable_write = false;
  db.avoid_flush_during_recovery = true;
  // After a machine's crash the log may end in garbage: what was synced lies before it.
  db.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  // A killed process loses nothing: each commit is handed to the system before it is acknowledged.
  db.manual_wal_flush = false;
  db.info_log_level = rocksdb::WARN_LEVEL;
  db.keep_log_file_num = 2;
  db.max_log_file_size = std::size_t{1} << 20;
  db.stats_dump_period_sec = 0;
  db.stats_persist_period_sec = 0;
  return db;
}

Error open_error(const RocksdbOptions& options, const rocksdb::Status& status) {
  const std::string text = status.ToString();
  const auto says = [&text](std::string_view part) { return text.find(part) != std::string::npos; };
  const std::string store = "keyval store " + options.folder;
  if (status.IsIOError() && says("lock") &&
      (says("Resource temporarily unavailable") || says("lock hold by current"))) {
    return {Errc::kBusy, store + ": another spated uses this folder; stop it, or give this server a folder of its own"};
  }
  if (says("Permission denied")) {
    return {Errc::kPermissionDenied, store + ": give its folder to the user that runs spated (" + text + ")"};
  }
  if (says("No such file or directory")) {
    return {Errc::kNotFound, store + ": create the folder above it, or correct the path in spate.toml (" + text + ")"};
  }
  if (status.IsCorruption()) {
    return {Errc::kCorrupt, store + ": its files are damaged; restore them from a backup (" + text + ")"};
  }
  if (status.IsNoSpace()) return {Errc::kNoSpace, store + ": free some space on its device (" + text + ")"};
  const Errc code = errc_of(status);
  return {code == Errc::kNotFound ? Errc::kIoError : code, store + ": could not be opened (" + text + ")"};
}

Bytes format_record() {
  Bytes record;
  Encoder encoder(record);
  encoder.text(kFormatName);
  encoder.u32(kFormatVersion);
  return record;
}

Result<void> read_format(const RocksdbOptions& options, ByteView record) {
  const std::string store = "keyval store " + options.folder;
  Decoder decoder(record);
  const std::string format_name = decoder.text(kMaxFormatName);
  const std::uint32_t version = decoder.u32();
  if (!decoder.ok() || format_name != kFormatName || version == 0) {
    return Error(Errc::kCorrupt, store + ": its format record is damaged; restore it from a backup");
  }
  // Whatever follows in the record of a newer version is not ours to judge.
  if (version > kFormatVersion) {
    return Error(Errc::kFormatTooNew, store + ": it has format " + std::to_string(version) +
                                          ", this spated knows up to " + std::to_string(kFormatVersion) +
                                          "; use a newer spated");
  }
  return decoder.finish(store + ": format record");
}

Result<void> write_format(const RocksdbOptions& options, rocksdb::DB& db) {
  const std::unique_ptr<rocksdb::Iterator> any(db.NewIterator(rocksdb::ReadOptions()));
  any->SeekToFirst();
  if (any->Valid()) {
    return Error(Errc::kWrongFileSystem,
                 "keyval store " + options.folder + ": the folder holds a RocksDB store that Spate has not written");
  }
  if (!any->status().ok()) return open_error(options, any->status());
  rocksdb::WriteOptions synced;
  synced.sync = true;
  const rocksdb::Status status =
      db.Put(synced, rocksdb::Slice(kFormatKey, sizeof kFormatKey), slice_of(format_record()));
  if (!status.ok()) return open_error(options, status);
  return {};
}

Result<void> check_format(const RocksdbOptions& options, rocksdb::DB& db) {
  std::string record;
  const rocksdb::Status status = db.Get(rocksdb::ReadOptions(), rocksdb::Slice(kFormatKey, sizeof kFormatKey), &record);
  if (status.IsNotFound()) return write_format(options, db);
  if (!status.ok()) return open_error(options, status);
  return read_format(options, as_bytes(record));
}

}  // namespace

Result<std::unique_ptr<Keyval>> open_rocksdb(const RocksdbOptions& options) {
  rocksdb::DB* raw = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(rocksdb_options(options), options.folder, &raw);
  if (!status.ok()) return open_error(options, status);
  std::unique_ptr<rocksdb::DB> db(raw);
  SPATE_TRY(std::ignore, check_format(options, *db));
  SPATE_LOG("trove/rocksdb", info, "store open folder={}", options.folder);
  return std::unique_ptr<Keyval>(std::make_unique<RocksdbStore>(std::move(db), options));
}

}  // namespace spate::trove
