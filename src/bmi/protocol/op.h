// SPDX-License-Identifier: Apache-2.0
// Op: a module's state of one operation. Arrived: a message that came before its receive. Incoming: a message that is
// arriving.
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
  kWaitLink,     // waits for its class to be open; in PeerBase::waiting_
  kWaitCredit,   // an unexpected message that waits for credit; in Sender::unexpected_waiting_
  kWaitTurn,     // an expected message that may not be announced yet; in Sender::ClassState::waiting
  kSending,      // its frame is in the module's send queue
  kHeld,         // its result is known, but the device still uses its memory
  kAnnounced,    // announced, not yet cleared or taken
  kWithdrawing,  // a cancelled located send: the peer has not confirmed yet that it will not read it; in
                 // Sender::withdrawing_
  kPosted,       // a receive in the match table
  kAwaitData,    // a receive that cleared an announced message
  kFilling,      // a receive whose payload is arriving
  kPulling,      // a receive that reads a located message
};

/// A part of a located message, in the receiver's terms. With shm, `address` points into the receiver's mapping; with
/// ofi, key and address are those of the sender's provider.
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
  bool in_post = false;  // its post has not returned yet and takes the result from `done_in_post`
  bool done_in_post = false;
  bool without_sendfile = false;  // tcp: its file does not support sendfile, so it is read and sent
  bool lend = false;              // tcp: its memory is sent without a copy; set while it waits to leave
  bool past_end = false;          // its file segment ended early: the rest up to the promised length is zeros
  Errc end_status = Errc::kOk;    // kHeld: the status to report
  std::uint32_t uses = 0;         // how many times the device is using its memory now
  std::uint64_t size = 0;         // posted, bytes
  std::uint64_t arriving = 0;     // receives from kAwaitData on: length of the message, bytes
  std::uint64_t left = 0;     // kSending: bytes not yet in a frame; kPulling: bytes not yet read, or not yet requested
  std::uint64_t charged = 0;  // sends: the part of the peer's credit that it used
  std::uint64_t remote_id = 0;   // kData, kPulling: the other side's operation
  std::uint64_t position = 0;    // kSending: position in the send queue
  Incoming* incoming = nullptr;  // kFilling: the message that fills it
  SegmentStore segments;
  SegmentCursor cursor;
  MonoTime deadline = MonoTime::never();  // kWithdrawing, kHeld
  std::vector<Extent> source;             // kPulling: where the message lies
  std::size_t source_index = 0;
  std::uint64_t source_offset = 0;
  PinCache* pin_cache = nullptr;
  std::vector<PinCache::Region*> pins;  // of pin_cache, one for each segment, while the device uses them
  Op* previous_of_peer = nullptr;       // all operations of the peer, in the order of their posts
  Op* next_of_peer = nullptr;
};

/// The operation of a node. The node must be an operation.
inline Op& op_of(Node& node) { return static_cast<Op&>(node); }

/// A message that arrived, or is arriving, before its receive. An announced message has no payload here.
struct Arrived : Node {
  std::uint64_t length = 0;
  std::uint64_t remote_id = 0;  // announced: the sender's operation
  bool announced = false;
  std::vector<Extent> source;  // located messages: where the message lies
  Buffer payload;
};

/// A message that is arriving, and where its payload goes: to `op`, to `arrived`, or nowhere if both are null. The
/// module has one for each stream of messages.
struct Incoming {
  bool active = false;
  Header header;
  std::uint64_t left = 0;            // bytes that have not arrived yet
  Op* op = nullptr;                  // the receive whose segments the payload fills
  std::unique_ptr<Arrived> arrived;  // the message without a receive that keeps the payload
};

}  // namespace spate::bmi::protocol
