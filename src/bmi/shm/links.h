// SPDX-License-Identifier: Apache-2.0
// Links: the links of the shm module and the ends of its peers.
#pragma once

#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "bmi/protocol/wake_timer.h"
#include "bmi/shm/events.h"
#include "bmi/shm/polled_links.h"
#include "bmi/shm/state.h"

namespace spate::bmi::shm {

/// The module's lock guards it. close() takes a link down, and free_closed() destroys it.
class Links {
 public:
  Links(State& state, Events& events, PolledLinks& polled, protocol::WakeTimer& timer)
      : state_(state), events_(events), polled_(polled), deadlines_(timer) {}

  Link& add(UniqueFd socket, Side side);
  /// Null or closed: no effect.
  void close(Link* link);
  /// Destroys the closed links. Call it when no epoll event can point at one of them any more.
  void free_closed() { closed_.clear(); }
  std::size_t size() const { return open_.size(); }

  /// The links that have a deadline (Link::deadline), at which they are dropped or looked at.
  protocol::Deadlines<Link>& deadlines() { return deadlines_; }

  /// Closes the peer's link and ends its operations with `status`. kProtocol is counted as a protocol error, and the
  /// operations end with kConnectionLost.
  void lose_peer(Peer& peer, Errc status);
  /// Loses the peers that were marked to be lost later.
  void settle() {
    state_.take_losses([this](Peer& peer, Errc status) { lose_peer(peer, status); });
  }
  /// Drops an accepted link that has no peer, or whose peer is not admitted.
  void drop_unauthenticated(Link& link, std::string_view why);

 private:
  State& state_;
  Events& events_;
  PolledLinks& polled_;
  std::unordered_map<Link*, std::unique_ptr<Link>> open_;
  std::vector<std::unique_ptr<Link>> closed_;
  protocol::Deadlines<Link> deadlines_;
};

}  // namespace spate::bmi::shm
