// SPDX-License-Identifier: Apache-2.0
#include "trove/kvsim/sim_keyval.h"

#include <algorithm>

#include "base/check.h"
#include "trove/transaction_state.h"

namespace spate::trove {

/// Reads take their answer from memory at their post, and only report it later. That is correct, since the answer
/// belongs to the transaction's point in the commit order.
class SimKeyval::SimTransaction final : public Transaction {
 public:
  explicit SimTransaction(SimKeyval& store) : store_(store), state_(store.resolver_) {}

  bool post_get(ByteView key, ReadMode mode, void* user, KeyvalCompletion& done) override {
    start(user, done);
    read(key, mode, done);
    return store_.deliver_read(done);
  }

  bool post_get_many(std::span<const Bytes> keys, ReadMode mode, void* user, KeyvalCompletion& done) override {
    start(user, done);
    for (const Bytes& key : keys) {
      KeyvalCompletion one;
      read(key, mode, one);
      if (one.value) done.entries.push_back({key, *std::move(one.value)});
    }
    return store_.deliver_read(done);
  }

  bool post_range(const KeyRange& range, void* user, KeyvalCompletion& done) override {
    start(user, done);
    StoreEntries found = store_.map_.range(range.begin, range.end, state_.wanted(range), state_.point.version());
    state_.finish_range(range, std::move(found), state_.writes, done);
    return store_.deliver_read(done);
  }

  void note_read(ByteView key) override { state_.note_key(key, ReadMode::kChecked); }
  void note_range_read(ByteView begin, ByteView end) override { state_.reads.add_range(begin, end); }
  void put(ByteView key, ByteView value) override { state_.writes.put(key, value); }
  void erase(ByteView key) override { state_.writes.erase(key); }

  bool post_commit(Durability durability, void* user, KeyvalCompletion& done) override {
    start(user, done);
    if (!state_.finish()) {
      done.status = Errc::kConflict;
      return store_.deliver(store_.options_.commit, done);
    }
    if (state_.writes.empty()) return store_.deliver(store_.options_.commit, done);
    store_.resolver_.tell(state_.writes);
    return store_.commit(state_.writes, durability, done);
  }

 private:
  void start(void* user, KeyvalCompletion& done) const {
    SPATE_CHECK(!state_.finished());
    done = KeyvalCompletion{};
    done.user = user;
  }
  void read(ByteView key, ReadMode mode, KeyvalCompletion& done) {
    if (state_.get_own(key, done)) return;
    state_.note_key(key, mode);
    if (const Bytes* value = store_.map_.get(key, state_.point.version())) done.value = *value;
  }

  SimKeyval& store_;
  TransactionState state_;
};

SimKeyval::SimKeyval(SimKeyvalDisk& disk, ManualClock& clock, Random& random, SimKeyvalOptions options)
    : disk_(disk), clock_(clock), random_(random), options_(options), resolver_(options.conflict_window_bytes) {
  disk_.attach();
  if (options_.sync_recovered) disk_.sync_recovered();
  map_.apply(0, disk_.contents(), 0);
}

SimKeyval::~SimKeyval() {
  SPATE_CHECK(!resolver_.anyone_live());
  if (alive_) disk_.detach();
}

void SimKeyval::kill() {
  if (!std::exchange(alive_, false)) return;
  disk_.detach();
  for (auto& [when, event] : events_) complete(event.user, Errc::kCancelled);
  events_.clear();
}

Duration SimKeyval::draw(const SimLatency& latency) {
  const auto span = static_cast<std::uint64_t>((latency.max - latency.min).count());
  return latency.min + Duration(static_cast<std::int64_t>(random_.below(span + 1)));
}

void SimKeyval::after(Duration delay, void* user, UniqueFunction<void()> run) {
  events_.emplace(std::pair(clock_.now() + delay, ++event_order_), Event{user, std::move(run)});
}

void SimKeyval::complete(void* user, Errc status) {
  KeyvalCompletion done;
  done.user = user;
  done.status = status;
  ready_.push_back(std::move(done));
}

bool SimKeyval::deliver(const SimLatency& latency, KeyvalCompletion& done) {
  if (!alive_) done.status = Errc::kCancelled;
  if (done.status != Errc::kOk) {
    done.value.reset();
    done.entries.clear();
    done.more = false;
  }
  if (!alive_ || at_once()) return true;
  void* user = done.user;
  after(draw(latency), user, [this, late = std::exchange(done, {})]() mutable { ready_.push_back(std::move(late)); });
  return false;
}

bool SimKeyval::deliver_read(KeyvalCompletion& done) {
  if (strikes(disk_.faults.read_error_per_mille)) done.status = Errc::kIoError;
  return deliver(options_.read, done);
}

Errc SimKeyval::apply(Version version, Batch batch) {
  if (failed_) return Errc::kIoError;
  if (disk_.faults.full) return Errc::kNoSpace;
  if (strikes(disk_.faults.commit_error_per_mille)) {
    failed_ = true;
    // A write that failed may have reached the disk: the next start may find it.
    if (random_.chance(1, 2)) disk_.append(std::move(batch));
    return Errc::kIoError;
  }
  disk_.append(batch);
  map_.apply(version, std::move(batch), resolver_.oldest());
  return Errc::kOk;
}

bool SimKeyval::commit(const WriteSet& writes, Durability durability, KeyvalCompletion& done) {
  if (!alive_) return deliver(options_.commit, done);
  const bool first = resolver_.settled();
  const Version version = resolver_.decide();
  if (!first || !at_once() || disk_.faults.hangs) {
    resolver_.applied_later(version, writes);
    commit_later(version, batch_of(writes), durability, done.user);
    return false;
  }
  done.status = apply(version, batch_of(writes));
  if (done.status != Errc::kOk) {
    resolver_.failed_now(version);
    return true;
  }
  resolver_.applied_now(version, writes);
  if (durability == Durability::kProcess) return true;
  sync_later(done.user);
  return false;
}

void SimKeyval::commit_later(Version version, Batch batch, Durability durability, void* user) {
  last_apply_ = std::max(last_apply_, clock_.now() + draw(options_.commit));
  after(last_apply_ - clock_.now(), user, [this, version, durability, user, late = std::move(batch)]() mutable {
    const Errc status = apply(version, std::move(late));
    resolver_.settle(version);
    if (status == Errc::kOk && durability == Durability::kMachine) return sync_later(user);
    // The commit is on the disk, but the process may die before it learns that.
    after(draw(options_.commit), user, [this, user, status] { complete(user, status); });
  });
}

void SimKeyval::sync_later(void* user) {
  after(draw(options_.sync), user, [this, user, position = disk_.position()] {
    if (strikes(disk_.faults.sync_error_per_mille)) failed_ = true;
    if (failed_) return complete(user, Errc::kIoError);
    disk_.sync_to(position);
    complete(user, Errc::kOk);
  });
}

bool SimKeyval::post_sync(void* user, KeyvalCompletion& done) {
  done = KeyvalCompletion{};
  done.user = user;
  if (!alive_ || failed_) {
    done.status = alive_ ? Errc::kIoError : Errc::kCancelled;
    return true;
  }
  // A commit on its way to the disk counts as committed only when it completes, so a sync need not wait for it.
  sync_later(user);
  return false;
}

std::unique_ptr<Transaction> SimKeyval::begin() { return std::make_unique<SimTransaction>(*this); }

std::size_t SimKeyval::test(std::span<KeyvalCompletion> out) {
  std::size_t n = 0;
  for (; n < out.size() && !ready_.empty(); ++n) {
    out[n] = std::move(ready_.front());
    ready_.pop_front();
  }
  return n;
}

void SimKeyval::run_until(MonoTime when) {
  while (next_event_time() <= when && !events_.empty() && !disk_.faults.hangs) {
    const auto first = events_.begin();
    if (clock_.now() < first->first.first) clock_.set(first->first.first);
    UniqueFunction<void()> run = std::move(first->second.run);
    events_.erase(first);
    run();
  }
  if (clock_.now() < when) clock_.set(when);
}

}  // namespace spate::trove
