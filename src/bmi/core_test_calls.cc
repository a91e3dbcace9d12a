// SPDX-License-Identifier: Apache-2.0
// The core's contexts: opening, testing, sleeping. See bmi/core.h.
#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "bmi/core.h"

namespace spate::bmi {
namespace {

/// Whether a thread may sleep on the modules' descriptors. False: one of them has work.
bool prepare(std::span<Module* const> modules) {
  return std::ranges::all_of(modules, [](Module* module) { return module->prepare_to_wait(); });
}

/// Moves some of the context's unexpected messages to `out`, from place `taken` on.
void take_messages(CoreTables& tables, Context& context, std::span<UnexpectedMessage> out, std::size_t& taken) {
  struct Taken {
    Module* module = nullptr;
    PeerId peer;
    std::uint64_t charge = 0;
  };
  std::array<Taken, 4> batch;
  std::size_t n = 0;
  {
    const std::lock_guard lock(tables.mutex);
    std::deque<QueuedMessage>& messages = context.messages();
    for (; n < batch.size() && taken < out.size() && !messages.empty(); ++n) {
      QueuedMessage& queued = messages.front();
      batch[n] = {queued.module, queued.peer, queued.charge};
      out[taken++] = std::move(queued.message);
      messages.pop_front();
    }
    context.count();
  }
  for (std::size_t i = 0; i < n; ++i) batch[i].module->consumed(batch[i].peer, batch[i].charge);
}

}  // namespace

ContextId Core::open_context() { return tables_.contexts.open(started_).id(); }

void Core::close_context(ContextId id) {
  std::unique_ptr<Context> closed;
  {
    // The lock makes this call wait until a thread that found the context under the lock has finished with it.
    const std::lock_guard lock(tables_.mutex);
    SPATE_CHECK(find_context(id).completions().size() == 0);
    sleepers_.remove(find_context(id));
    closed = tables_.contexts.close(id);
  }
  for (const QueuedMessage& queued : closed->messages()) queued.module->consumed(queued.peer, queued.charge);
}

Context& Core::find_context(ContextId id) const {
  Context* found = tables_.contexts.find(id);
  SPATE_CHECK(found != nullptr);
  return *found;
}

void Core::progress() {
  // A module that had nothing to do for a while is asked less often while another one is busy, because asking a network
  // costs a system call. A tester that goes to sleep is woken by every module's descriptor.
  constexpr std::uint32_t kIdleTurns = 64;
  constexpr std::uint32_t kAskEvery = 8;
  // This increment is not atomic. If two threads count at the same time, one count is lost, which does no harm.
  const std::uint32_t turn = turn_.load(std::memory_order_relaxed);
  turn_.store(turn + 1, std::memory_order_relaxed);
  for (Loaded& loaded : modules_) {
    const std::uint32_t idle = loaded.idle_turns.load(std::memory_order_relaxed);
    if (modules_.size() > 1 && idle > kIdleTurns && turn % kAskEvery != 0) continue;
    const bool busy = loaded.module->progress();
    loaded.idle_turns.store(busy ? 0 : idle + 1, std::memory_order_relaxed);
  }
  // After progress() a module may poll its peers and expect the next progress(), but this thread may never call it
  // again. If a module cannot wake the sleepers of other contexts, this wakes one of them to do the work that is left.
  if (!sleepers_.any() || prepare(started_)) return;
  const std::lock_guard lock(tables_.mutex);
  sleepers_.wake_one();
}

Context& Core::awake(ContextId id) {
  Context& context = find_context(id);
  if (context.waiting()) {
    const std::lock_guard lock(tables_.mutex);
    context.awake();
    sleepers_.remove(context);
  }
  return context;
}

std::size_t Core::test_context(ContextId id, std::span<Completion> out) {
  Context& context = awake(id);
  // The network need not be asked when enough completions are queued.
  const bool skip = context.take_skip();
  if (!skip && (out.empty() || context.completions_queued() < out.size())) progress();
  context.set_progressed();
  if (context.completions_queued() == 0) return 0;
  const std::lock_guard lock(tables_.mutex);
  std::size_t taken = 0;
  while (taken < out.size()) {
    Op* op = context.completions().front();
    if (op == nullptr) break;
    context.completions().remove(*op);
    out[taken++] = op->completion();
    tables_.ops.release(*op);
  }
  context.count();
  return taken;
}

std::optional<Completion> Core::test(ContextId id, OpId wanted) {
  Completion completion;
  if (test_some(id, std::span(&wanted, 1), std::span(&completion, 1)) == 0) return std::nullopt;
  return completion;
}

std::size_t Core::test_some(ContextId id, std::span<const OpId> wanted, std::span<Completion> out) {
  Context& context = awake(id);
  progress();
  if (context.completions_queued() == 0) return 0;
  const std::lock_guard lock(tables_.mutex);
  std::size_t taken = 0;
  for (const OpId op_id : wanted) {
    if (taken == out.size()) break;
    Op* op = tables_.ops.find(op_id);
    if (op == nullptr || !op->done || op->context != id) continue;
    context.completions().remove(*op);
    out[taken++] = op->completion();
    tables_.ops.release(*op);
  }
  context.count();
  return taken;
}

std::size_t Core::test_unexpected(ContextId id, std::span<UnexpectedMessage> out) {
  Context& context = awake(id);
  const bool fresh = context.take_progressed() || (!out.empty() && context.messages_queued() >= out.size());
  if (!fresh) progress();
  std::size_t taken = 0;
  while (taken < out.size() && context.messages_queued() > 0) take_messages(tables_, context, out, taken);
  return taken;
}

int Core::wait_descriptor(ContextId id) const { return find_context(id).wait_descriptor(); }

bool Core::prepare_to_wait(ContextId id) {
  {
    // The context announces its sleep before the modules are prepared, so that a thread which makes progress after that
    // sees the announcement.
    const std::lock_guard lock(tables_.mutex);
    Context& context = find_context(id);
    if (!context.prepare_to_wait()) return false;
    sleepers_.add(context);
  }
  if (!prepare(started_)) {
    awake(id);
    return false;
  }
  for (Loaded& loaded : modules_) loaded.idle_turns.store(0, std::memory_order_relaxed);
  return true;
}

bool Core::wait(ContextId id, Duration timeout) {
  Context& context = find_context(id);
  if (context.wait_descriptor() < 0) return false;
  flush_sends();
  if (context.completions_queued() > 0 || context.messages_queued() > 0) {
    context.set_skip();
    return true;
  }
  if (prepare_to_wait(id)) context.sleep(timeout);
  awake(id);
  return true;
}

void Core::hold_sends() {
  for (Module* module : started_) module->hold_sends();
}

void Core::flush_sends() {
  for (Module* module : started_) module->flush_sends();
}

}  // namespace spate::bmi
