// SPDX-License-Identifier: Apache-2.0
// Context: one completion space of the core, with the descriptor that its tester sleeps on.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "base/unique_fd.h"
#include "bmi/module.h"
#include "bmi/op_table.h"

namespace spate::bmi {

/// An unexpected message that nobody has taken yet, and where its charge goes back to.
struct QueuedMessage {
  UnexpectedMessage message;
  Module* module = nullptr;
  PeerId peer;
  std::uint64_t charge = 0;
};

/// Pinned. The core's lock guards it, except where a function says otherwise. The tester: the one thread at a time that
/// tests this context.
class Context {
 public:
  /// The modules outlive the context. `first`: of its instance.
  Context(ContextId id, std::span<Module* const> modules, bool first);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  ContextId id() const { return id_; }
  /// Readable by the modules and by this context's own signal; -1 when no module has a descriptor.
  int wait_descriptor() const { return wait_; }
  /// Sleeps on it, at most `timeout` (negative: without end). The tester's, without the lock.
  void sleep(Duration timeout);
  /// Makes it readable whenever `fd` is. False: there is none.
  bool wake_by(int fd);
  void stop_wake_by(int fd);

  CompletionQueue& completions() { return completions_; }
  std::deque<QueuedMessage>& messages() { return messages_; }

  /// How many are queued. Without the lock: what is just being queued may be missed; the tester sees it when it tests
  /// again, or is told by prepare_to_wait().
  std::size_t completions_queued() const { return completions_queued_.load(std::memory_order_relaxed); }
  std::size_t messages_queued() const { return messages_queued_.load(std::memory_order_relaxed); }
  /// After each change of completions() or messages(), before the lock is given back.
  void count() {
    completions_queued_.store(completions_.size(), std::memory_order_relaxed);
    messages_queued_.store(messages_.size(), std::memory_order_relaxed);
  }

  /// Something was queued: counts, and wakes the tester if it sleeps or is about to.
  void signal();
  /// The tester has announced to sleep. Without the lock, for the tester.
  bool waiting() const { return waiting_.load(std::memory_order_relaxed); }
  /// The tester is here again.
  void awake();
  /// The tester will sleep: false when something is queued.
  bool prepare_to_wait();

  /// True once after each test_context: that test made progress for the test_unexpected that follows it. The tester's.
  bool take_progressed() { return std::exchange(progressed_, false); }
  void set_progressed() { progressed_ = true; }
  /// wait() found something queued, as a rule what it had sent itself: the test that follows takes that without asking
  /// the network again. Once; if that happens twice in a row, the second test asks. The tester's.
  void set_skip() { skip_ = true; }
  bool take_skip() { return skipped_ = std::exchange(skip_, false) && !skipped_; }

 private:
  bool sleep_inside(std::span<Module* const> sleeping);

  ContextId id_;
  UniqueFd event_;
  UniqueFd poll_;              // over all of them, unless a module that sleeps watches the others
  Module* sleeper_ = nullptr;  // that module
  int wait_ = -1;
  std::atomic<bool> waiting_{false};  // set and cleared by the tester only
  bool signalled_ = false;
  bool progressed_ = false;
  bool skip_ = false;
  bool skipped_ = false;  // by the last test
  std::atomic<std::size_t> completions_queued_{0};
  std::atomic<std::size_t> messages_queued_{0};
  CompletionQueue completions_;
  std::deque<QueuedMessage> messages_;
};

/// The contexts of an instance. Ids are never reused. Thread-safe; find() takes no lock.
class ContextTable {
 public:
  ContextTable() = default;
  ContextTable(const ContextTable&) = delete;
  ContextTable& operator=(const ContextTable&) = delete;
  ~ContextTable();

  Context& open(std::span<Module* const> modules);
  /// Nobody finds it any more; whoever uses it still is a bug.
  std::unique_ptr<Context> close(ContextId id);
  /// Null when there is none of that id, or it was closed.
  Context* find(ContextId id) const;

 private:
  static constexpr std::size_t kChunk = 256;
  using Chunk = std::array<std::atomic<Context*>, kChunk>;

  std::mutex mutex_;
  std::uint32_t opened_ = 0;                        // guarded by mutex_
  std::array<std::atomic<Chunk*>, 4096> chunks_{};  // made when first needed; a million contexts in all
};

}  // namespace spate::bmi
