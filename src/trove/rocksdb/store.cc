// SPDX-License-Identifier: Apache-2.0
#include "trove/rocksdb/store.h"

#include "base/check.h"
#include "log/log.h"
#include "trove/rocksdb/status.h"

namespace spate::trove {
namespace {

constexpr std::size_t kRecordsAfterTrim = std::size_t{1} << 20;  // bytes

rocksdb::WriteOptions inline_write() {
  rocksdb::WriteOptions options;
  options.no_slowdown = true;
  return options;
}

}  // namespace

RocksdbStore::RocksdbStore(std::unique_ptr<rocksdb::DB> db, const RocksdbOptions& options, SpaceReserve reserve)
    : folder_(options.folder),
      db_(std::move(db)),
      read_threads_(options.read_threads),
      inline_reads_(options.inline_reads),
      inline_commits_(options.inline_commits),
      resolver_(options.conflict_window_bytes),
      records_(options.record_cache_bytes),
      syncer_(*db_, events_, std::move(reserve)) {
  SPATE_CHECK(read_threads_ >= 1);
}

RocksdbStore::~RocksdbStore() { SPATE_CHECK(!resolver_.anyone_live()); }

void RocksdbStore::trim_memory() { records_.shrink(kRecordsAfterTrim); }

SnapshotRef RocksdbStore::snapshot() {
  rocksdb::DB* db = db_.get();
  return {db->GetSnapshot(), [db](const rocksdb::Snapshot* taken) { db->ReleaseSnapshot(taken); }};
}

void RocksdbStore::watch(SnapshotReader& reader) {
  reader.watch_index = watched_.size();
  watched_.push_back(&reader);
}

void RocksdbStore::forget(SnapshotReader& reader) {
  const std::size_t at = reader.watch_index;
  SPATE_CHECK(at < watched_.size() && watched_[at] == &reader);
  watched_[at] = watched_.back();
  watched_[at]->watch_index = at;
  watched_.pop_back();
}

void RocksdbStore::pin_watched() {
  if (watched_.empty()) return;
  const SnapshotRef shared = snapshot();
  for (SnapshotReader* reader : watched_) reader->pin(shared);
  watched_.clear();
}

void RocksdbStore::read_in_thread(SnapshotReader& reader, SnapshotRef snapshot, std::unique_ptr<Read> read,
                                  void* user) {
  auto shared = std::make_shared<ThreadedRead>();
  shared->snapshot = std::move(snapshot);
  shared->parts = std::min(read->parts(), read_threads_);
  shared->left = shared->parts;
  shared->event.user = user;
  shared->event.completes = true;
  shared->event.reader = &reader;
  shared->event.read = std::move(read);
  for (unsigned part = 0; part < shared->parts; ++part) {
    readers_.run([this, shared, part] { run_part(*shared, part); });
  }
}

void RocksdbStore::run_part(ThreadedRead& read, unsigned part) {
  rocksdb::ReadOptions options;
  options.snapshot = read.snapshot.get();
  const Errc status = read.event.read->step_part(*db_, options, part, read.parts);
  if (status != Errc::kOk) read.status.store(status);
  if (read.left.fetch_sub(1) != 1) return;
  read.event.status = read.status.load();
  read.snapshot.reset();
  events_.push(std::move(read.event));
}

void RocksdbStore::fill_batch(const WriteSet& writes) {
  batch_.Clear();
  for (const auto& [key, write] : writes) {
    // Only a key or value of 4 GiB fails here, and our codecs cannot make one.
    const rocksdb::Status status =
        write.erased ? batch_.Delete(slice_of(key)) : batch_.Put(slice_of(key), slice_of(write.value));
    SPATE_CHECK(status.ok());
  }
}

void RocksdbStore::forget_records(const WriteSet& writes) {
  for (const auto& [key, write] : writes) records_.erase(key);
}

void RocksdbStore::note_records(const WriteSet& writes) {
  for (const auto& [key, write] : writes) {
    if (write.erased) {
      records_.erase(key);
    } else {
      // A new record enters the cache when it is read: otherwise every create would pay for it.
      records_.update(key, write.value);
    }
  }
}

bool RocksdbStore::commit(const WriteSet& writes, Durability durability, void* user, KeyvalCompletion& done) {
  if (syncer_.failed()) {
    done.status = Errc::kIoError;
    return true;
  }
  pin_watched();
  fill_batch(writes);
  const bool at_once = inline_commits_ && resolver_.settled();
  const Version version = resolver_.decide();
  rocksdb::Status status = rocksdb::Status::Incomplete();
  if (at_once) status = db_->Write(inline_write(), &batch_);
  if (!status.ok()) forget_records(writes);
  if (status.IsIncomplete()) {
    resolver_.applied_later(version, writes);
    commit_in_thread(version, durability, user);
    return false;
  }
  syncer_.note_write(status.ok());
  if (!status.ok()) {
    SPATE_LOG("trove/rocksdb", warn, "commit failed status={}", status.ToString());
    resolver_.failed_now(version);
    done.status = errc_of(status);
    return true;
  }
  resolver_.applied_now(version, writes);
  note_records(writes);
  if (durability == Durability::kProcess) return true;
  syncer_.add(user, version);
  return false;
}

void RocksdbStore::commit_in_thread(Version version, Durability durability, void* user) {
  const bool sync = durability == Durability::kMachine;
  writer_.run([this, version, sync, user, batch = std::exchange(batch_, rocksdb::WriteBatch())]() mutable {
    const rocksdb::Status status = db_->Write(rocksdb::WriteOptions(), &batch);
    syncer_.note_write(status.ok());
    if (!status.ok()) SPATE_LOG("trove/rocksdb", warn, "commit failed status={}", status.ToString());
    Event event;
    event.user = user;
    event.status = errc_of(status);
    event.completes = !sync || !status.ok();
    event.settled = version;
    events_.push(std::move(event));
    if (sync && status.ok()) syncer_.add(user, version);
  });
}

bool RocksdbStore::post_sync(void* user, KeyvalCompletion& done) {
  done = KeyvalCompletion{};
  done.user = user;
  if (syncer_.failed()) {
    done.status = Errc::kIoError;
    return true;
  }
  const Version version = resolver_.decided();
  if (synced_ >= version) return true;
  if (resolver_.settled()) {
    syncer_.add(user, version);
  } else {
    writer_.run([this, user, version] { syncer_.add(user, version); });
  }
  return false;
}

bool RocksdbStore::complete(Event& event, KeyvalCompletion& out) {
  if (event.settled != 0) resolver_.settle(event.settled);
  synced_ = std::max(synced_, event.synced);
  if (!event.completes) return false;
  out = KeyvalCompletion{};
  out.user = event.user;
  out.status = event.status;
  if (event.read != nullptr && event.status == Errc::kOk) event.reader->finish_read(*event.read, out);
  return true;
}

std::size_t RocksdbStore::test(std::span<KeyvalCompletion> out) {
  std::size_t n = 0;
  Event event;
  while (n < out.size() && events_.pop(event)) n += complete(event, out[n]) ? 1 : 0;
  return n;
}

}  // namespace spate::trove
