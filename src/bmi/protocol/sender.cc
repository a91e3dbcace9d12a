// SPDX-License-Identifier: Apache-2.0
#include "bmi/protocol/sender.h"

#include <utility>

namespace spate::bmi::protocol {

void Sender::open(const Limits& limits) {
  remote_ = limits;
  for (ClassState& c : classes_) c.credit.available = limits.window;
}

void Sender::reset() {
  classes_ = {};
  unexpected_waiting_ = withdrawing_ = NodeList();
}

void Sender::begin(Op& op) {
  if (op.unexpected) {
    if (op.size > remote_.max_unexpected) return module_.finish(op, Errc::kMessageTooBig, 0);
    if (unexpected_waiting_.empty() && send_unexpected(op)) return;
    ++module_.counters.credit_stalls;
    op.state = OpState::kWaitCredit;
    unexpected_waiting_.push_back(op);
    return;
  }
  NodeList& waiting = state_of(op.message_class).waiting;
  if (waiting.empty() && send_expected(op)) return;
  ++module_.counters.credit_stalls;
  op.state = OpState::kWaitTurn;
  waiting.push_back(op);
}

bool Sender::admit(const Post& post, bool unexpected, Header& header) {
  const bool first = (unexpected ? unexpected_waiting_ : state_of(post.message_class).waiting).empty();
  if (!first || (unexpected && post.size > remote_.max_unexpected)) return false;
  const bool ready = post.receiver_ready && !unexpected;
  if (!ready && !charge(post.message_class, cost_of(post.size), unexpected)) return false;
  header.type = unexpected ? FrameType::kUnexpected : ready ? FrameType::kReady : FrameType::kEager;
  header.message_class = post.message_class;
  header.tag = post.tag.value;
  header.length = post.size;
  return true;
}

bool Sender::send_unexpected(Op& op) {
  if (!charge(op)) return false;
  transmit(op, FrameType::kUnexpected);
  return true;
}

bool Sender::send_expected(Op& op) {
  const bool small = op.size <= module_.options->eager_limit_bytes;
  const bool may_announce = state_of(op.message_class).announced < remote_.max_announced;
  if (!small && may_announce && announce(op, true)) return true;
  if (op.receiver_ready) {
    transmit(op, FrameType::kReady);
    return true;
  }
  if (small && charge(op)) {
    transmit(op, FrameType::kEager);
    return true;
  }
  return may_announce && announce(op, false);
}

bool Sender::announce(Op& op, bool located) {
  Header header;
  header.type = located && op.receiver_ready ? FrameType::kReady : FrameType::kAnnounce;
  header.message_class = op.message_class;
  header.flags = located ? kFlagLocated : 0;
  header.tag = op.tag;
  header.length = op.size;
  header.id = op.id.value;
  if (located) {
    if (!path_.offer(op, header)) return false;
  } else {
    path_.push(header, nullptr);
  }
  ++state_of(op.message_class).announced;
  op.state = OpState::kAnnounced;
  op.located = located;
  return true;
}

bool Sender::charge(Op& op) {
  const std::uint64_t cost = cost_of(op.size);
  if (!charge(op.message_class, cost, op.unexpected)) return false;
  op.charged = cost;
  return true;
}

bool Sender::charge(MessageClass c, std::uint64_t cost, bool unexpected) {
  SendCredit& credit = state_of(c).credit;
  // Expected messages that have no receive yet leave a part of the credit to unexpected messages.
  const std::uint64_t reserve = unexpected ? 0 : reserve_of(remote_, c);
  if (credit.take(cost, reserve)) return true;
  fetch_credit(c, false);
  if (credit.take(cost, reserve)) return true;
  if (!unexpected) return false;  // an expected message is announced instead
  fetch_credit(c, true);
  return credit.take(cost, reserve);
}

void Sender::fetch_credit(MessageClass c, bool sleeps) {
  if (!state_of(c).credit.give(path_.fetch_credit(c, sleeps))) module_.lose_later(owner_, Errc::kProtocol);
}

bool Sender::starves() {
  if (unexpected_waiting_.empty()) return false;
  fetch_credit(MessageClass::kControl, true);
  const std::uint64_t cost = cost_of(op_of(*unexpected_waiting_.front()).size);
  return state_of(MessageClass::kControl).credit.available < cost;
}

bool Sender::give(MessageClass c, std::uint64_t bytes) {
  if (!state_of(c).credit.give(bytes)) return false;
  run_waiting();
  return true;
}

void Sender::transmit(Op& op, FrameType type) {
  Header header;
  header.type = type;
  header.message_class = op.message_class;
  header.tag = op.tag;
  header.length = op.size;
  header.id = type == FrameType::kData ? op.remote_id : 0;
  op.state = OpState::kSending;
  op.left = op.size;
  ++module_.counters.sent_messages;
  path_.push(header, &op);
}

void Sender::run_waiting() {
  for (ClassState& c : classes_) {
    while (!c.waiting.empty()) {
      // send_expected() does not change the list, and nothing completes before the flush.
      if (!send_expected(op_of(*c.waiting.front()))) break;
      c.waiting.pop_front();
    }
  }
  while (!unexpected_waiting_.empty()) {
    if (!send_unexpected(op_of(*unexpected_waiting_.front()))) break;
    unexpected_waiting_.pop_front();
  }
}

void Sender::sent(Op& op) { module_.finish(op, Errc::kOk, op.size); }

/// False: the message leaves nevertheless.
bool Sender::take_back(Op& op) {
  Header no_data;
  no_data.type = FrameType::kNoData;
  no_data.message_class = op.message_class;
  no_data.id = op.remote_id;
  const bool is_data = op.remote_id != 0;
  const Withdrawn withdrawn = path_.withdraw(op, is_data ? &no_data : nullptr);
  // Once a part has left, the receiver returns the charge.
  if (withdrawn == Withdrawn::kUnsent) state_of(op.message_class).credit.available += op.charged;
  return withdrawn != Withdrawn::kLeaving;
}

void Sender::failed(Op& op, Errc status) {
  if (take_back(op)) module_.finish(op, status, 0);
}

// --- cancel ---

void Sender::cancel(Op& op) {
  switch (op.state) {
    case OpState::kWaitCredit: unexpected_waiting_.remove(op); break;
    case OpState::kWaitTurn: state_of(op.message_class).waiting.remove(op); break;
    case OpState::kSending:
      if (!take_back(op)) return path_.grace(op);
      break;
    case OpState::kAnnounced: return cancel_announced(op);
    default: return;  // it was cancelled before
  }
  module_.finish(op, Errc::kCancelled, 0);
}

void Sender::cancel_announced(Op& op) {
  Header header;
  header.type = FrameType::kWithdraw;
  header.message_class = op.message_class;
  header.flags = op.located ? kFlagLocated : 0;
  header.tag = op.tag;
  header.id = op.id.value;
  path_.push(header, nullptr);
  if (op.located) {
    op.state = OpState::kWithdrawing;
    withdrawing_.push_back(op);
    return path_.grace(op);
  }
  ClassState& c = state_of(op.message_class);
  --c.announced;
  ++c.withdrawn;
  module_.finish(op, Errc::kCancelled, 0);
  run_waiting();
}

// --- what the peer answers ---

/// The send of this pair that the peer's frame names. Null: there is none.
Op* Sender::own_op(const Header& header) {
  Op* op = module_.find_op(OpId(header.id));
  const bool own = op != nullptr && op->peer == &owner_ && op->message_class == header.message_class;
  return own ? op : nullptr;
}

void Sender::end_withdrawing(Op& op, Errc status) {
  withdrawing_.remove(op);
  module_.finish(op, status, 0);
}

bool Sender::on_clear(const Header& header) {
  ClassState& c = state_of(header.message_class);
  Op* op = own_op(header);
  const bool live = op != nullptr && op->state == OpState::kAnnounced;
  const bool withdrawing = op != nullptr && op->state == OpState::kWithdrawing;
  const bool too_big = (header.flags & kFlagTooBig) != 0;
  if (live || withdrawing) {
    --c.announced;
  } else {
    if (c.withdrawn == 0) return false;
    --c.withdrawn;
  }
  if (withdrawing) end_withdrawing(*op, Errc::kCancelled);
  if (live && too_big) {
    module_.finish(*op, Errc::kMessageTooBig, 0);
  } else if (live) {
    op->remote_id = header.tag;
    transmit(*op, FrameType::kData);
  } else if (!too_big) {
    Header no_data;
    no_data.type = FrameType::kNoData;
    no_data.message_class = header.message_class;
    no_data.id = header.tag;
    path_.answer(no_data);
  }
  run_waiting();
  return true;
}

bool Sender::on_taken(const Header& header) {
  Op* op = own_op(header);
  if (op == nullptr || !op->located) return false;
  if (op->state != OpState::kAnnounced && op->state != OpState::kWithdrawing) return false;
  if (op->state == OpState::kWithdrawing) withdrawing_.remove(*op);
  --state_of(op->message_class).announced;
  module_.finish(*op, Errc::kOk, op->size);
  run_waiting();
  return true;
}

bool Sender::on_withdrawn(const Header& header) {
  Op* op = own_op(header);
  if (op == nullptr || op->state != OpState::kWithdrawing) return false;
  --state_of(op->message_class).announced;
  end_withdrawing(*op, Errc::kCancelled);
  run_waiting();
  return true;
}

}  // namespace spate::bmi::protocol
