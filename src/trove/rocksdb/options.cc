// SPDX-License-Identifier: Apache-2.0
#include "trove/rocksdb/options.h"

#include <rocksdb/cache.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/slice_transform.h>
#include <rocksdb/table.h>

#include "trove/rocksdb/reserve.h"

namespace spate::trove {
namespace {

rocksdb::BlockBasedTableOptions table_options(const RocksdbOptions& options) {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(options.block_cache_bytes, /*num_shard_bits=*/2);
  table.block_size = 4096;
  table.format_version = 5;
  table.data_block_index_type = rocksdb::BlockBasedTableOptions::kDataBlockBinaryAndHash;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  // The index and the filters lie in the cache, in pieces. So a store of any size takes no more memory than the cache
  // has.
  table.index_type = rocksdb::BlockBasedTableOptions::kTwoLevelIndexSearch;
  table.partition_filters = true;
  table.cache_index_and_filter_blocks = true;
  table.cache_index_and_filter_blocks_with_high_priority = true;
  table.pin_top_level_index_and_filter = true;
  return table;
}

}  // namespace

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
  // Preallocated space would look as if the device were full.
  db.allow_fallocate = false;
  db.bytes_per_sync = std::uint64_t{1} << 20;  // tables only; for the log it would stall the writer
  // One thread writes, so the concurrent memtable would only cost time.
  db.allow_concurrent_memtable_write = false;
  // The records of a kind are often written in the order of their keys. So the search for a record's place begins at
  // the place of the last one with the same two first bytes.
  db.memtable_insert_with_hint_prefix_extractor.reset(rocksdb::NewFixedPrefixTransform(2));
  // Entries that an earlier process left in its log become a table at the start: RocksDB never syncs that log again,
  // and after a failed sync the kernel may have dropped pages of it. A full device has no room for a table
  // (sync_old_logs()).
  db.avoid_flush_during_recovery = options.short_of_space || SpaceReserve::short_of_space(options.folder);
  // After a crash of the machine the log may end in garbage. Everything that was synced lies before it.
  db.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  // A killed process loses nothing: each commit is written to the kernel before it is acknowledged.
  db.manual_wal_flush = false;
  db.info_log_level = rocksdb::WARN_LEVEL;
  db.keep_log_file_num = 2;
  db.max_log_file_size = std::size_t{1} << 20;
  db.stats_dump_period_sec = 0;
  db.stats_persist_period_sec = 0;
  return db;
}

}  // namespace spate::trove
