// SPDX-License-Identifier: Apache-2.0
// Sender: the sending half of a peer: credit, announcements, packets.
#pragma once

#include <array>
#include <map>
#include <vector>

#include "bmi/sim/credit.h"
#include "bmi/sim/line.h"

namespace spate::bmi::sim {

/// Operations are found by id, and queues keep them in the order of their posts, so that a cancel is cheap.
class Sender {
 public:
  Sender(Host& host, Line& line) : host_(host), line_(line) {}
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  Result<PostResult> post(const Post& post, bool unexpected);
  bool has(OpId op) const { return sends_.contains(op); }
  void cancel(OpId op);

  /// A connection has been made, and `other` holds its limits. Sends messages that waited.
  void connected(const Hello& other);
  /// Takes the credit of a packet and sends messages that waited for it, which may end the connection. False: the
  /// packet carried no credit.
  bool give(const Credits& credits);
  /// The connection is gone. Moves all operations to `posted`.
  void lose(OpQueue& posted);

  // From the fabric: see Endpoint.
  void left(std::uint64_t token);
  void delivered(std::uint64_t transfer);
  // Answers of the peer.
  void on_clear(std::uint64_t transfer);
  void on_refuse(std::uint64_t transfer);

 private:
  enum Lane : std::size_t { kUnexpectedLane, kControlLane, kBulkLane, kLanes };
  struct Send {
    enum class Stage : std::uint8_t { kWaiting, kAnnounced, kMoving, kLeaving };
    std::uint64_t order = 0;
    Lane lane = kControlLane;
    MatchKey key;
    bool ready = false;
    std::vector<Segment> segments;
    std::uint64_t size = 0;
    Stage stage = Stage::kWaiting;
    std::uint64_t transfer = 0;
    std::uint64_t offset = 0;     // bytes sent so far
    std::uint32_t under_way = 0;  // packets that are not delivered yet
    bool packet_queued = false;   // one of its packets is in the interface's queue
  };

  void pump_all();
  void pump(Lane lane);
  bool launch(OpId op, Send& send);
  bool launch_whole(OpId op, Send& send, Packet::Kind kind);
  void start_moving(Send& send);
  void move_on(OpId op, Send& send);
  bool gather(const Send& send, std::uint64_t offset, MutableByteView out);

  Host& host_;
  Line& line_;
  std::array<SendCredit, kPools> credit_;
  std::uint64_t next_transfer_ = 0;
  std::map<OpId, Send> sends_;
  std::array<OpQueue, kLanes> waiting_;
  std::map<std::uint64_t, OpId> outgoing_;  // transfers announced or moving
};

}  // namespace spate::bmi::sim
