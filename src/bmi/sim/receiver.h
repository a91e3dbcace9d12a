// SPDX-License-Identifier: Apache-2.0
// Receiver: the receiving half of a peer: matching, and what the peer may make this side hold.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <vector>

#include "bmi/sim/credit.h"
#include "bmi/sim/line.h"

namespace spate::bmi::sim {

/// Operations are found by id; queues hold them in the order of posting, so that a cancel is cheap and an operation
/// that must go back finds its old turn.
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

  /// Not admitted, until then: NetworkOptions::strangers bounds what it may do.
  bool stranger() const { return stranger_; }
  void set_stranger(bool stranger) { stranger_ = stranger; }
  /// What this side may be made to hold, and what it holds already, for the hello.
  void describe(Hello& hello) const;
  /// Room that goes back with a packet.
  void take_owed(Credits& credits);
  /// The connection is gone: adds all operations to `posted`, and forgets them and what was buffered.
  void lose(OpQueue& posted);

  /// An unexpected message: it may be held, and goes to the core.
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
    std::uint64_t transfer = 0;  // being filled by it; 0: waiting
  };
  struct Arrival {  // a message that nobody waits for yet
    bool announced = false;
    Bytes payload;
    std::uint64_t transfer = 0;
    std::uint64_t size = 0;
  };
  struct Incoming {  // data under way to us
    OpId op;         // none: dropped on arrival
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
  /// False: the peer has exceeded its credit, or a stranger's limit.
  bool hold(Pool pool, std::uint64_t amount);
  std::uint64_t most_of(Pool pool) const;
  void release(Pool pool, std::uint64_t amount);

  Host& host_;
  Line& line_;
  std::array<ReceiveCredit, kPools> credit_;
  bool stranger_ = false;
  std::map<OpId, Receive> receives_;
  std::map<MatchKey, OpQueue> posted_;
  std::map<MatchKey, std::deque<Arrival>> arrivals_;
  std::map<std::uint64_t, Incoming> incoming_;  // by the other side's transfer
};

}  // namespace spate::bmi::sim
