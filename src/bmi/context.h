// SPDX-License-Identifier: Apache-2.0
// Context: one completion space of the core, with the descriptor that its tester sleeps on.
#pragma once

#include <cstdint>
#include <deque>
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

/// Pinned. Not thread-safe: the core's lock guards it, except wait_descriptor().
class Context {
 public:
  /// The modules outlive the context. `first`: of its instance.
  Context(ContextId id, std::span<Module* const> modules, bool first);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  ContextId id() const { return id_; }
  /// Readable by the modules and by this context's own signal; -1 when no module has a descriptor.
  int wait_descriptor() const { return wait_; }

  CompletionQueue& completions() { return completions_; }
  std::deque<QueuedMessage>& messages() { return messages_; }

  /// Something was queued: wakes the tester if it sleeps, or is about to.
  void signal();
  /// The tester is here.
  void awake();
  /// The tester will sleep: false when something is queued.
  bool prepare_to_wait();

  /// True once after each test_context: that test made progress for the test_unexpected that follows it.
  bool take_progressed() { return std::exchange(progressed_, false); }
  void set_progressed() { progressed_ = true; }

 private:
  ContextId id_;
  UniqueFd event_;
  UniqueFd poll_;  // over both, unless the module's own descriptor serves
  int wait_ = -1;
  bool waiting_ = false;
  bool signalled_ = false;
  bool progressed_ = false;
  CompletionQueue completions_;
  std::deque<QueuedMessage> messages_;
};

}  // namespace spate::bmi
