// SPDX-License-Identifier: Apache-2.0
// Peers: the other ends of a server's connections, and the bounds of those that have proved nothing yet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "job/network.h"
#include "rpc/call.h"
#include "rpc/refusals.h"

namespace spate::rpc {

/// Requests under way of strangers: peers that have not proved a key.
struct StrangerBounds {
  std::size_t in_all = 0;
  std::uint32_t of_one = 0;
};

/// One for each server. It has one entry for each connection that a request has come by. One executor; outlives the
/// calls.
class Peers {
 public:
  Peers(StrangerBounds bounds, job::NetworkContext& network, Refusals& refusals)
      : bounds_(bounds), network_(network.network()), refusals_(refusals) {}
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  /// The peer at `address` on the connection `bound`; a stranger if nothing has come on it before. Calls of the
  /// connection before keep its peer.
  std::shared_ptr<Peer> at(bmi::Address address, bmi::Address bound);
  /// Those that are authenticated now, by address.
  std::vector<std::shared_ptr<Peer>> authenticated() const;
  /// Ends the connection. The peer's requests under way keep `peer`; those without any must not use it afterwards.
  void drop(Peer& peer, std::string_view why);

  /// Counts a request while it is under way, if its sender is a stranger when it comes. Lives on the call's frame.
  class Counted {
   public:
    Counted(Peers& peers, const std::shared_ptr<Peer>& peer);
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;
    ~Counted();

   private:
    Peers& peers_;
    const std::shared_ptr<Peer> stranger_;  // null: it is none
  };
  /// False: `peer` is a stranger with too many requests under way, the counted one included, and is to be dropped.
  /// Where all strangers together have too many, the one that has most is dropped in its place.
  bool has_room_for(Peer& peer);

 private:
  Peer* busiest_stranger() const;
  void forget_the_gone();

  const StrangerBounds bounds_;
  bmi::Network& network_;
  Refusals& refusals_;
  std::unordered_map<bmi::Address, std::shared_ptr<Peer>> peers_;
  std::size_t strangers_requests_ = 0;  // under way
  std::size_t peers_after_pruning_ = 0;
};

}  // namespace spate::rpc
