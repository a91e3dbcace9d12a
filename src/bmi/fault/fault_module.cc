// SPDX-License-Identifier: Apache-2.0
#include "bmi/fault/fault_module.h"

#include <algorithm>
#include <utility>

namespace spate::bmi::fault {
namespace {

void flip(std::byte& byte) { byte ^= std::byte{0xFF}; }

void flip_first(const std::vector<Segment>& room) {
  for (const Segment& segment : room) {
    if (segment.size == 0) continue;
    flip(*segment.memory);
    return;
  }
}

}  // namespace

FaultModule::FaultModule(std::unique_ptr<Module> inner, std::shared_ptr<Plan> plan)
    : inner_(std::move(inner)), plan_(std::move(plan)) {}

Result<void> FaultModule::start(Sink& sink, const NetworkOptions& options) {
  sink_ = &sink;
  return inner_->start(*this, options);
}

Result<std::string> FaultModule::listen(std::string_view url, ContextId context) {
  const auto fault = plan_->pass(Point::kListen);
  if (fault && fault->action == Action::kFail) return Error(fault->status, "injected fault");
  return inner_->listen(url, context);
}

Result<PeerId> FaultModule::lookup(std::string_view url, Address address) {
  const auto fault = plan_->pass(Point::kLookup);
  if (fault && fault->action == Action::kFail) return Error(fault->status, "injected fault");
  return inner_->lookup(url, address);
}

Result<PostResult> FaultModule::post_send(const Post& post) {
  return pass_post(Point::kPostSend, post, &Module::post_send);
}

Result<PostResult> FaultModule::post_recv(const Post& post) {
  return pass_post(Point::kPostReceive, post, &Module::post_recv);
}

Result<PostResult> FaultModule::post_send_unexpected(const Post& post) {
  return pass_post(Point::kPostUnexpected, post, &Module::post_send_unexpected);
}

Result<PostResult> FaultModule::pass_post(Point point, const Post& post, PostCall call) {
  const auto fault = plan_->pass(point);
  if (fault && fault->action == Action::kFail) return Error(fault->status, "injected fault");
  {
    // Recorded before the post, because another thread may report the operation's end before the post returns.
    const std::lock_guard lock(mutex_);
    Tracked& tracked = tracked_[post.op];
    tracked.peer = post.peer;
    if (point == Point::kPostReceive) tracked.room.assign(post.segments.begin(), post.segments.end());
  }
  Result<PostResult> result = ((*inner_).*call)(post);
  if (!result) {
    const std::lock_guard lock(mutex_);
    tracked_.erase(post.op);
    return result;
  }
  if (result->done) result = done_at_once(post, *result);
  if (fault && fault->action == Action::kDropConnection) inner_->disconnect(post.peer);
  return result;
}

// A post that is done at once counts as a completion, too. If no fault spoils it, the post reports it; otherwise it
// becomes an operation that completes later.
Result<PostResult> FaultModule::done_at_once(const Post& post, const PostResult& result) {
  BatchVerdict judged;
  judge({post.op, Errc::kOk, result.actual_size}, judged);
  for (const PeerId peer : judged.disconnect) inner_->disconnect(peer);
  if (judged.report.empty()) return PostResult{};  // held
  const Outcome& outcome = judged.report.front();
  if (outcome.status == Errc::kOk) return PostResult{true, outcome.actual_size};
  hold(outcome, 0);
  return PostResult{};
}

void FaultModule::completed(std::span<const Outcome> outcomes) {
  BatchVerdict judged;
  for (const Outcome& outcome : outcomes) judge(outcome, judged);
  if (!judged.report.empty()) sink_->completed(judged.report);
  for (const PeerId peer : judged.disconnect) inner_->disconnect(peer);
}

void FaultModule::judge(Outcome outcome, BatchVerdict& judged) {
  Tracked tracked;
  {
    const std::lock_guard lock(mutex_);
    const auto it = tracked_.find(outcome.op);
    if (it != tracked_.end()) {
      tracked = std::move(it->second);
      tracked_.erase(it);
    }
  }
  const auto fault = plan_->pass(Point::kCompletion);
  if (fault) {
    apply(*fault, tracked, outcome, judged);
  } else {
    judged.report.push_back(outcome);
  }
}

void FaultModule::apply(const Fault& fault, const Tracked& tracked, Outcome& outcome, BatchVerdict& judged) {
  const bool received = outcome.status == Errc::kOk && !tracked.room.empty();
  switch (fault.action) {
    case Action::kFail:
      outcome.status = fault.status;
      outcome.actual_size = 0;
      // The caller is told that the connection was lost, so it must really be lost.
      if (fault.status == Errc::kConnectionLost && tracked.peer) judged.disconnect.push_back(tracked.peer);
      break;
    case Action::kDropConnection:
      if (tracked.peer) judged.disconnect.push_back(tracked.peer);
      break;
    case Action::kTruncate:
      if (received) outcome.actual_size = std::min(outcome.actual_size, fault.keep);
      break;
    case Action::kCorrupt:
      if (received && outcome.actual_size > 0) flip_first(tracked.room);
      break;
    case Action::kDelay: hold(outcome, fault.turns); return;
  }
  judged.report.push_back(outcome);
}

void FaultModule::hold(Outcome outcome, std::uint64_t turns) {
  const std::lock_guard lock(mutex_);
  held_outcomes_.push_back({turn_.load() + turns, outcome});
}

bool FaultModule::hold_message(HeldMessage& message, std::uint64_t turns) {
  const std::lock_guard lock(mutex_);
  const auto same_peer = [&](const HeldMessage& held) { return held.peer == message.peer; };
  const bool behind = std::any_of(held_messages_.begin(), held_messages_.end(), same_peer);
  if (turns == 0 && !behind) return false;
  message.due = turn_.load() + turns;
  held_messages_.push_back(std::move(message));
  return true;
}

void FaultModule::unexpected(PeerId peer, Address address, Tag tag, Buffer payload, std::uint64_t charge) {
  const auto fault = plan_->pass(Point::kUnexpected);
  HeldMessage message{0, peer, address, tag, std::move(payload), charge, false};
  bool disconnect = false;
  std::uint64_t turns = 0;
  if (fault) {
    switch (fault->action) {
      case Action::kFail:
        inner_->consumed(peer, charge);
        inner_->disconnect(peer);
        return;
      case Action::kDropConnection: disconnect = true; break;
      case Action::kDelay: turns = std::max<std::uint64_t>(fault->turns, 1); break;
      case Action::kTruncate:
        message.payload.shrink(static_cast<std::size_t>(std::min<std::uint64_t>(fault->keep, message.payload.size())));
        break;
      case Action::kCorrupt:
        if (!message.payload.empty()) flip(*message.payload.data());
        break;
    }
  }
  if (!hold_message(message, turns)) sink_->unexpected(peer, address, tag, std::move(message.payload), charge);
  if (disconnect) inner_->disconnect(peer);
}

void FaultModule::forgotten(PeerId peer, Address address) {
  report_held_messages(~std::uint64_t{0}, peer);
  sink_->forgotten(peer, address);
}

bool FaultModule::progress() {
  const std::uint64_t turn = ++turn_;
  bool did = inner_->progress();
  did |= report_held_outcomes(turn);
  did |= report_held_messages(turn, PeerId{});
  return did;
}

bool FaultModule::prepare_to_wait() {
  {
    const std::lock_guard lock(mutex_);
    if (!held_outcomes_.empty() || !held_messages_.empty()) return false;
  }
  return inner_->prepare_to_wait();
}

bool FaultModule::report_held_outcomes(std::uint64_t turn) {
  std::vector<Outcome> due;
  {
    const std::lock_guard lock(mutex_);
    for (const HeldOutcome& held : held_outcomes_) {
      if (held.due <= turn) due.push_back(held.outcome);
    }
    std::erase_if(held_outcomes_, [&](const HeldOutcome& held) { return held.due <= turn; });
  }
  if (!due.empty()) sink_->completed(due);
  return !due.empty();
}

// Messages of one peer are reported in order. The first one that is not due holds back those behind it. A message stays
// in the queue while it is being reported.
bool FaultModule::report_held_messages(std::uint64_t turn, PeerId only) {
  const std::lock_guard one_at_a_time(delivery_mutex_);
  std::vector<HeldMessage> due;
  {
    const std::lock_guard lock(mutex_);
    std::vector<PeerId> waiting;
    for (HeldMessage& held : held_messages_) {
      const bool behind = std::find(waiting.begin(), waiting.end(), held.peer) != waiting.end();
      if (held.due > turn || behind || (only && held.peer != only)) {
        waiting.push_back(held.peer);
        continue;
      }
      held.leaving = true;
      due.push_back({held.due, held.peer, held.address, held.tag, std::move(held.payload), held.charge, true});
    }
  }
  for (HeldMessage& m : due) sink_->unexpected(m.peer, m.address, m.tag, std::move(m.payload), m.charge);
  const std::lock_guard lock(mutex_);
  std::erase_if(held_messages_, [](const HeldMessage& held) { return held.leaving; });
  return !due.empty();
}

}  // namespace spate::bmi::fault
