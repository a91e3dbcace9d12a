// SPDX-License-Identifier: Apache-2.0
#include "trove/kvmem/memory_keyval.h"

#include "base/check.h"
#include "trove/transaction_state.h"
#include "trove/versioned_map.h"

namespace spate::trove {
namespace {

struct MemoryStore {
  explicit MemoryStore(std::size_t window_bytes) : resolver(window_bytes) {}
  Resolver resolver;
  VersionedMap map;
};

class MemoryTransaction final : public Transaction {
 public:
  explicit MemoryTransaction(MemoryStore& store) : store_(store), state_(store.resolver) {}

  bool post_get(ByteView key, ReadMode mode, void* user, KeyvalCompletion& done) override {
    start(user, done);
    if (state_.get_own(key, done)) return true;
    state_.note_key(key, mode);
    if (const Bytes* value = store_.map.get(key, state_.point.version())) done.value = *value;
    return true;
  }

  bool post_get_many(std::span<const Bytes> keys, ReadMode mode, void* user, KeyvalCompletion& done) override {
    start(user, done);
    for (const Bytes& key : keys) {
      KeyvalCompletion one;
      post_get(key, mode, user, one);
      if (one.value) done.entries.push_back({key, *std::move(one.value)});
    }
    return true;
  }

  bool post_range(const KeyRange& range, void* user, KeyvalCompletion& done) override {
    start(user, done);
    StoreEntries found = store_.map.range(range.begin, range.end, state_.wanted(range), state_.point.version());
    state_.finish_range(range, std::move(found), state_.writes, done);
    return true;
  }

  void note_read(ByteView key) override { state_.note_key(key, ReadMode::kChecked); }
  void note_range_read(ByteView begin, ByteView end) override { state_.reads.add_range(begin, end); }
  void put(ByteView key, ByteView value) override { state_.writes.put(key, value); }
  void erase(ByteView key) override { state_.writes.erase(key); }

  bool post_commit(Durability /*durability*/, void* user, KeyvalCompletion& done) override {
    start(user, done);
    if (!state_.finish()) {
      done.status = Errc::kConflict;
    } else if (!state_.writes.empty()) {
      store_.resolver.tell(state_.writes);
      const Version version = store_.resolver.decide();
      store_.resolver.applied_now(version, state_.writes);
      store_.map.apply(version, batch_of(state_.writes), store_.resolver.oldest());
    }
    return true;
  }

 private:
  void start(void* user, KeyvalCompletion& done) const {
    SPATE_CHECK(!state_.finished());
    done = KeyvalCompletion{};
    done.user = user;
  }

  MemoryStore& store_;
  TransactionState state_;
};

class MemoryKeyval final : public Keyval {
 public:
  explicit MemoryKeyval(MemoryKeyvalOptions options) : store_(options.conflict_window_bytes) {}
  ~MemoryKeyval() override { SPATE_CHECK(!store_.resolver.anyone_live()); }

  std::unique_ptr<Transaction> begin() override { return std::make_unique<MemoryTransaction>(store_); }
  bool post_sync(void* user, KeyvalCompletion& done) override {
    done = KeyvalCompletion{};
    done.user = user;
    return true;
  }
  std::size_t test(std::span<KeyvalCompletion> /*out*/) override { return 0; }
  int wait_descriptor() const override { return -1; }
  bool prepare_to_wait() override { return true; }
  std::string describe() const override { return "kvmem"; }
  void observe_commits(CommitObserver* observer) override { store_.resolver.observe_commits(observer); }

 private:
  MemoryStore store_;
};

}  // namespace

std::unique_ptr<Keyval> make_memory_keyval(MemoryKeyvalOptions options) {
  return std::make_unique<MemoryKeyval>(options);
}

}  // namespace spate::trove
