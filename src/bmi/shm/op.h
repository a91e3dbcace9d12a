// SPDX-License-Identifier: Apache-2.0
// ShmOp: the module's state of one operation; Arrived: a message before its receive.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "bmi/module.h"
#include "bmi/node_list.h"
#include "bmi/segments.h"

namespace spate::bmi::shm {

class Peer;

enum class OpState : std::uint8_t {
  kWaitLink,     // for the link: in Peer::waiting_
  kWaitCredit,   // an unexpected message without credit: in Peer::unexpected_waiting_
  kWaitTurn,     // an expected message without room for its announcement: in ClassState::sends_waiting
  kSending,      // its frame is in the class's send queue
  kAnnounced,    // announced, not yet cleared or taken
  kWithdrawing,  // located and cancelled: the peer has not confirmed yet that it will not read it; in
                 // Peer::withdrawing_
  kPosted,       // a receive in the match table
  kAwaitData,    // a receive that cleared an announced message
  kFilling,      // a receive whose payload is arriving
  kPulling,      // a receive of a located message: in Peer::pulls_
};

struct ShmOp : Node {
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
  std::uint64_t size = 0;                 // posted, bytes
  std::uint64_t arriving = 0;             // receives from kAwaitData on: bytes of the message
  std::uint64_t left = 0;                 // kSending: bytes not yet in the lane; kPulling: not yet copied
  std::uint64_t charged = 0;              // sends: what the frame cost of the peer's credit
  std::uint64_t remote_id = 0;            // kData, kPulling: the other side's operation
  std::uint64_t position = 0;             // in the send queue, kSending
  MonoTime deadline = MonoTime::never();  // kWithdrawing
  SegmentStore segments;
  SegmentCursor cursor;
  SegmentStore source;  // kPulling: where the message lies
  SegmentCursor source_cursor;
  ShmOp* previous_of_peer = nullptr;  // all operations of the peer, in the order of their posts
  ShmOp* next_of_peer = nullptr;
};

/// The operation of a node. The node must be an operation.
inline ShmOp& op_of(Node& node) { return static_cast<ShmOp&>(node); }

/// A message that arrived, or is arriving, before its receive; an announced one has no payload here.
struct Arrived : Node {
  std::uint64_t length = 0;
  std::uint64_t remote_id = 0;  // announced: the sender's operation
  bool announced = false;
  bool located = false;  // and where, when this side has it mapped:
  std::vector<Segment> source;
  Buffer payload;
};

}  // namespace spate::bmi::shm
