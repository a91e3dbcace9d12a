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

/// An unexpected message that the caller has not taken yet, and the module peer that gets its charge back.
struct QueuedMessage {
  UnexpectedMessage message;
  Module* module = nullptr;
  PeerId peer;
  std::uint64_t charge = 0;
};

/// Pinned. The core's lock guards it, except where a function says otherwise. "The tester" is the thread that tests
/// this context; there is at most one at a time.
class Context {
 public:
  /// The modules outlive the context. `first`: whether it is the first one of its instance.
  Context(ContextId id, std::span<Module* const> modules, bool first);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  ContextId id() const { return id_; }
  /// Readable by the modules and by this context's own signal; -1 when no module has a descriptor.
  int wait_descriptor() const { return wait_; }
  /// Sleeps on wait_descriptor() for at most `timeout` (negative: without limit). Called by the tester, without the
  /// lock.
  void sleep(Duration timeout);
  /// Makes wait_descriptor() readable whenever `fd` is. False: the context has no descriptor.
  bool wake_by(int fd);
  void stop_wake_by(int fd);

  CompletionQueue& completions() { return completions_; }
  std::deque<QueuedMessage>& messages() { return messages_; }

  /// How many completions are queued. Needs no lock, and may miss one that is just being queued. The tester sees that
  /// one when it tests again, or prepare_to_wait() reports it.
  std::size_t completions_queued() const { return completions_queued_.load(std::memory_order_relaxed); }
  std::size_t messages_queued() const { return messages_queued_.load(std::memory_order_relaxed); }
  /// Call it after each change of completions() or messages(), before releasing the lock.
  void count() {
    completions_queued_.store(completions_.size(), std::memory_order_relaxed);
    messages_queued_.store(messages_.size(), std::memory_order_relaxed);
  }

  /// Something was queued: counts it, and wakes the tester if it sleeps or is about to sleep.
  void signal();
  /// Whether the tester has announced a sleep. Called by the tester, without the lock.
  bool waiting() const { return waiting_.load(std::memory_order_relaxed); }
  /// The tester has woken up.
  void awake();
  /// The tester is about to sleep. Returns false if something is queued.
  bool prepare_to_wait();

  /// True once after each test_context(): that test has made progress on behalf of the test_unexpected() that follows.
  /// Called by the tester.
  bool take_progressed() { return std::exchange(progressed_, false); }
  void set_progressed() { progressed_ = true; }
  /// wait() found something queued, usually the completion of its own send. The next test takes it without asking the
  /// network again. If that happens twice in a row, the second test asks. Called by the tester.
  void set_skip() { skip_ = true; }
  bool take_skip() { return skipped_ = std::exchange(skip_, false) && !skipped_; }

 private:
  bool sleep_inside(std::span<Module* const> sleeping);

  ContextId id_;
  UniqueFd event_;
  UniqueFd poll_;              // watches all descriptors, unless a module with a wait of its own watches them
  Module* sleeper_ = nullptr;  // the module that watches the others
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

/// The contexts of an instance. Ids are never reused. Thread-safe; find() takes no lock. The destructor frees the
/// contexts that were not closed.
class ContextTable {
 public:
  ContextTable() = default;
  ContextTable(const ContextTable&) = delete;
  ContextTable& operator=(const ContextTable&) = delete;
  ~ContextTable();

  Context& open(std::span<Module* const> modules);
  /// Removes the context, so that find() no longer returns it. Using it afterwards is a bug.
  std::unique_ptr<Context> close(ContextId id);
  /// Null if no context has that id, or it was closed.
  Context* find(ContextId id) const;

 private:
  static constexpr std::size_t kChunk = 256;
  using Chunk = std::array<std::atomic<Context*>, kChunk>;

  std::mutex mutex_;
  std::uint32_t opened_ = 0;                        // guarded by mutex_
  std::array<std::atomic<Chunk*>, 4096> chunks_{};  // made when first needed; a million contexts in all
};

}  // namespace spate::bmi
