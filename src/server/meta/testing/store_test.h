// SPDX-License-Identifier: Apache-2.0
// For tests: a store that completes later and out of order, so that operations overlap. It can lose unsynced commits.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/random.h"
#include "trove/keyval.h"
#include "trove/kvmem/memory_keyval.h"

namespace spate::meta {

/// A memory store that completes in an order drawn from `random`; if that is null, at once.
class TestStore final : public trove::Keyval {
 public:
  explicit TestStore(Random* random) : inner_(trove::make_memory_keyval()), random_(random) {}

  std::unique_ptr<trove::Transaction> begin() override { return std::make_unique<Slow>(*this, inner_->begin()); }
  bool post_sync(void* user, trove::KeyvalCompletion& done) override {
    ++syncs;
    const Errc refused = on_sync ? on_sync() : Errc::kOk;
    inner_->post_sync(user, done);
    done.status = refused == Errc::kOk ? done.status : refused;
    if (done.status == Errc::kOk) keep_all();
    return finish(done);
  }
  std::size_t test(std::span<trove::KeyvalCompletion> out) override {
    std::size_t n = 0;
    // Yields not all at once, so that a resumed coroutine may post again before the others resume.
    while (n < out.size() && !waiting_.empty() && (n == 0 || random_->chance(1, 2))) {
      const auto at = waiting_.begin() + static_cast<std::ptrdiff_t>(random_->below(waiting_.size()));
      out[n++] = std::move(*at);
      waiting_.erase(at);
    }
    return n;
  }
  int wait_descriptor() const override { return -1; }
  bool prepare_to_wait() override { return waiting_.empty(); }
  std::string describe() const override { return "test"; }
  void observe_commits(trove::CommitObserver* observer) override { inner_->observe_commits(observer); }

  /// Crashes the machine: of the commits since the last sync only the first `kept` survive. No operation may be under
  /// way.
  void crash_machine(std::size_t kept = 0) {
    unsynced_.resize(std::min(kept, unsynced_.size()));
    keep_all();
    inner_ = trove::make_memory_keyval();
    const auto transaction = inner_->begin();
    for (const auto& [key, value] : synced_) transaction->put(key, value);
    trove::KeyvalCompletion done;
    SPATE_CHECK(transaction->post_commit(trove::Durability::kMachine, nullptr, done) && done.status == Errc::kOk);
  }
  std::size_t unsynced() const { return unsynced_.size(); }

  /// Called before each commit. kOk lets it through; any other code becomes its outcome.
  std::function<Errc()> on_commit;
  /// Called after a commit. Any code but kOk becomes its outcome, although it has taken effect.
  std::function<Errc()> after_commit;
  /// Called before each sync. Any code but kOk becomes its outcome.
  std::function<Errc()> on_sync;
  std::size_t commits = 0;
  std::size_t gets = 0;
  std::size_t ranges = 0;
  std::size_t puts = 0;
  std::size_t syncs = 0;

 private:
  using Writes = std::vector<std::pair<Bytes, std::optional<Bytes>>>;  // no value: erased
  class Slow final : public trove::Transaction {
   public:
    Slow(TestStore& owner, std::unique_ptr<trove::Transaction> inner) : owner_(owner), inner_(std::move(inner)) {}
    bool post_get(ByteView key, trove::ReadMode mode, void* user, trove::KeyvalCompletion& done) override {
      ++owner_.gets;
      inner_->post_get(key, mode, user, done);
      return owner_.finish(done);
    }
    bool post_get_many(std::span<const Bytes> keys, trove::ReadMode mode, void* user,
                       trove::KeyvalCompletion& done) override {
      inner_->post_get_many(keys, mode, user, done);
      return owner_.finish(done);
    }
    bool post_range(const trove::KeyRange& range, void* user, trove::KeyvalCompletion& done) override {
      ++owner_.ranges;
      inner_->post_range(range, user, done);
      return owner_.finish(done);
    }
    void note_read(ByteView key) override { inner_->note_read(key); }
    void note_range_read(ByteView begin, ByteView end) override { inner_->note_range_read(begin, end); }
    void put(ByteView key, ByteView value) override {
      ++owner_.puts;
      inner_->put(key, value);
      writes_.emplace_back(to_bytes(key), to_bytes(value));
    }
    void erase(ByteView key) override {
      inner_->erase(key);
      writes_.emplace_back(to_bytes(key), std::nullopt);
    }
    bool post_commit(trove::Durability durability, void* user, trove::KeyvalCompletion& done) override {
      ++owner_.commits;
      const Errc refused = owner_.on_commit ? owner_.on_commit() : Errc::kOk;
      if (refused == Errc::kOk) {
        inner_->post_commit(durability, user, done);
        if (done.status == Errc::kOk) owner_.committed(std::move(writes_), durability, done);
      } else {
        done.user = user;
        done.status = refused;
      }
      return owner_.finish(done);
    }

   private:
    TestStore& owner_;
    std::unique_ptr<trove::Transaction> inner_;
    Writes writes_;
  };

  void committed(Writes writes, trove::Durability durability, trove::KeyvalCompletion& done) {
    unsynced_.push_back(std::move(writes));
    if (durability == trove::Durability::kMachine) keep_all();
    const Errc lost = after_commit ? after_commit() : Errc::kOk;
    if (lost != Errc::kOk) done.status = lost;
  }
  void keep_all() {
    for (Writes& commit : unsynced_) {
      for (auto& [key, value] : commit) {
        if (value) {
          synced_.insert_or_assign(std::move(key), *std::move(value));
        } else {
          synced_.erase(key);
        }
      }
    }
    unsynced_.clear();
  }

  bool finish(trove::KeyvalCompletion& done) {
    if (random_ == nullptr) return true;
    waiting_.push_back(std::move(done));
    return false;
  }

  std::unique_ptr<trove::Keyval> inner_;
  Random* random_;
  std::deque<trove::KeyvalCompletion> waiting_;
  std::map<Bytes, Bytes> synced_;
  std::vector<Writes> unsynced_;
};

}  // namespace spate::meta
