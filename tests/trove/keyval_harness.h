// SPDX-License-Identifier: Apache-2.0
// The fixture of the keyval conformance suite, which runs every module.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/expect.h"
#include "trove/keyval.h"

#ifndef __has_feature  // g++
#define __has_feature(x) 0
#endif

namespace spate::trove {

/// The suite runs under ThreadSanitizer, which looks for races of threads and makes all else many times slower.
inline constexpr bool kThreadSanitizer = __has_feature(thread_sanitizer);

/// A folder that the destructor removes.
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

/// One store. Its state may outlive it.
class KeyvalBackend {
 public:
  virtual ~KeyvalBackend() = default;
  virtual Keyval& store() = 0;
  /// Closes the store and opens the same state in a new one. False: this module keeps no state.
  virtual bool restart() = 0;
  /// Called while a test waits for a completion and test() finds none. Sleeps, or lets virtual time pass.
  virtual void idle() = 0;
};

/// The names of all backends: the module, and how it is used. Under ThreadSanitizer only those with threads.
std::vector<std::string> keyval_backend_names();
/// `window_bytes`: the limit for the memory of recent commits.
std::unique_ptr<KeyvalBackend> make_keyval_backend(const std::string& name, std::size_t window_bytes = 1 << 20);

/// Sleeps on the store's descriptor for at most ten seconds.
void sleep_until_event(Keyval& store);

/// A posted operation and its result.
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

  /// Calls `post(user, done)`, as the interface's functions take it. The result stays in place until the end.
  template <typename Post>
  std::unique_ptr<Pending> start(Post post) {
    auto pending = std::make_unique<Pending>();
    pending->ended = post(static_cast<void*>(pending.get()), pending->done);
    return pending;
  }
  /// Collects completed operations. Returns whether there were any.
  bool poll();
  KeyvalCompletion wait(Pending& pending);

  std::unique_ptr<Pending> start_get(Transaction& t, const std::string& key, ReadMode mode = ReadMode::kChecked);
  std::unique_ptr<Pending> start_range(Transaction& t, const std::string& begin, const std::string& end,
                                       std::size_t limit = 1000, ReadMode mode = ReadMode::kChecked);
  std::unique_ptr<Pending> start_commit(Transaction& t, Durability durability = Durability::kProcess);

  // Each of these waits for its operation. Those that return no status expect success.
  Value get(Transaction& t, const std::string& key, ReadMode mode = ReadMode::kChecked);
  Entries get_many(Transaction& t, const std::vector<std::string>& keys, ReadMode mode = ReadMode::kChecked);
  /// If the result says `more`, a last entry {"...", ""} is appended.
  Entries range(Transaction& t, const std::string& begin, const std::string& end, std::size_t limit = 1000,
                ReadMode mode = ReadMode::kChecked);
  Errc commit(Transaction& t, Durability durability = Durability::kProcess);
  Errc sync();

  static void put(Transaction& t, const std::string& key, const std::string& value);
  static void erase(Transaction& t, const std::string& key);
  /// Each of these commits a transaction of its own.
  void put_now(const std::string& key, const std::string& value);
  void erase_now(const std::string& key);
  Value get_now(const std::string& key);

  std::unique_ptr<KeyvalBackend> backend_;
};

}  // namespace spate::trove
