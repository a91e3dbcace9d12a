// SPDX-License-Identifier: Apache-2.0
// TcpOp: the module's state of one operation.
#pragma once

#include <cstdint>

#include "bmi/module.h"
#include "bmi/node_list.h"
#include "bmi/segments.h"

namespace spate::bmi::tcp {

class Connection;
class Peer;

enum class OpState : std::uint8_t {
  kWaitChannel,  // for the connection: in Channel::waiting
  kWaitCredit,   // an unexpected message without credit: in ClassState::unexpected_waiting
  kWaitTurn,     // an expected message without room for its announcement: in ClassState::sends_waiting
  kSending,      // its frame is in the connection's send queue
  kLent,         // its frame has left; the kernel still reads its memory
  kAnnounced,    // announced, not yet cleared
  kPosted,       // a receive in the match table
  kAwaitData,    // a receive that cleared an announced message
  kFilling,      // a receive whose payload is arriving
};

struct TcpOp : Node {
  OpId id;  // 0: free
  Peer* peer = nullptr;
  OpState state = OpState::kPosted;
  MessageClass message_class = MessageClass::kControl;
  bool receive = false;
  bool unexpected = false;
  bool receiver_ready = false;
  bool in_post = false;  // its post has not returned yet: reports through `done_in_post`
  bool done_in_post = false;
  bool without_sendfile = false;      // its file does not support sendfile: read and sent instead
  bool past_end = false;              // its file segment ended early: zeros up to the promised length
  bool lend = false;                  // send its memory without a copy; while it waits to leave
  std::uint32_t zero_copy_sends = 0;  // calls for which the kernel still reads its memory
  std::uint64_t size = 0;             // posted, bytes
  std::uint64_t arriving = 0;         // receives in kAwaitData or kFilling: bytes of the message
  std::uint64_t charged = 0;          // sends: what the frame cost of the peer's credit
  std::uint64_t remote_id = 0;        // kData: the receiver's operation
  std::uint64_t position = 0;         // in the send queue, kSending
  Connection* connection = nullptr;   // kSending, kLent, kFilling
  SegmentStore segments;
  SegmentCursor cursor;
  TcpOp* previous_of_peer = nullptr;  // all operations of the peer, in the order of their posts
  TcpOp* next_of_peer = nullptr;
};

/// The operation of a node. The node must be an operation.
inline TcpOp& op_of(Node& node) { return static_cast<TcpOp&>(node); }

}  // namespace spate::bmi::tcp
