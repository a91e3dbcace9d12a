// SPDX-License-Identifier: Apache-2.0
// Large messages by RMA: the receiver reads them out of the sender's memory straight into the posted receive.
#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "bmi/ofi/peer.h"

namespace spate::bmi::ofi {
namespace {

// The size of one read, and the most reads of one peer at a time. This keeps a link busy. A control packet that shares
// the link with the answers waits for a few of them at most.
constexpr std::uint64_t kReadBytes = 512 * 1024;
constexpr std::uint32_t kReadsAtOnce = 4;

}  // namespace

bool Peer::pull(Op& op) {
  pulls_.push_back(op);
  if (wire->local_needed() && !pin(op)) {  // there is no memory to read into
    pulls_.remove(op);
    return false;
  }
  host_.keep_turning(*this);
  return true;
}

bool Peer::stop_pull(Op& op) {
  if (op.left > 0) pulls_.remove(op);
  if (op.uses == 0) return true;
  const std::uint64_t remote_id = op.remote_id;
  end_later(op, Errc::kCancelled);
  op.remote_id = remote_id;  // it will be answered, since the session continues
  return false;
}

bool Peer::begin_reads() {
  bool any = false;
  while (!pulls_.empty() && reads_ < kReadsAtOnce) {
    Op& op = op_of(*pulls_.front());
    const Wire::Begun begun = begin_read(op);
    if (begun == Wire::Begun::kNo) module().lose_later(*this, Errc::kConnectionLost);
    if (begun != Wire::Begun::kYes) return any;
    any = true;
    if (op.left == 0) pulls_.remove(op);
  }
  return any;
}

Wire::Begun Peer::begin_read(Op& op) {
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
  ++op.uses;
  ++reads_;
  host_.counters().read_bytes += wanted;
  return begun;
}

void Peer::on_read(Op& op, bool good) {
  --op.uses;
  if (op.state == OpState::kHeld) {
    if (op.uses > 0) return;
    ending_.remove(op);
    // An operation of a session that has ended has 0 here.
    if (op.remote_id != 0 && state == PeerPhase::kUp) {
      receiver().answer_taken(op);
      flush();
    }
    return module().finish(op, op.end_status, 0);
  }
  --reads_;
  if (!good) {
    // The peer's pages, its key or its process are gone. In each case this session cannot go on.
    if (op.left > 0) pulls_.remove(op);
    op.left = 0;
    end_later(op, Errc::kConnectionLost);
    if (op.uses == 0) {
      ending_.remove(op);
      module().finish(op, Errc::kConnectionLost, 0);
    }
    return module().lose_later(*this, Errc::kConnectionLost);
  }
  if (op.left == 0 && op.uses == 0) receiver().pulled(op);
  turn();
}

void Peer::end_later(Op& op, Errc status) {
  reads_ -= std::min(reads_, op.uses);
  op.state = OpState::kHeld;
  op.end_status = status;
  op.remote_id = 0;
  op.deadline = host_.begin_grace();
  ending_.push_back(op);
}

void Peer::reads_are_over() {
  while (Node* node = ending_.pop_front()) {
    Op& op = op_of(*node);
    op.uses = 0;
    module().completed(op, op.end_status, 0);
  }
}

}  // namespace spate::bmi::ofi
