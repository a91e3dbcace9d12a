// SPDX-License-Identifier: Apache-2.0
// What a transaction costs in addition to the store under it. References in the same run: RocksDB's own Put,
// WriteBatch, Get, MultiGet and iterator with the same options; and kvmem, whose time has no part of RocksDB. Warm: the
// data is in the system's cache.
#include <benchmark/benchmark.h>
#include <poll.h>
#include <rocksdb/db.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "trove/kvmem/memory_keyval.h"
#include "trove/rocksdb/options.h"
#include "trove/rocksdb/rocksdb_keyval.h"

namespace spate::trove {
namespace {

constexpr std::size_t kValueBytes = 200;
constexpr std::size_t kInodeBytes = 100;
constexpr std::uint64_t kInodes = 1'000'000;
constexpr std::size_t kBatch = 256;

/// A key whose number is big-endian, as in an inode's key, so that keys have the order of their numbers.
Bytes key_of(char kind, std::uint64_t number) {
  Bytes key(17);
  key[0] = static_cast<std::byte>(kind);
  for (int i = 0; i < 8; ++i) {
    key[static_cast<std::size_t>(1 + i)] = static_cast<std::byte>(number >> (56 - 8 * i));
    key[static_cast<std::size_t>(9 + i)] = static_cast<std::byte>(i);
  }
  return key;
}

std::string value_of(std::uint64_t number, std::size_t size) {
  std::string value(size, '\0');
  SeededRandom random(number);
  random.fill({reinterpret_cast<std::byte*>(value.data()), size / 2});  // half of a record is random, half compresses
  return value;
}

rocksdb::Slice slice(ByteView bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

std::string scratch(const char* name) {
  const char* base = std::getenv("SPATE_BENCH_DIR");
  const std::filesystem::path folder = std::filesystem::path(base == nullptr ? "." : base) / name;
  std::filesystem::remove_all(folder);
  return folder;
}

KeyvalCompletion wait(Keyval& store) {
  std::array<KeyvalCompletion, 1> out;
  while (store.test(out) == 0) {
    if (!store.prepare_to_wait()) continue;
    pollfd wanted{store.wait_descriptor(), POLLIN, 0};
    ::poll(&wanted, 1, -1);
  }
  return std::move(out[0]);
}

void commit(Keyval& store, Transaction& transaction, Durability durability = Durability::kProcess) {
  KeyvalCompletion done;
  if (!transaction.post_commit(durability, nullptr, done)) done = wait(store);
  SPATE_CHECK(done.status == Errc::kOk);
}

KeyvalCompletion get(Keyval& store, Transaction& transaction, ByteView key) {
  KeyvalCompletion done;
  if (!transaction.post_get(key, ReadMode::kChecked, nullptr, done)) done = wait(store);
  SPATE_CHECK(done.status == Errc::kOk);
  return done;
}

/// A create: reads the parent and the absent entry; writes entry, inode, parent and the answer kept for resends.
void create(Keyval& store, std::uint64_t number, const std::string& value, Durability durability) {
  const auto transaction = store.begin();
  get(store, *transaction, key_of('i', 1));
  get(store, *transaction, key_of('e', number));
  transaction->put(key_of('e', number), as_bytes(value));
  transaction->put(key_of('i', number), as_bytes(value));
  transaction->put(key_of('i', 1), as_bytes(value));
  transaction->put(key_of('s', 7), as_bytes(value));
  commit(store, *transaction, durability);
}

std::unique_ptr<Keyval> open_store(const char* name, std::size_t cache_bytes = std::size_t{8} << 20) {
  RocksdbOptions options;
  options.folder = scratch(name);
  options.block_cache_bytes = cache_bytes;
  return *open_rocksdb(options);
}

std::unique_ptr<rocksdb::DB> open_raw(const std::string& folder, std::size_t cache_bytes = std::size_t{8} << 20) {
  RocksdbOptions options;
  options.block_cache_bytes = cache_bytes;
  rocksdb::DB* db = nullptr;
  SPATE_CHECK(rocksdb::DB::Open(rocksdb_options(options), folder, &db).ok());
  return std::unique_ptr<rocksdb::DB>(db);
}

void BM_RawPut(benchmark::State& state) {
  const auto db = open_raw(scratch("kvbench-put"));
  const std::string value = value_of(1, kValueBytes);
  std::uint64_t n = 1;
  for (auto _ : state) SPATE_CHECK(db->Put({}, slice(key_of('i', ++n)), value).ok());
}

void BM_RawWriteBatch4(benchmark::State& state) {
  const auto db = open_raw(scratch("kvbench-batch"));
  const std::string value = value_of(1, kValueBytes);
  std::uint64_t n = 1;
  rocksdb::WriteBatch batch;
  for (auto _ : state) {
    batch.Clear();
    ++n;
    for (const Bytes& key : {key_of('e', n), key_of('i', n), key_of('i', 1), key_of('s', 7)}) {
      SPATE_CHECK(batch.Put(slice(key), value).ok());
    }
    SPATE_CHECK(db->Write({}, &batch).ok());
  }
}

/// The operations of a create without the transaction: the reference for its overhead.
void BM_RawGetGetWriteBatch4(benchmark::State& state) {
  const auto db = open_raw(scratch("kvbench-getbatch"));
  const std::string value = value_of(1, kValueBytes);
  std::uint64_t n = 1;
  rocksdb::WriteBatch batch;
  for (auto _ : state) {
    batch.Clear();
    ++n;
    std::string found;
    db->Get({}, slice(key_of('i', 1)), &found);
    db->Get({}, slice(key_of('e', n)), &found);
    for (const Bytes& key : {key_of('e', n), key_of('i', n), key_of('i', 1), key_of('s', 7)}) {
      SPATE_CHECK(batch.Put(slice(key), value).ok());
    }
    SPATE_CHECK(db->Write({}, &batch).ok());
  }
}

void create_many(benchmark::State& state, Keyval& store, Durability durability) {
  const std::string value = value_of(1, kValueBytes);
  std::uint64_t n = 1;
  for (auto _ : state) create(store, ++n, value, durability);
}

void BM_Create(benchmark::State& state) { create_many(state, *open_store("kvbench-create"), Durability::kProcess); }
void BM_CreateSynced(benchmark::State& state) {
  create_many(state, *open_store("kvbench-create"), Durability::kMachine);
}
void BM_CreateInMemory(benchmark::State& state) { create_many(state, *make_memory_keyval(), Durability::kProcess); }

/// As BM_Create, with other transactions open all the time. So the store records commits and takes snapshots.
void BM_CreateAmongOthers(benchmark::State& state) {
  const auto store = open_store("kvbench-others");
  const std::string value = value_of(1, kValueBytes);
  std::array<std::unique_ptr<Transaction>, 8> others;
  std::uint64_t n = 1;
  for (auto _ : state) {
    auto& other = others[n % others.size()];
    other = store->begin();
    get(*store, *other, key_of('i', n));
    create(*store, ++n, value, Durability::kProcess);
  }
}

/// A transaction of one blind put.
void BM_Put(benchmark::State& state) {
  const auto store = open_store("kvbench-oneput");
  const std::string value = value_of(1, kValueBytes);
  std::uint64_t n = 1;
  for (auto _ : state) {
    const auto transaction = store->begin();
    transaction->put(key_of('i', ++n), as_bytes(value));
    commit(*store, *transaction);
  }
}

/// A folder with a million inodes, written once for all benchmarks that read.
const std::string& inodes_folder() {
  static const std::string folder = [] {
    RocksdbOptions options;
    options.folder = scratch("kvbench-inodes");
    SPATE_CHECK(open_rocksdb(options).has_value());
    const std::string path = options.folder;
    const auto db = open_raw(path);
    rocksdb::WriteBatch batch;
    for (std::uint64_t i = 0; i < kInodes; ++i) {
      SPATE_CHECK(batch.Put(slice(key_of('i', i)), value_of(i, kInodeBytes)).ok());
      if (batch.Count() < 1000) continue;
      SPATE_CHECK(db->Write({}, &batch).ok());
      batch.Clear();
    }
    // Compact now, so that no compaction runs while the benchmarks read.
    rocksdb::CompactRangeOptions whole;
    whole.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
    SPATE_CHECK(db->Flush({}).ok() && db->CompactRange(whole, nullptr, nullptr).ok());
    return path;
  }();
  return folder;
}

/// 256 keys of inodes: consecutive ones, as those of a directory, or random ones (`scattered`).
std::vector<Bytes> some_keys(Random& random, bool scattered) {
  std::vector<Bytes> keys;
  const std::uint64_t first = random.below(kInodes - kBatch);
  for (std::size_t i = 0; i < kBatch; ++i) {
    keys.push_back(key_of('i', scattered ? random.below(kInodes) : first + i));
  }
  return keys;
}

/// Reads everything once. A block cache that is large enough then holds all of it.
void warm(Keyval& store) {
  KeyRange range;
  range.begin = key_of('i', 0);
  range.end = key_of('j', 0);
  range.limit = kInodes;
  range.mode = ReadMode::kSnapshot;
  const auto transaction = store.begin();
  KeyvalCompletion done;
  if (!transaction->post_range(range, nullptr, done)) done = wait(store);
  SPATE_CHECK(done.entries.size() == kInodes);
}

std::unique_ptr<Keyval> open_inodes(std::size_t cache_bytes) {
  RocksdbOptions options;
  options.folder = inodes_folder();
  options.block_cache_bytes = cache_bytes;
  std::unique_ptr<Keyval> store = *open_rocksdb(options);
  warm(*store);
  return store;
}

constexpr std::size_t kMiB = std::size_t{1} << 20;

void warm(rocksdb::DB& db) {
  const std::unique_ptr<rocksdb::Iterator> it(db.NewIterator({}));
  for (it->SeekToFirst(); it->Valid(); it->Next()) benchmark::DoNotOptimize(it->value().data());
}

void BM_RawMultiGet256(benchmark::State& state) {
  const auto db = open_raw(inodes_folder(), static_cast<std::size_t>(state.range(1)) * kMiB);
  warm(*db);
  SeededRandom random(1);
  for (auto _ : state) {
    const std::vector<Bytes> keys = some_keys(random, state.range(0) != 0);
    std::vector<rocksdb::Slice> slices;
    for (const Bytes& key : keys) slices.push_back(slice(key));
    std::vector<rocksdb::PinnableSlice> values(kBatch);
    std::vector<rocksdb::Status> statuses(kBatch);
    db->MultiGet({}, db->DefaultColumnFamily(), kBatch, slices.data(), values.data(), statuses.data());
    benchmark::DoNotOptimize(values.data());
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * static_cast<std::int64_t>(kBatch));
}

void BM_GetMany256(benchmark::State& state) {
  const auto store = open_inodes(static_cast<std::size_t>(state.range(1)) * kMiB);
  SeededRandom random(1);
  std::int64_t inline_answers = 0;
  for (auto _ : state) {
    const std::vector<Bytes> keys = some_keys(random, state.range(0) != 0);
    const auto transaction = store->begin();
    KeyvalCompletion done;
    if (transaction->post_get_many(keys, ReadMode::kSnapshot, nullptr, done)) {
      ++inline_answers;
    } else {
      done = wait(*store);
    }
    SPATE_CHECK(done.entries.size() == kBatch);
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * static_cast<std::int64_t>(kBatch));
  state.counters["inline"] = static_cast<double>(inline_answers) / static_cast<double>(state.iterations());
}

void BM_GetOne(benchmark::State& state) {
  const auto store = open_inodes(static_cast<std::size_t>(state.range(1)) * kMiB);
  SeededRandom random(1);
  std::uint64_t at = 0;
  for (auto _ : state) {
    const auto transaction = store->begin();
    at = state.range(0) != 0 ? random.below(kInodes) : (at + 1) % 1000;
    SPATE_CHECK(get(*store, *transaction, key_of('i', at)).value.has_value());
  }
}

void BM_RawScan1000(benchmark::State& state) {
  const auto db = open_raw(inodes_folder(), static_cast<std::size_t>(state.range(0)) * kMiB);
  warm(*db);
  SeededRandom random(1);
  for (auto _ : state) {
    const std::uint64_t first = random.below(kInodes - 1000);
    const Bytes begin = key_of('i', first);
    const Bytes end = key_of('i', first + 1000);
    rocksdb::ReadOptions options;
    const rocksdb::Slice upper = slice(end);
    options.iterate_upper_bound = &upper;
    const std::unique_ptr<rocksdb::Iterator> it(db->NewIterator(options));
    std::size_t bytes = 0;
    for (it->Seek(slice(begin)); it->Valid(); it->Next()) bytes += it->key().size() + it->value().size();
    SPATE_CHECK(bytes == 1000 * (17 + kInodeBytes));
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * 1000);
}

void BM_Range1000(benchmark::State& state) {
  const auto store = open_inodes(static_cast<std::size_t>(state.range(0)) * kMiB);
  SeededRandom random(1);
  for (auto _ : state) {
    KeyRange range;
    const std::uint64_t first = random.below(kInodes - 1000);
    range.begin = key_of('i', first);
    range.end = key_of('i', first + 1000);
    range.limit = 1000;
    range.mode = ReadMode::kSnapshot;
    const auto transaction = store->begin();
    KeyvalCompletion done;
    if (!transaction->post_range(range, nullptr, done)) done = wait(*store);
    SPATE_CHECK(done.entries.size() == 1000);
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * 1000);
}

BENCHMARK(BM_RawPut);
BENCHMARK(BM_Put);
BENCHMARK(BM_RawWriteBatch4);
BENCHMARK(BM_RawGetGetWriteBatch4);
BENCHMARK(BM_Create);
BENCHMARK(BM_CreateAmongOthers);
BENCHMARK(BM_CreateInMemory);
BENCHMARK(BM_CreateSynced)->UseRealTime();
// {0: consecutive keys, 1: scattered} x MiB of block cache: the default, and a cache that holds everything.
BENCHMARK(BM_RawMultiGet256)->ArgsProduct({{0, 1}, {8, 256}})->UseRealTime();
BENCHMARK(BM_GetMany256)->ArgsProduct({{0, 1}, {8, 256}})->UseRealTime();
BENCHMARK(BM_GetOne)->ArgsProduct({{0, 1}, {8, 256}})->UseRealTime();
BENCHMARK(BM_RawScan1000)->Arg(8)->Arg(256)->UseRealTime();
BENCHMARK(BM_Range1000)->Arg(8)->Arg(256)->UseRealTime();

}  // namespace
}  // namespace spate::trove
