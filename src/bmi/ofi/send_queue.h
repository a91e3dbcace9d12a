// SPDX-License-Identifier: Apache-2.0
// SendQueue: the packets of one class that wait for room; copies payload into them, from memory and from files.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "bmi/ofi/op.h"
#include "bmi/ofi/packet.h"
#include "bmi/ring.h"

namespace spate::bmi::ofi {

/// The destination of packets.
class PacketWriter {
 public:
  virtual ~PacketWriter() = default;
  /// Room for the next packet's payload; empty: none now.
  virtual MutableByteView room() = 0;
  /// Sends what was written to room(): `payload` bytes of it.
  virtual void publish(const PacketHeader& header, std::size_t payload) = 0;
};

/// Learns which operations have left.
class SendObserver {
 public:
  virtual ~SendObserver() = default;
  /// The operation's whole message is in packets: its memory may be reused.
  virtual void sent(OfiOp& op) = 0;
  /// A file segment could not be read: nothing more of the message leaves.
  virtual void failed(OfiOp& op, Errc status) = 0;
};

/// Not thread-safe (the module's lock).
class SendQueue {
 public:
  /// Appends a packet whose payload, if any, is `op`'s; `op->left` bytes of it from `op->cursor`.
  void push(const PacketHeader& header, OfiOp* op);
  /// Appends a packet with a payload of its own, which fits one packet.
  void push_own(const PacketHeader& header, Bytes payload);
  /// Removes the operation's message. True: nothing of it has left, and `substitute`, if any, leaves in its place.
  /// False: a part has left, and an abort leaves in place of the rest.
  bool withdraw(OfiOp& op, const PacketHeader* substitute);
  /// Writes until there is no room. True when everything is out.
  bool flush(PacketWriter& writer, SendObserver& observer);

  bool empty() const { return entries_.empty(); }
  /// Packets without an operation in the queue.
  std::size_t answers() const { return answers_; }

 private:
  struct Entry {
    PacketHeader header;
    OfiOp* op = nullptr;
    Bytes own;
    bool skipped = false;
  };
  bool write_op(PacketWriter& writer, Entry& entry, SendObserver& observer);

  Ring<Entry> entries_;
  std::size_t answers_ = 0;
  bool begun_ = false;  // a part of the front message is out
};

}  // namespace spate::bmi::ofi
