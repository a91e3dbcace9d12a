// SPDX-License-Identifier: Apache-2.0
// The core's contexts: opening, testing, sleeping. See bmi/core.h.
#include <utility>

#include "base/check.h"
#include "bmi/core.h"

namespace spate::bmi {

ContextId Core::open_context() {
  const std::lock_guard lock(mutex_);
  const ContextId id(static_cast<std::uint32_t>(contexts_.size() + 1));
  contexts_.push_back(std::make_unique<Context>(id, started_, contexts_.empty()));
  return id;
}

void Core::close_context(ContextId id) {
  std::unique_ptr<Context> closed;
  {
    const std::lock_guard lock(mutex_);
    SPATE_CHECK(find_context(id).completions().size() == 0);
    closed = std::move(contexts_[id.value - 1]);
  }
  for (const QueuedMessage& queued : closed->messages()) queued.module->consumed(queued.peer, queued.charge);
}

Context* Core::find_open_context(ContextId id) const {
  return id && id.value <= contexts_.size() ? contexts_[id.value - 1].get() : nullptr;
}

Context& Core::find_context(ContextId id) const {
  Context* found = find_open_context(id);
  SPATE_CHECK(found != nullptr);
  return *found;
}

void Core::progress() {
  // A module that had nothing to do for a while is asked less often while another one is busy: asking a network costs
  // a system call. When the tester goes to sleep, every module's descriptor wakes it.
  constexpr std::uint32_t kIdleTurns = 64;
  constexpr std::uint32_t kAskEvery = 8;
  const std::uint32_t turn = turn_.fetch_add(1, std::memory_order_relaxed);
  for (Loaded& loaded : modules_) {
    const std::uint32_t idle = loaded.idle_turns.load(std::memory_order_relaxed);
    if (modules_.size() > 1 && idle > kIdleTurns && turn % kAskEvery != 0) continue;
    const bool busy = loaded.module->progress();
    loaded.idle_turns.store(busy ? 0 : idle + 1, std::memory_order_relaxed);
  }
}

Context& Core::awake(ContextId id, std::size_t wanted) {
  Context* context = nullptr;
  {
    const std::lock_guard lock(mutex_);
    context = &find_context(id);
    context->awake();
    // Enough is there already: no need to ask the network first.
    if (wanted > 0 && context->completions().size() >= wanted) return *context;
  }
  progress();
  return *context;
}

std::size_t Core::test_context(ContextId id, std::span<Completion> out) {
  Context& context = awake(id, out.size());
  const std::lock_guard lock(mutex_);
  context.set_progressed();
  std::size_t taken = 0;
  while (taken < out.size()) {
    Op* op = context.completions().front();
    if (op == nullptr) break;
    context.completions().remove(*op);
    out[taken++] = op->completion();
    ops_.release(*op);
  }
  return taken;
}

std::optional<Completion> Core::test(ContextId id, OpId wanted) {
  Completion completion;
  if (test_some(id, std::span(&wanted, 1), std::span(&completion, 1)) == 0) return std::nullopt;
  return completion;
}

std::size_t Core::test_some(ContextId id, std::span<const OpId> wanted, std::span<Completion> out) {
  Context& context = awake(id, 0);
  const std::lock_guard lock(mutex_);
  std::size_t taken = 0;
  for (const OpId op_id : wanted) {
    if (taken == out.size()) break;
    Op* op = ops_.find(op_id);
    if (op == nullptr || !op->done || op->context != id) continue;
    context.completions().remove(*op);
    out[taken++] = op->completion();
    ops_.release(*op);
  }
  return taken;
}

std::size_t Core::test_unexpected(ContextId id, std::span<UnexpectedMessage> out) {
  Context* context = nullptr;
  bool fresh = false;
  {
    const std::lock_guard lock(mutex_);
    context = &find_context(id);
    context->awake();
    fresh = context->take_progressed() || context->messages().size() >= out.size();
  }
  if (!fresh) progress();
  std::size_t taken = 0;
  while (taken < out.size()) {
    QueuedMessage queued;
    {
      const std::lock_guard lock(mutex_);
      if (context->messages().empty()) break;
      queued = std::move(context->messages().front());
      context->messages().pop_front();
    }
    out[taken++] = std::move(queued.message);
    queued.module->consumed(queued.peer, queued.charge);
  }
  return taken;
}

int Core::wait_descriptor(ContextId id) const {
  const std::lock_guard lock(mutex_);
  return find_context(id).wait_descriptor();
}

bool Core::prepare_to_wait(ContextId id) {
  for (Module* module : started_) {
    if (!module->prepare_to_wait()) return false;
  }
  for (Loaded& loaded : modules_) loaded.idle_turns.store(0, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  return find_context(id).prepare_to_wait();
}

}  // namespace spate::bmi
