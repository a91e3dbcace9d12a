// SPDX-License-Identifier: Apache-2.0
// Receiver: the receiving half of a peer. It matches messages with receives, and limits how much the peer can make this
// side hold.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <vector>

#include "bmi/sim/credit.h"
#include "bmi/sim/line.h"

namespace spate::bmi::sim {

/// Operations are found by id, and queues keep them in the order of their posts. So a cancel is cheap, and an operation
/// that has to go back finds its old place.
class Receiver {
 public:
  Receiver(Host& host, Line& line);
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;

  Result<PostResult> post(const Post& post);
  bool has(OpId op) const { return receives_.contains(op); }
  void cancel(OpId op);
  /// The caller took an unexpected message.
  void consumed(std::uint64_t charge) { release(kUnexpectedPool, charge); }

  /// Whether the peer is not admitted yet. NetworkOptions::unauthenticated limits it until then.
  bool unauthenticated() const { return unauthenticated_; }
  void set_unauthenticated(bool unauthenticated) { unauthenticated_ = unauthenticated; }
  /// Fills in the hello: how much this side may be made to hold, and how much it holds already.
  void describe(Hello& hello) const;
  /// Takes the credit that goes back with a packet.
  void take_owed(Credits& credits);
  /// The connection is gone. Moves all operations to `posted` and drops buffered messages.
  void lose(OpQueue& posted);

  /// Reports an unexpected message to the core, if the peer's credit allows it.
  bool hold_unexpected(const Packet& packet);
  // Packets of the peer.
  void on_eager(Packet& packet);
  void on_announce(const Packet& packet);
  void on_ready(const Packet& packet);
  void on_data(const Packet& packet);
  void on_withdraw(const Packet& packet);

 private:
  struct Receive {
    std::uint64_t order = 0;
    MatchKey key;
    std::vector<Segment> segments;
    std::uint64_t size = 0;
    std::uint64_t transfer = 0;  // the transfer that fills it; 0: it waits
  };
  struct Arrival {  // a message without a receive
    bool announced = false;
    Bytes payload;
    std::uint64_t transfer = 0;
    std::uint64_t size = 0;
  };
  struct Incoming {  // a message whose data are arriving
    OpId op;         // none: the data are dropped when they arrive
    MatchKey key;
    std::uint64_t size = 0;
    std::uint64_t received = 0;
  };

  OpId first_waiting(MatchKey key) const;
  void match(OpId op);
  void unqueue(const Receive& receive);
  void take_whole(OpId op, ByteView payload);
  void accept_announced(OpId op, std::uint64_t transfer, std::uint64_t size);
  void complete(OpId op, Errc status, std::uint64_t size);
  /// False: the peer has exceeded its credit, or an unauthenticated peer's limit.
  bool hold(Pool pool, std::uint64_t amount);
  std::uint64_t most_of(Pool pool) const;
  void release(Pool pool, std::uint64_t amount);

  Host& host_;
  Line& line_;
  std::array<ReceiveCredit, kPools> credit_;
  bool unauthenticated_ = false;
  std::map<OpId, Receive> receives_;
  std::map<MatchKey, OpQueue> posted_;
  std::map<MatchKey, std::deque<Arrival>> arrivals_;
  std::map<std::uint64_t, Incoming> incoming_;  // by the sender's number of the transfer
};

}  // namespace spate::bmi::sim
