// SPDX-License-Identifier: Apache-2.0
// The plants in the meta server's store.
#include <map>
#include <set>

#include "server/meta/store/keys.h"
#include "server/meta/store/records.h"
#include "tests/cluster/plants.h"

namespace spate::cluster {
namespace {

meta::KeyKind kind_of(ByteView key) {
  return key.empty() ? meta::KeyKind::kGlobal : static_cast<meta::KeyKind>(std::to_integer<char>(key.front()));
}

/// A store that falsifies some operations of its transactions.
class PlantedKeyval final : public trove::Keyval {
 public:
  PlantedKeyval(trove::Keyval& inner, Plant plant) : inner_(inner), plant_(plant) {}

  std::unique_ptr<trove::Transaction> begin() override;
  bool post_sync(void* user, trove::KeyvalCompletion& done) override { return inner_.post_sync(user, done); }
  std::size_t test(std::span<trove::KeyvalCompletion> out) override;
  int wait_descriptor() const override { return inner_.wait_descriptor(); }
  bool prepare_to_wait() override { return inner_.prepare_to_wait(); }
  std::string describe() const override { return inner_.describe(); }
  void observe_commits(trove::CommitObserver* observer) override { inner_.observe_commits(observer); }

 private:
  class PlantedTransaction;
  trove::Keyval& inner_;
  const Plant plant_;
  std::map<void*, std::pair<PlantedTransaction*, Bytes>> reading_;  // checked reads in flight, and their keys
};

/// kForgottenAnswer: drops answers. kRenameLoop: once a transaction has read two entries to change them, as only a
/// rename does, each directory that it reads seems to lie in the root, except those that move.
class PlantedKeyval::PlantedTransaction final : public trove::Transaction {
 public:
  PlantedTransaction(PlantedKeyval& store, std::unique_ptr<trove::Transaction> inner)
      : store_(store), inner_(std::move(inner)) {}

  bool post_get(ByteView key, trove::ReadMode mode, void* user, trove::KeyvalCompletion& done) override {
    const bool watched = store_.plant_ == Plant::kRenameLoop && mode == trove::ReadMode::kChecked;
    if (inner_->post_get(key, mode, user, done)) {
      if (watched) tamper(key, done);
      return true;
    }
    if (watched) store_.reading_[user] = {this, to_bytes(key)};
    return false;
  }
  bool post_get_many(std::span<const Bytes> keys, trove::ReadMode mode, void* user,
                     trove::KeyvalCompletion& done) override {
    return inner_->post_get_many(keys, mode, user, done);
  }
  bool post_range(const trove::KeyRange& range, void* user, trove::KeyvalCompletion& done) override {
    return inner_->post_range(range, user, done);
  }
  void note_read(ByteView key) override {
    if (kind_of(key) == meta::KeyKind::kEntry) ++entries_read_;
    inner_->note_read(key);
  }
  void note_range_read(ByteView begin, ByteView end) override { inner_->note_range_read(begin, end); }
  void put(ByteView key, ByteView value) override {
    if (store_.plant_ == Plant::kForgottenAnswer && kind_of(key) == meta::KeyKind::kAnswer) return;
    inner_->put(key, value);
  }
  void erase(ByteView key) override { inner_->erase(key); }
  bool post_commit(trove::Durability durability, void* user, trove::KeyvalCompletion& done) override {
    return inner_->post_commit(durability, user, done);
  }

  void tamper(ByteView key, trove::KeyvalCompletion& done) {
    if (kind_of(key) == meta::KeyKind::kEntry) {
      ++entries_read_;  // whether it was found or not
      if (!done.value) return;
      const auto entry = meta::decode_record<meta::EntryRecord>(*done.value);
      if (entry) moving_.insert(entry->handle);
    }
    if (!done.value || kind_of(key) != meta::KeyKind::kInode || entries_read_ < 2) return;
    auto inode = meta::decode_record<meta::InodeRecord>(*done.value);
    if (!inode || !inode->is_directory() || moving_.contains(inode->handle())) return;
    inode->parent = kRootHandle;
    done.value = meta::encoded(*inode);
  }

 private:
  PlantedKeyval& store_;
  std::unique_ptr<trove::Transaction> inner_;
  std::set<Handle> moving_;
  unsigned entries_read_ = 0;
};

std::unique_ptr<trove::Transaction> PlantedKeyval::begin() {
  return std::make_unique<PlantedTransaction>(*this, inner_.begin());
}

std::size_t PlantedKeyval::test(std::span<trove::KeyvalCompletion> out) {
  const std::size_t n = inner_.test(out);
  for (std::size_t i = 0; i < n; ++i) {
    const auto found = reading_.find(out[i].user);
    if (found == reading_.end()) continue;
    found->second.first->tamper(found->second.second, out[i]);
    reading_.erase(found);
  }
  return n;
}

}  // namespace

trove::SimKeyvalOptions store_options(Plant plant) {
  trove::SimKeyvalOptions options;
  options.sync_recovered = plant != Plant::kUnsyncedLog;
  return options;
}

std::unique_ptr<trove::Keyval> plant_in_keyval(Plant plant, trove::Keyval& inner) {
  if (plant != Plant::kForgottenAnswer && plant != Plant::kRenameLoop) return nullptr;
  return std::make_unique<PlantedKeyval>(inner, plant);
}

}  // namespace spate::cluster
