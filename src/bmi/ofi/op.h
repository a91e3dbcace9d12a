// SPDX-License-Identifier: Apache-2.0
// OfiOp: the module's state of one operation; Arrived: a message before its receive.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "bmi/module.h"
#include "bmi/node_list.h"
#include "bmi/ofi/packet.h"
#include "bmi/pin_cache.h"
#include "bmi/segments.h"

namespace spate::bmi::ofi {

class Peer;

enum class OpState : std::uint8_t {
  kWaitLink,     // for the session: in Peer::waiting_
  kWaitCredit,   // an unexpected message without credit: in Peer::unexpected_waiting_
  kWaitTurn,     // an expected message without room for its announcement: in ClassState::sends_waiting
  kSending,      // its packet is in the class's send queue
  kAnnounced,    // announced, not yet cleared or taken
  kWithdrawing,  // located and cancelled: the peer has not confirmed yet that it will not read it; in
                 // Peer::withdrawing_
  kPosted,       // a receive in the match table
  kAwaitData,    // a receive that cleared an announced message
  kFilling,      // a receive whose payload is arriving
  kPulling,      // a receive of a located message: in Peer::pulls_
  kEnding,       // as kPulling, but ended: waits for the reads in flight; in Peer::ending_
};

struct OfiOp : Node {
  OpId id;  // 0: free
  Peer* peer = nullptr;
  OpState state = OpState::kPosted;
  MessageClass message_class = MessageClass::kControl;
  bool receive = false;
  bool unexpected = false;
  bool receiver_ready = false;
  bool located = false;  // announced as located
  bool in_post = false;  // its post has not returned yet: reports through `done_in_post`
  bool done_in_post = false;
  bool past_end = false;                  // its file segment ended early: zeros up to the promised length
  Errc end_status = Errc::kOk;            // kEnding: what to report
  std::uint32_t reads = 0;                // under way into its memory
  std::uint64_t size = 0;                 // posted, bytes
  std::uint64_t arriving = 0;             // receives from kAwaitData on: bytes of the message
  std::uint64_t left = 0;                 // kSending: bytes not yet in a packet; kPulling: for which no read was posted
  std::uint64_t charged = 0;              // sends: what the packet cost of the peer's credit
  std::uint64_t remote_id = 0;            // kData, kPulling: the other side's operation
  std::uint64_t position = 0;             // in the send queue, kSending
  MonoTime deadline = MonoTime::never();  // kWithdrawing, kEnding
  SegmentStore segments;
  SegmentCursor cursor;
  PinCache* pin_cache = nullptr;
  std::vector<PinCache::Region*> pins;  // of pin_cache, one a segment, while the device uses them
  std::vector<Extent> source;           // kPulling: where the message lies
  std::size_t source_index = 0;
  std::uint64_t source_offset = 0;
  OfiOp* previous_of_peer = nullptr;  // all operations of the peer, in the order of their posts
  OfiOp* next_of_peer = nullptr;
};

/// The operation of a node. The node must be an operation.
inline OfiOp& op_of(Node& node) { return static_cast<OfiOp&>(node); }

/// A message that arrived, or is arriving, before its receive; an announced one has no payload here.
struct Arrived : Node {
  std::uint64_t length = 0;
  std::uint64_t remote_id = 0;  // announced: the sender's operation
  bool announced = false;
  std::vector<Extent> source;  // located: where; else empty
  Buffer payload;
};

}  // namespace spate::bmi::ofi
