// SPDX-License-Identifier: Apache-2.0
// What the keyval conformance suite runs over: every module behind one fixture.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/expect.h"
#include "trove/keyval.h"

namespace spate::trove {

/// A folder of its own, removed when destroyed.
class ScratchFolder {
 public:
  ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder();
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// One store over state that may outlive it.
class KeyvalBackend {
 public:
  virtual ~KeyvalBackend() = default;
  virtual Keyval& store() = 0;
  /// The process ends and a new one opens the same state. False: this module keeps nothing.
  virtual bool restart() = 0;
  /// Called while a completion is awaited and test() found none: sleeps, or lets virtual time pass.
  virtual void idle() = 0;
};

/// The names of all backends: module, then how it is used.
std::vector<std::string> keyval_backend_names();
/// `window_bytes`: for the memory of recent commits.
std::unique_ptr<KeyvalBackend> make_keyval_backend(const std::string& name, std::size_t window_bytes = 1 << 20);

/// Sleeps on the store's descriptor, at most ten seconds.
void sleep_until_event(Keyval& store);

/// An operation that was posted.
struct Pending {
  KeyvalCompletion done;
  bool ended = false;
};

using Entries = std::vector<std::pair<std::string, std::string>>;
using Value = std::optional<std::string>;

class KeyvalTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { backend_ = make_keyval_backend(GetParam()); }

  Keyval& store() { return backend_->store(); }
  std::unique_ptr<Transaction> begin() { return store().begin(); }

  /// `post(user, done)` as the interface's posts. The result stays where it is until ended.
  template <typename Post>
  std::unique_ptr<Pending> start(Post post) {
    auto pending = std::make_unique<Pending>();
    pending->ended = post(static_cast<void*>(pending.get()), pending->done);
    return pending;
  }
  /// Takes what has completed; true when there was something.
  bool poll();
  KeyvalCompletion wait(Pending& pending);

  std::unique_ptr<Pending> start_get(Transaction& t, const std::string& key, ReadMode mode = ReadMode::kChecked);
  std::unique_ptr<Pending> start_range(Transaction& t, const std::string& begin, const std::string& end,
                                       std::size_t limit = 1000, ReadMode mode = ReadMode::kChecked);
  std::unique_ptr<Pending> start_commit(Transaction& t, Durability durability = Durability::kProcess);

  // Each waits, and expects success where it does not return a status.
  Value get(Transaction& t, const std::string& key, ReadMode mode = ReadMode::kChecked);
  Entries get_many(Transaction& t, const std::vector<std::string>& keys, ReadMode mode = ReadMode::kChecked);
  /// `more` is told apart by a last entry {"...", ""}.
  Entries range(Transaction& t, const std::string& begin, const std::string& end, std::size_t limit = 1000,
                ReadMode mode = ReadMode::kChecked);
  Errc commit(Transaction& t, Durability durability = Durability::kProcess);
  Errc sync();

  static void put(Transaction& t, const std::string& key, const std::string& value);
  static void erase(Transaction& t, const std::string& key);
  /// One transaction each.
  void put_now(const std::string& key, const std::string& value);
  void erase_now(const std::string& key);
  Value get_now(const std::string& key);

  std::unique_ptr<KeyvalBackend> backend_;
};

}  // namespace spate::trove
