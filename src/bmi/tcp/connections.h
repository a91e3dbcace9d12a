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

/// Owns the connections. Life cycle of one: add() -> close(), which takes it down at once -> free_closed(), which
/// destroys it. In between pointers to it stay valid, with Connection::closed set: callers on the stack and fetched
/// events may have some. The module's lock guards it.
class Connections {
 public:
  Connections(State& state, Events& events, BulkSlices& slices, protocol::WakeTimer& timer)
      : state_(state), events_(events), slices_(slices), deadlines_(timer) {}

  /// Takes a socket that is connected or connects. `bulk`: sets the options of a bulk connection. Null, with errno: the
  /// connection cannot be watched. The socket is closed then.
  Connection* add(UniqueFd socket, FrameHandler& handler, bool bulk);
  /// Null or closed: no effect.
  void close(Connection* connection);
  /// Destroys the closed connections. Call it when no epoll event can point at one of them any more.
  void free_closed() { closed_.clear(); }

  /// The socket is full: the next event tells when it has room again.
  void block(Connection& connection);
  /// epoll looks at the connection again. An edge may have been reported before while the data or the room is still
  /// there.
  void watch_again(Connection& connection);

  /// The connections that have a deadline (Connection::deadline), at which they are dropped.
  protocol::Deadlines<Connection>& deadlines() { return deadlines_; }
  const protocol::Deadlines<Connection>& deadlines() const { return deadlines_; }
  void set_deadline(Connection& connection, Duration from_now) {
    deadlines_.set(connection, state_.clock.now() + from_now);
  }

  /// Closes all connections of the peer. Its operations end with `status`. kOk: the peer was idle and lost nothing.
  void lose_peer(Peer& peer, Errc status);
  /// Drops an accepted connection that has no peer, or whose peer is not admitted.
  void drop_unauthenticated(Connection& connection, std::string_view why);

 private:
  State& state_;
  Events& events_;
  BulkSlices& slices_;
  std::unordered_map<Connection*, std::unique_ptr<Connection>> open_;
  std::vector<std::unique_ptr<Connection>> closed_;
  protocol::Deadlines<Connection> deadlines_;
};

}  // namespace spate::bmi::tcp
