// SPDX-License-Identifier: Apache-2.0
#include "bmi/protocol/receiver.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

namespace spate::bmi::protocol {

Receiver::Receiver(ModuleState& module, Path& path, PeerRecord& owner, std::uint64_t seed)
    : module_(module), path_(path), owner_(owner), seed_(seed), classes_{ClassState(seed), ClassState(seed)} {}

Receiver::~Receiver() { drop_arrived(); }

void Receiver::drop_arrived() {
  for (ClassState& c : classes_) {
    while (Node* node = c.arrived.take_any()) std::unique_ptr<Arrived>(static_cast<Arrived*>(node)).reset();
  }
}

void Receiver::open() {
  for (const MessageClass c : {MessageClass::kControl, MessageClass::kBulk}) {
    kept_back_[index_of(c)] = kept_back(module_.limits, c);
  }
}

void Receiver::reset() {
  drop_arrived();
  for (ClassState& c : classes_) c = ClassState(seed_);
}

Limits Receiver::grant() {
  for (ClassState& c : classes_) c.credit = ReceiveCredit();
  state_of(MessageClass::kControl).credit.held = undelivered_;
  Limits limits = module_.limits;
  limits.window -= std::min(limits.window, undelivered_);
  return limits;
}

bool Receiver::charge(MessageClass c, std::uint64_t cost) {
  std::uint64_t window = module_.limits.window;
  if (owner_.unauthenticated) window = std::min(window, module_.options->unauthenticated.buffered_bytes);
  return state_of(c).credit.charge(cost, window);
}

bool Receiver::empty() const {
  const auto none = [](const ClassState& c) { return c.arrived.empty(); };
  return undelivered_ == 0 && std::ranges::all_of(classes_, none);
}

// --- messages ---

bool Receiver::take(Incoming& incoming, const Header& header, ByteView first, ByteView second) {
  const std::uint64_t size = first.size() + second.size();
  const bool begins = header.type != FrameType::kMore;
  if (begins == incoming.active) return false;
  if (begins) {
    if (size > header.length || !begin(incoming, header)) return false;
  } else if (size == 0 || size > incoming.left) {
    return false;
  }
  if (!first.empty()) fill(incoming, first);
  if (!second.empty()) fill(incoming, second);
  if (incoming.left == 0) whole(incoming);
  return true;
}

bool Receiver::begin(Incoming& incoming, const Header& header) {
  const MessageClass c = header.message_class;
  const bool unexpected = header.type == FrameType::kUnexpected;
  if (unexpected && (c != MessageClass::kControl || header.length > module_.limits.max_unexpected)) return false;
  incoming.active = true;
  incoming.header = header;
  incoming.left = header.length;
  incoming.op = nullptr;
  if (header.type == FrameType::kData) return on_data(incoming);
  const bool charged = header.type != FrameType::kReady;
  if (charged && !charge(c, cost_of(header.length))) return false;
  if (!unexpected) {
    if (Node* node = state_of(c).posted.take_front(header.tag)) {
      receive_into(incoming, op_of(*node));
      return true;
    }
    if (!charged) {
      ++module_.counters.dropped_messages;
      return true;
    }
  }
  incoming.arrived = std::make_unique<Arrived>();
  incoming.arrived->tag = header.tag;
  incoming.arrived->length = header.length;
  // A small message goes into unaligned memory. An aligned buffer costs more than the copy (callgrind, 64 B over shm:
  // 600 of 3,150 instructions).
  constexpr std::uint64_t kSmall = 4096;
  const std::size_t alignment = header.length < kSmall ? alignof(std::max_align_t) : 64;
  incoming.arrived->payload = Buffer(header.length, alignment);  // within the window, as checked above
  return true;
}

void Receiver::receive_into(Incoming& incoming, Op& op) {
  if (incoming.header.length > op.size) return module_.finish(op, Errc::kMessageTooBig, 0);
  op.state = OpState::kFilling;
  op.arriving = incoming.header.length;
  op.incoming = &incoming;
  incoming.op = &op;
}

/// The receive of this pair that the peer's frame names. Null: it was cancelled.
Op* Receiver::own_receive(std::uint64_t id) {
  Op* op = module_.find_op(OpId(id));
  return op != nullptr && op->peer == &owner_ && op->receive ? op : nullptr;
}

bool Receiver::on_data(Incoming& incoming) {
  const Header& header = incoming.header;
  Op* op = own_receive(header.id);
  if (op == nullptr) {
    ++module_.counters.dropped_messages;
    return true;
  }
  const bool fits =
      op->state == OpState::kAwaitData && op->message_class == header.message_class && op->arriving == header.length;
  if (fits) receive_into(incoming, *op);
  return fits;
}

void Receiver::fill(Incoming& incoming, ByteView bytes) {
  if (incoming.op != nullptr) {
    incoming.op->cursor.copy_in(bytes.data(), bytes.size());
  } else if (incoming.arrived != nullptr) {
    std::byte* const payload = incoming.arrived->payload.data();
    std::memcpy(payload + (incoming.header.length - incoming.left), bytes.data(), bytes.size());
  }
  incoming.left -= bytes.size();
}

void Receiver::whole(Incoming& incoming) {
  incoming.active = false;
  const Header& header = incoming.header;
  Op* const op = std::exchange(incoming.op, nullptr);
  std::unique_ptr<Arrived> arrived = std::move(incoming.arrived);
  if (op != nullptr || arrived != nullptr) ++module_.counters.received_messages;
  if (header.type == FrameType::kUnexpected) {
    undelivered_ += cost_of(header.length);
    if (owner_.unauthenticated) path_.unauthenticated_asked();
    return module_.outbox.unexpected(owner_, Tag(arrived->tag), std::move(arrived->payload), cost_of(header.length));
  }
  if (arrived == nullptr && header.type == FrameType::kEager) give_back(header.message_class, cost_of(header.length));
  if (op != nullptr) return module_.finish(*op, Errc::kOk, op->arriving);
  if (arrived == nullptr) return;
  ClassState& c = state_of(header.message_class);
  if (Node* node = c.posted.take_front(arrived->tag)) {  // a receive was posted while the payload was arriving
    take_arrived(op_of(*node), std::move(arrived));
  } else {
    c.arrived.push_back(*arrived.release());
  }
}

bool Receiver::abort(Incoming& incoming) {
  if (!incoming.active) return false;
  incoming.active = false;
  ++module_.counters.aborted;
  incoming.arrived.reset();
  const Header& header = incoming.header;
  const bool charged = header.type == FrameType::kEager || header.type == FrameType::kUnexpected;
  if (charged) give_back(header.message_class, cost_of(header.length));
  if (Op* op = std::exchange(incoming.op, nullptr)) put_back(*op);
  return true;
}

/// The receive waits for the next message of its tag again, before the receives that were posted after it.
void Receiver::put_back(Op& op) {
  ClassState& c = state_of(op.message_class);
  op.cursor = SegmentCursor(op.segments.view());
  if (c.arrived.front(op.tag) != nullptr) return match_or_post(op);
  op.state = OpState::kPosted;
  c.posted.push_front(op);
}

// --- receives ---

void Receiver::post(Op& op) {
  op.state = OpState::kFilling;
  match_or_post(op);
}

void Receiver::match_or_post(Op& op) {
  ClassState& c = state_of(op.message_class);
  Node* node = c.arrived.take_front(op.tag);
  if (node == nullptr) {
    op.state = OpState::kPosted;
    c.posted.push_back(op);
    return;
  }
  std::unique_ptr<Arrived> arrived(static_cast<Arrived*>(node));
  if (arrived->announced) --c.announcements;
  take_arrived(op, std::move(arrived));
}

void Receiver::take_arrived(Op& op, std::unique_ptr<Arrived> arrived) {
  if (arrived->announced) return clear(op, arrived->length, arrived->remote_id, std::move(arrived->source));
  give_back(op.message_class, cost_of(arrived->length));
  op.arriving = arrived->length;
  if (arrived->length > op.size) return module_.finish(op, Errc::kMessageTooBig, 0);
  op.cursor.copy_in(arrived->payload.data(), arrived->length);
  module_.finish(op, Errc::kOk, arrived->length);
}

void Receiver::cancel(Op& op) {
  switch (op.state) {
    case OpState::kPosted: state_of(op.message_class).posted.remove(op); break;
    case OpState::kFilling: op.incoming->op = nullptr; break;
    case OpState::kPulling:
      if (!path_.stop_pull(op)) return;
      answer_taken(op);
      break;
    default: break;  // kAwaitData: the data will find no receive, and is dropped
  }
  module_.finish(op, Errc::kCancelled, 0);
}

// --- announced messages ---

bool Receiver::on_announce(const Header& header, std::vector<Extent>&& source) {
  ClassState& c = state_of(header.message_class);
  if (Node* node = c.posted.take_front(header.tag)) {
    clear(op_of(*node), header.length, header.id, std::move(source));
    return true;
  }
  if (header.type == FrameType::kReady) {
    ++module_.counters.dropped_messages;
    answer(FrameType::kTaken, header.message_class, header.id);
    return true;
  }
  std::uint32_t most = module_.limits.max_announced;
  if (owner_.unauthenticated) most = std::min(most, module_.options->unauthenticated.announced);
  if (c.announcements >= most) return false;
  ++c.announcements;
  auto announced = std::make_unique<Arrived>();
  announced->tag = header.tag;
  announced->length = header.length;
  announced->remote_id = header.id;
  announced->announced = true;
  announced->source = std::move(source);
  c.arrived.push_back(*announced.release());
  return true;
}

/// Gives the peer's announced message `remote_id` to this receive.
void Receiver::clear(Op& op, std::uint64_t length, std::uint64_t remote_id, std::vector<Extent>&& source) {
  const bool fits = length <= op.size;
  op.arriving = length;
  if (fits && !source.empty()) return pull(op, remote_id, std::move(source));
  Header header;
  header.type = FrameType::kClear;
  header.message_class = op.message_class;
  header.flags = fits ? 0 : kFlagTooBig;
  header.tag = op.id.value;
  header.id = remote_id;
  path_.answer(header);
  if (!fits) return module_.finish(op, Errc::kMessageTooBig, 0);
  op.state = OpState::kAwaitData;
}

void Receiver::pull(Op& op, std::uint64_t remote_id, std::vector<Extent>&& source) {
  op.state = OpState::kPulling;
  op.left = op.arriving;
  op.remote_id = remote_id;
  op.source = std::move(source);
  op.source_index = 0;
  op.source_offset = 0;
  if (path_.pull(op)) return;
  // The sender learns that its message was taken. The caller of this side gets the failure.
  answer_taken(op);
  module_.finish(op, Errc::kNoMemory, 0);
}

void Receiver::answer_taken(const Op& op) { answer(FrameType::kTaken, op.message_class, op.remote_id); }

void Receiver::pulled(Op& op) {
  answer_taken(op);
  module_.finish(op, Errc::kOk, op.arriving);
}

void Receiver::answer(FrameType type, MessageClass c, std::uint64_t id) {
  Header header;
  header.type = type;
  header.message_class = c;
  header.id = id;
  path_.answer(header);
}

bool Receiver::on_no_data(const Header& header) {
  Op* op = own_receive(header.id);
  if (op == nullptr) return true;  // it was cancelled on both sides
  if (op->state != OpState::kAwaitData) return false;
  put_back(*op);
  return true;
}

void Receiver::on_withdraw(const Header& header) {
  ClassState& c = state_of(header.message_class);
  for (Node* node = c.arrived.front(header.tag); node != nullptr; node = node->next) {
    auto* arrived = static_cast<Arrived*>(node);
    if (!arrived->announced || arrived->remote_id != header.id) continue;
    c.arrived.remove(*node);
    std::unique_ptr<Arrived>(arrived).reset();
    --c.announcements;
    if ((header.flags & kFlagLocated) != 0) answer(FrameType::kWithdrawn, header.message_class, header.id);
    return;
  }
}

}  // namespace spate::bmi::protocol
