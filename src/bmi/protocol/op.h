// SPDX-License-Identifier: Apache-2.0
// Op: a module's state of one operation. Arrived: a message before its receive. Incoming: a message on its way.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "bmi/module.h"
#include "bmi/node_list.h"
#include "bmi/pin_cache.h"
#include "bmi/protocol/frame.h"
#include "bmi/segments.h"

namespace spate::bmi::protocol {

struct Incoming;
class PeerRecord;

enum class OpState : std::uint8_t {
  kWaitLink,     // for its class to be open: in Peer::waiting_
  kWaitCredit,   // an unexpected message without credit: in Sender::unexpected_waiting_
  kWaitTurn,     // an expected message without room for its announcement: in Sender::ClassState::waiting
  kSending,      // its frame is in the module's send queue
  kHeld,         // its result is known, but the device still uses its memory
  kAnnounced,    // announced, not yet cleared or taken
  kWithdrawing,  // located and cancelled: the peer has not confirmed yet that it will not read it; in
                 // Sender::withdrawing_
  kPosted,       // a receive in the match table
  kAwaitData,    // a receive that cleared an announced message
  kFilling,      // a receive whose payload is arriving
  kPulling,      // a receive that reads a located message
};

/// A part of a located message, as the receiver reads it: shm has the address of its own mapping, ofi what the sender's
/// provider said.
struct Extent {
  std::uint64_t key = 0;
  std::uint64_t address = 0;
  std::uint64_t size = 0;
  friend bool operator==(const Extent&, const Extent&) = default;
};

struct Op : Node {
  OpId id;  // 0: free
  PeerRecord* peer = nullptr;
  OpState state = OpState::kPosted;
  MessageClass message_class = MessageClass::kControl;
  bool receive = false;
  bool unexpected = false;
  bool receiver_ready = false;
  bool located = false;  // announced as located
  bool in_post = false;  // its post has not returned yet: reports through `done_in_post`
  bool done_in_post = false;
  bool without_sendfile = false;  // tcp: its file does not support sendfile: read and sent instead
  bool lend = false;              // tcp: send its memory without a copy; while it waits to leave
  bool past_end = false;          // its file segment ended early: zeros up to the promised length
  Errc end_status = Errc::kOk;    // kHeld: what to report
  std::uint32_t uses = 0;         // of its memory by the device
  std::uint64_t size = 0;         // posted, bytes
  std::uint64_t arriving = 0;     // receives from kAwaitData on: bytes of the message
  std::uint64_t left = 0;         // kSending: bytes not yet in a frame; kPulling: not yet read, or asked for
  std::uint64_t charged = 0;      // sends: what the frame cost of the peer's credit
  std::uint64_t remote_id = 0;    // kData, kPulling: the other side's operation
  std::uint64_t position = 0;     // kSending: in the send queue
  Incoming* incoming = nullptr;   // kFilling
  SegmentStore segments;
  SegmentCursor cursor;
  MonoTime deadline = MonoTime::never();  // kWithdrawing, kHeld
  std::vector<Extent> source;             // kPulling: where the message lies
  std::size_t source_index = 0;
  std::uint64_t source_offset = 0;
  PinCache* pin_cache = nullptr;
  std::vector<PinCache::Region*> pins;  // of pin_cache, one a segment, while the device uses them
  Op* previous_of_peer = nullptr;       // all operations of the peer, in the order of their posts
  Op* next_of_peer = nullptr;
};

/// The operation of a node. The node must be an operation.
inline Op& op_of(Node& node) { return static_cast<Op&>(node); }

/// A message that arrived, or is arriving, before its receive; an announced one has no payload here.
struct Arrived : Node {
  std::uint64_t length = 0;
  std::uint64_t remote_id = 0;  // announced: the sender's operation
  bool announced = false;
  std::vector<Extent> source;  // located: where; else empty
  Buffer payload;
};

/// The destination of the current message's payload. Without `op` and `arrived` it is dropped. The module owns one for
/// each stream on which messages arrive one after another.
struct Incoming {
  bool active = false;
  Header header;
  std::uint64_t left = 0;            // bytes still to come
  Op* op = nullptr;                  // a receive: into its segments
  std::unique_ptr<Arrived> arrived;  // no receive yet: into its payload
};

}  // namespace spate::bmi::protocol
