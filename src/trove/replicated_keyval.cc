// SPDX-License-Identifier: Apache-2.0
#include "trove/replicated_keyval.h"

#include "base/check.h"
#include "base/codec.h"
#include "trove/log_entry.h"
#include "trove/write_set.h"

namespace spate::trove {

/// Passes everything to the inner transaction, but commits through the replicated store.
class ReplicatedKeyval::LoggedTransaction final : public Transaction {
 public:
  LoggedTransaction(ReplicatedKeyval& store, std::unique_ptr<Transaction> inner)
      : store_(store), inner_(std::move(inner)) {}

  bool post_get(ByteView key, ReadMode mode, void* user, KeyvalCompletion& done) override {
    return inner_->post_get(key, mode, user, done);
  }
  bool post_get_many(std::span<const Bytes> keys, ReadMode mode, void* user, KeyvalCompletion& done) override {
    return inner_->post_get_many(keys, mode, user, done);
  }
  bool post_range(const KeyRange& range, void* user, KeyvalCompletion& done) override {
    return inner_->post_range(range, user, done);
  }
  void note_read(ByteView key) override { inner_->note_read(key); }
  void note_range_read(ByteView begin, ByteView end) override { inner_->note_range_read(begin, end); }
  void put(ByteView key, ByteView value) override {
    SPATE_CHECK(key.empty() || key.front() != kGroupKeys);
    inner_->put(key, value);
  }
  void erase(ByteView key) override {
    SPATE_CHECK(key.empty() || key.front() != kGroupKeys);
    inner_->erase(key);
  }
  bool post_commit(Durability durability, void* user, KeyvalCompletion& done) override {
    return store_.commit(*inner_, durability, user, done);
  }

 private:
  ReplicatedKeyval& store_;
  std::unique_ptr<Transaction> inner_;
};

ReplicatedKeyval::ReplicatedKeyval(Keyval& inner, ReplicatedOptions options) : inner_(inner), options_(options) {
  SPATE_CHECK(options_.kept_entries >= 1);
  inner_.observe_commits(this);
}

ReplicatedKeyval::~ReplicatedKeyval() { inner_.observe_commits(nullptr); }

std::unique_ptr<Transaction> ReplicatedKeyval::begin() {
  return std::make_unique<LoggedTransaction>(*this, inner_.begin());
}

std::unique_ptr<Transaction> ReplicatedKeyval::begin_mark() {
  auto inner = inner_.begin();
  Bytes epoch;
  Encoder encoder(epoch);
  encoder.u64(epoch_);
  inner->put(group_key(GroupKey::kEpoch), epoch);
  return std::make_unique<LoggedTransaction>(*this, std::move(inner));
}

std::unique_ptr<Transaction> ReplicatedKeyval::begin_unlogged() { return inner_.begin(); }

void ReplicatedKeyval::observe_commits(CommitObserver* /*observer*/) {
  SPATE_CHECK(false);  // its inner store has an observer already: this one
}

void ReplicatedKeyval::lead(std::uint64_t epoch, LogPosition last, std::uint64_t first) {
  SPATE_CHECK(!leading_ && epoch > last.epoch);
  leading_ = true;
  epoch_ = epoch;
  last_ = last;
  first_ = first;
}

void ReplicatedKeyval::decided(WriteSet& writes) {
  if (!committing_) return;
  last_ = {epoch_, last_.index + 1};
  decided_at_ = last_.index;
  auto entry = std::make_shared<const Bytes>(encode_entry(last_, writes));
  writes.put(entry_key(last_.index), *entry);
  // Erases two entries for each new one, so that a log that has become too long shrinks.
  for (int i = 0; i < 2 && last_.index - first_ >= options_.kept_entries; ++i) writes.erase(entry_key(first_++));
  writes.put(group_key(GroupKey::kPosition), encode_position({last_, first_}));
  if (on_entry_) on_entry_(last_, std::move(entry));
}

bool ReplicatedKeyval::refuse(Errc status, void* user, KeyvalCompletion& done) const {
  done = KeyvalCompletion{};
  done.user = user;
  done.status = status;
  return true;
}

bool ReplicatedKeyval::commit(Transaction& inner, Durability durability, void* user, KeyvalCompletion& done) {
  if (!leading_ || broken_) return refuse(Errc::kCancelled, user, done);
  decided_at_ = 0;
  committing_ = true;
  const bool at_once = inner.post_commit(Durability::kProcess, user, done);
  committing_ = false;
  if (decided_at_ == 0) return at_once;  // a conflict, or nothing was written
  const Commit commit{decided_at_, durability};
  if (at_once) return finish(commit, done);
  in_flight_.emplace(user, commit);
  return false;
}

bool ReplicatedKeyval::finish(const Commit& commit, KeyvalCompletion& done) {
  if (done.status != Errc::kOk) {
    broken_ = true;
    return true;
  }
  if (commit.durability == Durability::kProcess || commit.index <= synced_) return true;
  // The store no longer leads: nobody reports what is synced.
  if (!leading_) return refuse(Errc::kCancelled, done.user, done);
  wait_for_sync(commit.index, done.user);
  return false;
}

void ReplicatedKeyval::wait_for_sync(std::uint64_t index, void* user) {
  waiting_.emplace(index, user);
  if (on_sync_wanted_) on_sync_wanted_();
}

bool ReplicatedKeyval::post_sync(void* user, KeyvalCompletion& done) {
  if (!leading_ || broken_) return refuse(Errc::kCancelled, user, done);
  done = KeyvalCompletion{};
  done.user = user;
  if (last_.index <= synced_) return true;
  wait_for_sync(last_.index, user);
  return false;
}

void ReplicatedKeyval::synced(std::uint64_t index) {
  if (index <= synced_) return;
  synced_ = index;
  while (!waiting_.empty() && waiting_.begin()->first <= index) {
    KeyvalCompletion done;
    done.user = waiting_.begin()->second;
    ready_.push_back(std::move(done));
    waiting_.erase(waiting_.begin());
  }
}

void ReplicatedKeyval::fail_waiting(Errc status) {
  for (const auto& [index, user] : waiting_) {
    KeyvalCompletion done;
    done.user = user;
    done.status = status;
    ready_.push_back(std::move(done));
  }
  waiting_.clear();
}

std::size_t ReplicatedKeyval::test(std::span<KeyvalCompletion> out) {
  const std::size_t end = inner_.test(out);
  std::size_t n = 0;
  for (std::size_t at = 0; at < end; ++at) {
    const auto found = in_flight_.find(out[at].user);
    if (found != in_flight_.end()) {
      const Commit commit = found->second;
      in_flight_.erase(found);
      if (!finish(commit, out[at])) continue;
    }
    if (n != at) out[n] = std::move(out[at]);
    ++n;
  }
  // Do it now, since some of the commits above may be synced already.
  for (; n < out.size() && !ready_.empty(); ++n) {
    out[n] = std::move(ready_.front());
    ready_.pop_front();
  }
  return n;
}

Bytes encode_position(const PositionRecord& record) {
  Bytes out;
  Encoder encoder(out);
  encoder.u64(record.last.epoch);
  encoder.u64(record.last.index);
  encoder.u64(record.first);
  return out;
}

Result<PositionRecord> decode_position(ByteView bytes) {
  Decoder in(bytes);
  PositionRecord record;
  record.last.epoch = in.u64();
  record.last.index = in.u64();
  record.first = in.u64();
  SPATE_TRY(std::ignore, in.finish("position of a group's log"));
  return record;
}

}  // namespace spate::trove
