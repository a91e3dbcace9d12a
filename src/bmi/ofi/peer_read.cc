// SPDX-License-Identifier: Apache-2.0
// Large messages by RMA: the receiver reads them out of the sender's memory straight into the posted receive.
#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "bmi/ofi/peer.h"

namespace spate::bmi::ofi {
namespace {

// One read, and reads of one peer at a time: enough to keep a link busy, little enough that a control packet which
// shares the link with the answers waits for a few of them at most.
constexpr std::uint64_t kReadBytes = 512 * 1024;
constexpr std::uint32_t kReadsAtOnce = 4;

}  // namespace

void Peer::pull(OfiOp& op, const Arrived& arrived) {
  op.state = OpState::kPulling;
  op.arriving = op.left = arrived.length;
  op.remote_id = arrived.remote_id;
  op.source = arrived.source;
  op.source_index = 0;
  op.source_offset = 0;
  op.reads = 0;
  pulls_.push_back(op);
  if (wire->local_needed() && !pin(op)) {
    // There is no memory to read into: the sender learns that its message was taken, and this side's caller gets the
    // failure.
    pulls_.remove(op);
    answer(PacketType::kTaken, op.message_class, op.remote_id);
    return finish(op, Errc::kNoMemory, 0);
  }
  host_.keep_turning(*this);
}

bool Peer::begin_reads() {
  bool any = false;
  while (!pulls_.empty() && reads_ < kReadsAtOnce) {
    OfiOp& op = op_of(*pulls_.front());
    const Wire::Begun begun = begin_read(op);
    if (begun == Wire::Begun::kNo) host_.lose_later(*this, Errc::kConnectionLost);
    if (begun != Wire::Begun::kYes) return any;
    any = true;
    if (op.left == 0) pulls_.remove(op);
  }
  return any;
}

Wire::Begun Peer::begin_read(OfiOp& op) {
  constexpr std::size_t kMostPieces = 16;
  const Extent& extent = op.source[op.source_index];
  std::uint64_t wanted = std::min(kReadBytes, extent.size - op.source_offset);
  Pieces pieces;
  wanted = std::min(wanted, op.cursor.gather(pieces, wanted));
  const std::size_t most = std::min(wire->max_pieces(), kMostPieces);
  while (pieces.count > most) wanted -= pieces.list[--pieces.count].iov_len;
  std::array<void*, kMostPieces> descriptors{};
  if (!op.pins.empty()) {
    for (std::size_t i = 0; i < pieces.count; ++i) {
      const auto at = reinterpret_cast<std::uintptr_t>(pieces.list[i].iov_base);
      const PageRange range{at, at + pieces.list[i].iov_len};
      const auto holds = [&](const PinCache::Region* region) { return region->range().contains(range); };
      const auto found = std::ranges::find_if(op.pins, holds);
      SPATE_CHECK(found != op.pins.end());
      descriptors[i] = wire->descriptor_of(**found);
    }
  }
  const Extent from{extent.key, extent.address + op.source_offset, wanted};
  const Wire::Begun begun =
      wire->read(*route, {pieces.list.data(), pieces.count}, {descriptors.data(), pieces.count}, from, &op);
  if (begun != Wire::Begun::kYes) return begun;
  op.cursor.advance(wanted);
  op.left -= wanted;
  op.source_offset += wanted;
  if (op.source_offset == extent.size) {
    ++op.source_index;
    op.source_offset = 0;
  }
  ++op.reads;
  ++reads_;
  host_.counters().read_bytes += wanted;
  return begun;
}

void Peer::on_read(OfiOp& op, bool good) {
  --op.reads;
  if (op.state == OpState::kEnding) {
    if (op.reads > 0) return;
    ending_.remove(op);
    // 0: of a session that is over.
    if (op.remote_id != 0 && state == Standing::kUp) {
      answer(PacketType::kTaken, op.message_class, op.remote_id);
      flush();
    }
    return finish(op, op.end_status, 0);
  }
  --reads_;
  if (!good) {
    // Its pages are gone, its key is wrong or its process is: whichever, this session cannot go on.
    if (op.left > 0) pulls_.remove(op);
    op.left = 0;
    end_later(op, Errc::kConnectionLost);
    if (op.reads == 0) {
      ending_.remove(op);
      finish(op, Errc::kConnectionLost, 0);
    }
    return host_.lose_later(*this, Errc::kConnectionLost);
  }
  if (op.left == 0 && op.reads == 0) pulled(op);
  turn();
}

void Peer::pulled(OfiOp& op) {
  answer(PacketType::kTaken, op.message_class, op.remote_id);
  finish(op, Errc::kOk, op.arriving);
}

void Peer::cancel_pulling(OfiOp& op) {
  if (op.left > 0) pulls_.remove(op);
  if (op.reads > 0) {
    const std::uint64_t remote_id = op.remote_id;
    end_later(op, Errc::kCancelled);
    op.remote_id = remote_id;  // will be answered, since the session continues
    return;
  }
  answer(PacketType::kTaken, op.message_class, op.remote_id);
  finish(op, Errc::kCancelled, 0);
  flush();
}

void Peer::end_later(OfiOp& op, Errc status) {
  reads_ -= std::min(reads_, op.reads);
  op.state = OpState::kEnding;
  op.end_status = status;
  op.remote_id = 0;
  op.deadline = host_.begin_grace();
  ending_.push_back(op);
}

void Peer::reads_are_over() {
  while (Node* node = ending_.pop_front()) {
    OfiOp& op = op_of(*node);
    op.reads = 0;
    host_.completed(op, op.end_status, 0);
  }
}

}  // namespace spate::bmi::ofi
