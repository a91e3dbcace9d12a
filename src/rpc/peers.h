// SPDX-License-Identifier: Apache-2.0
// Peers: the peers on a server's connections, and limits for those that have not proved a key.
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

/// The most requests of unauthenticated peers that may be under way. An unauthenticated peer is a peer that has not
/// proved a key.
struct UnauthenticatedPeerBounds {
  std::size_t in_all = 0;
  std::uint32_t of_one = 0;
};

/// One per server. It has an entry for each connection on which a request has come. One executor; outlives the calls.
class Peers {
 public:
  Peers(UnauthenticatedPeerBounds bounds, job::NetworkContext& network, Refusals& refusals)
      : bounds_(bounds), network_(network.network()), refusals_(refusals) {}
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  /// The peer at `address` on the connection `bound`. It is an unauthenticated peer if it is new. Calls of an earlier
  /// connection keep that connection's Peer.
  std::shared_ptr<Peer> at(bmi::Address address, bmi::Address bound);
  /// The authenticated peers, by address.
  std::vector<std::shared_ptr<Peer>> authenticated() const;
  /// Ends the connection. The peer's requests under way keep `peer`; other callers must not use it afterwards.
  void drop(Peer& peer, std::string_view why);

  /// Counts a request while it is under way, if its sender is an unauthenticated peer when it comes. Lives on the
  /// call's frame.
  class RequestCount {
   public:
    RequestCount(Peers& peers, const std::shared_ptr<Peer>& peer);
    RequestCount(const RequestCount&) = delete;
    RequestCount& operator=(const RequestCount&) = delete;
    ~RequestCount();

   private:
    Peers& peers_;
    const std::shared_ptr<Peer> unauthenticated_;  // null: the sender is authenticated
  };
  /// False: the caller drops `peer`, an unauthenticated peer with too many requests under way (the counted one
  /// included), or with the most of them when all unauthenticated peers together have too many. If another one has
  /// most, this drops that one.
  bool has_room_for(Peer& peer);

 private:
  Peer* busiest_unauthenticated() const;
  void forget_the_gone();

  const UnauthenticatedPeerBounds bounds_;
  bmi::Network& network_;
  Refusals& refusals_;
  std::unordered_map<bmi::Address, std::shared_ptr<Peer>> peers_;
  std::size_t unauthenticated_requests_ = 0;  // requests of all unauthenticated peers under way
  std::size_t peers_after_pruning_ = 0;
};

}  // namespace spate::rpc
