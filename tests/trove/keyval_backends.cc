// SPDX-License-Identifier: Apache-2.0
#include "base/check.h"
#include "base/clock.h"
#include "base/random.h"
#include "trove/keyval_harness.h"
#include "trove/kvfault/fault_keyval.h"
#include "trove/kvmem/memory_keyval.h"
#include "trove/kvsim/sim_keyval.h"
#include "trove/replicated_keyval.h"
#include "trove/rocksdb/rocksdb_keyval.h"

namespace spate::trove {
namespace {

enum class Rocks { kInline, kThreads, kReadThreads, kCommitThreads };

class RocksBackend final : public KeyvalBackend {
 public:
  RocksBackend(Rocks way, std::size_t window_bytes) {
    options_.folder = folder_.path() + "/store";
    options_.conflict_window_bytes = window_bytes;
    options_.inline_reads = way == Rocks::kInline || way == Rocks::kCommitThreads;
    options_.inline_commits = way == Rocks::kInline || way == Rocks::kReadThreads;
    open();
  }

  Keyval& store() override { return *store_; }
  bool restart() override {
    store_.reset();
    open();
    return true;
  }
  void idle() override { sleep_until_event(*store_); }

 private:
  void open() {
    auto opened = open_rocksdb(options_);
    if (!opened) ADD_FAILURE() << opened.error().message();
    store_ = *std::move(opened);
  }

  ScratchFolder folder_;
  RocksdbOptions options_;
  std::unique_ptr<Keyval> store_;
};

class MemoryBackend final : public KeyvalBackend {
 public:
  explicit MemoryBackend(std::size_t window_bytes) : store_(make_memory_keyval({window_bytes})) {}
  Keyval& store() override { return *store_; }
  bool restart() override { return false; }
  void idle() override { SPATE_CHECK(false); }

 private:
  std::unique_ptr<Keyval> store_;
};

class SimBackend final : public KeyvalBackend {
 public:
  SimBackend(std::uint32_t immediate_per_mille, std::size_t window_bytes) {
    options_.immediate_per_mille = immediate_per_mille;
    options_.conflict_window_bytes = window_bytes;
    store_ = std::make_unique<SimKeyval>(disk_, clock_, random_, options_);
  }
  Keyval& store() override { return *store_; }
  bool restart() override {
    store_.reset();
    store_ = std::make_unique<SimKeyval>(disk_, clock_, random_, options_);
    return true;
  }
  void idle() override {
    SPATE_CHECK(store_->next_event_time() != MonoTime::never());
    store_->run_until(store_->next_event_time());
  }

 private:
  SimKeyvalDisk disk_;
  ManualClock clock_;
  SeededRandom random_{20240229};
  SimKeyvalOptions options_;
  std::unique_ptr<SimKeyval> store_;
};

/// A decorator without a fault changes nothing. Every fifth read and commit is a millisecond late.
class FaultBackend final : public KeyvalBackend {
 public:
  explicit FaultBackend(std::unique_ptr<KeyvalBackend> inner) : inner_(std::move(inner)) { open(); }
  Keyval& store() override { return *store_; }
  bool restart() override {
    store_.reset();
    const bool kept = inner_->restart();
    open();
    return kept;
  }
  void idle() override {
    if (store_->wait_descriptor() >= 0) return sleep_until_event(*store_);
    if (store_->next_event_time() != MonoTime::never()) return clock_.set(store_->next_event_time());
    inner_->idle();
  }

 private:
  void open() {
    Clock& clock = inner_->store().wait_descriptor() >= 0 ? static_cast<Clock&>(system_clock_) : clock_;
    store_ = std::make_unique<FaultKeyval>(inner_->store(), clock);
    for (const FaultPoint point : {FaultPoint::kGet, FaultPoint::kRange, FaultPoint::kCommit}) {
      for (std::uint64_t n = 1; n < 200; n += 5) {
        KeyvalFault late;
        late.point = point;
        late.nth = n;
        late.delay = std::chrono::milliseconds(1);
        store_->order(late);
      }
    }
  }

  SystemClock system_clock_;
  ManualClock clock_;
  std::unique_ptr<KeyvalBackend> inner_;
  std::unique_ptr<FaultKeyval> store_;
};

/// A group with one member: all that it has synced is synced at every member.
class ReplicatedBackend final : public KeyvalBackend {
 public:
  explicit ReplicatedBackend(std::unique_ptr<KeyvalBackend> inner) : inner_(std::move(inner)) { open({}, 1); }
  Keyval& store() override { return *store_; }
  bool restart() override {
    const LogPosition last = store_->last();
    const std::uint64_t most = store_->kept_entries();
    const std::uint64_t first = last.index > most ? last.index - most + 1 : 1;
    store_.reset();
    const bool kept = inner_->restart();
    open(kept ? last : LogPosition(), kept ? first : 1);
    return kept;
  }
  void idle() override {
    if (store_->prepare_to_wait()) inner_->idle();
  }

 private:
  void open(LogPosition last, std::uint64_t first) {
    constexpr std::uint64_t kFewEntries = 20;  // so few that old entries are removed from the log
    store_ = std::make_unique<ReplicatedKeyval>(inner_->store(), ReplicatedOptions{kFewEntries});
    store_->on_sync_wanted([this] { store_->synced(store_->last().index); });
    store_->lead(last.epoch + 1, last, first);
  }

  std::unique_ptr<KeyvalBackend> inner_;
  std::unique_ptr<ReplicatedKeyval> store_;
};

}  // namespace

std::vector<std::string> keyval_backend_names() {
  std::vector<std::string> names{"rocksdb",
                                 "rocksdb_read_threads",
                                 "rocksdb_commit_threads",
                                 "rocksdb_threads",
                                 "kvmem",
                                 "kvsim",
                                 "kvsim_late",
                                 "fault_rocksdb",
                                 "fault_kvmem",
                                 "fault_kvsim",
                                 "replicated_rocksdb",
                                 "replicated_rocksdb_threads",
                                 "replicated_kvmem",
                                 "replicated_kvsim_late"};
  if (kThreadSanitizer) {
    std::erase_if(names, [](const std::string& name) { return name.find("rocksdb") == std::string::npos; });
  }
  return names;
}

std::unique_ptr<KeyvalBackend> make_keyval_backend(const std::string& name, std::size_t window_bytes) {
  static constexpr std::string_view kFault = "fault_";
  static constexpr std::string_view kReplicated = "replicated_";
  if (name.starts_with(kReplicated)) {
    return std::make_unique<ReplicatedBackend>(make_keyval_backend(name.substr(kReplicated.size()), window_bytes));
  }
  if (name.starts_with(kFault)) {
    return std::make_unique<FaultBackend>(make_keyval_backend(name.substr(kFault.size()), window_bytes));
  }
  if (name == "rocksdb") return std::make_unique<RocksBackend>(Rocks::kInline, window_bytes);
  if (name == "rocksdb_read_threads") return std::make_unique<RocksBackend>(Rocks::kReadThreads, window_bytes);
  if (name == "rocksdb_commit_threads") return std::make_unique<RocksBackend>(Rocks::kCommitThreads, window_bytes);
  if (name == "rocksdb_threads") return std::make_unique<RocksBackend>(Rocks::kThreads, window_bytes);
  if (name == "kvmem") return std::make_unique<MemoryBackend>(window_bytes);
  if (name == "kvsim") return std::make_unique<SimBackend>(500, window_bytes);
  SPATE_CHECK(name == "kvsim_late");
  return std::make_unique<SimBackend>(0, window_bytes);
}

}  // namespace spate::trove
