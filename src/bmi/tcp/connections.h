// SPDX-License-Identifier: Apache-2.0
// Connections: the connections of the tcp module and the ends of its peers.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "bmi/protocol/wake_timer.h"
#include "bmi/tcp/bulk_slices.h"
#include "bmi/tcp/events.h"
#include "bmi/tcp/state.h"

namespace spate::bmi::tcp {

/// The module's lock guards it. A connection lives until free_closed() after its close().
class Connections {
 public:
  Connections(State& state, Events& events, BulkSlices& slices, protocol::WakeTimer& timer)
      : state_(state), events_(events), slices_(slices), deadlines_(timer) {}

  /// Null, with errno: it cannot be watched, and the socket is closed again.
  Connection* add(UniqueFd socket, FrameHandler& handler, bool bulk);
  /// Null or closed: no effect.
  void close(Connection* connection);
  /// No event is left that may point at a closed one.
  void free_closed() { closed_.clear(); }

  /// The socket is full: the next event tells when it has room.
  void block(Connection& connection);
  /// The edge may be behind, and the data or the room still there: epoll looks once more.
  void watch_again(Connection& connection);

  /// When a connection is to be dropped: Connection::deadline.
  protocol::Deadlines<Connection>& deadlines() { return deadlines_; }
  const protocol::Deadlines<Connection>& deadlines() const { return deadlines_; }
  void set_deadline(Connection& connection, Duration from_now) {
    deadlines_.set(connection, state_.clock.now() + from_now);
  }

  /// Closes all connections of the peer. Its operations end with `status`; kOk: nobody lost anything.
  void lose_peer(Peer& peer, Errc status);
  /// An accepted connection whose peer, if it has one, is not admitted.
  void drop_stranger(Connection& connection, std::string_view why);

 private:
  State& state_;
  Events& events_;
  BulkSlices& slices_;
  std::unordered_map<Connection*, std::unique_ptr<Connection>> open_;
  std::vector<std::unique_ptr<Connection>> closed_;
  protocol::Deadlines<Connection> deadlines_;
};

}  // namespace spate::bmi::tcp
