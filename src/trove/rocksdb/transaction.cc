// SPDX-License-Identifier: Apache-2.0
#include "trove/rocksdb/transaction.h"

#include "base/check.h"

namespace spate::trove {
namespace {

// Most keys of a read that runs inline: about a quarter of a millisecond of the loop's time (guess).
constexpr std::size_t kInlineKeys = 256;
constexpr std::size_t kInlineEntries = 1024;

}  // namespace

RocksdbTransaction::RocksdbTransaction(RocksdbStore& store) : store_(store), state_(store.resolver()) {
  store_.watch(*this);
}

RocksdbTransaction::~RocksdbTransaction() {
  if (snapshot_ == nullptr && !state_.finished()) store_.forget(*this);
}

void RocksdbTransaction::start(void* user, KeyvalCompletion& done) const {
  SPATE_CHECK(!state_.finished());
  done = KeyvalCompletion{};
  done.user = user;
}

void RocksdbTransaction::pin_now() {
  if (snapshot_ != nullptr) return;
  store_.forget(*this);
  snapshot_ = store_.snapshot();
}

rocksdb::ReadOptions RocksdbTransaction::prepare_read() {
  if (snapshot_ == nullptr && !store_.resolver().settled()) {
    // Only before the first read. After a read, either the transaction has a snapshot or the commit under way has asked
    // it to take one. The snapshot may contain some of the commits under way. Those count as later than the point, so
    // that seeing them conflicts.
    store_.resolver().refresh(state_.point);
    pin_now();
  }
  rocksdb::ReadOptions options;
  options.snapshot = snapshot_.get();
  options.read_tier = rocksdb::kBlockCacheTier;
  return options;
}

bool RocksdbTransaction::in_thread(std::unique_ptr<Read> read, void* user) {
  pin_now();
  store_.read_in_thread(*this, snapshot_, std::move(read), user);
  return false;
}

bool RocksdbTransaction::post_get(ByteView key, ReadMode mode, void* user, KeyvalCompletion& done) {
  start(user, done);
  if (state_.get_own(key, done)) return true;
  state_.note_key(key, mode);
  const rocksdb::ReadOptions options = prepare_read();
  RecordCache* const records = options.snapshot == nullptr ? &store_.records() : nullptr;
  if (records != nullptr) {
    if (const auto known = records->find(key)) {
      done.value = to_bytes(*known);
      return true;
    }
  }
  done.status = store_.inline_reads() ? read_one(store_.db(), options, key, done.value) : Errc::kTryAgain;
  if (done.status == Errc::kTryAgain) return in_thread(std::make_unique<GetRead>(key), user);
  if (records != nullptr && done.value) records->put(key, *done.value);
  return true;
}

bool RocksdbTransaction::post_get_many(std::span<const Bytes> keys, ReadMode mode, void* user, KeyvalCompletion& done) {
  start(user, done);
  auto read = std::make_unique<ManyRead>(keys, state_);
  for (const Bytes& key : keys) {
    if (state_.writes.find(key) == nullptr) state_.note_key(key, mode);
  }
  const rocksdb::ReadOptions options = prepare_read();
  done.status = read->step(store_.db(), options, store_.inline_reads() ? kInlineKeys : 0);
  if (done.status == Errc::kTryAgain) {
    read->own_keys();
    return in_thread(std::move(read), user);
  }
  if (done.status == Errc::kOk) read->finish(state_, done);
  return true;
}

bool RocksdbTransaction::post_range(const KeyRange& range, void* user, KeyvalCompletion& done) {
  start(user, done);
  auto read = std::make_unique<RangeRead>(range, state_.wanted(range), state_);
  const rocksdb::ReadOptions options = prepare_read();
  done.status = store_.inline_reads() ? read->step(store_.db(), options, kInlineEntries) : Errc::kTryAgain;
  if (done.status == Errc::kTryAgain) return in_thread(std::move(read), user);
  if (done.status == Errc::kOk) read->finish(state_, done);
  return true;
}

void RocksdbTransaction::finish_read(Read& read, KeyvalCompletion& done) { read.finish(state_, done); }

void RocksdbTransaction::put(ByteView key, ByteView value) {
  SPATE_CHECK(!is_reserved(key));
  state_.writes.put(key, value);
}

void RocksdbTransaction::erase(ByteView key) {
  SPATE_CHECK(!is_reserved(key));
  state_.writes.erase(key);
}

bool RocksdbTransaction::post_commit(Durability durability, void* user, KeyvalCompletion& done) {
  start(user, done);
  if (snapshot_ == nullptr) store_.forget(*this);
  snapshot_.reset();
  if (!state_.finish()) {
    done.status = Errc::kConflict;
    return true;
  }
  if (state_.writes.empty()) return true;
  store_.resolver().tell(state_.writes);
  return store_.commit(state_.writes, durability, user, done);
}

}  // namespace spate::trove
