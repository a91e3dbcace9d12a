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

/// The most requests of strangers that may be under way. A stranger is a peer that has not proved a key.
struct StrangerBounds {
  std::size_t in_all = 0;
  std::uint32_t of_one = 0;
};

/// One per server. It has an entry for each connection on which a request has come. One executor; outlives the calls.
class Peers {
 public:
  Peers(StrangerBounds bounds, job::NetworkContext& network, Refusals& refusals)
      : bounds_(bounds), network_(network.network()), refusals_(refusals) {}
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  /// The peer at `address` on the connection `bound`. It is a stranger if it is new. Calls of an earlier connection
  /// keep that connection's Peer.
  std::shared_ptr<Peer> at(bmi::Address address, bmi::Address bound);
  /// The authenticated peers, by address.
  std::vector<std::shared_ptr<Peer>> authenticated() const;
  /// Ends the connection. The peer's requests under way keep `peer`; other callers must not use it afterwards.
  void drop(Peer& peer, std::string_view why);

  /// Counts a request while it is under way, if its sender is a stranger when it comes. Lives on the call's frame.
  class RequestCount {
   public:
    RequestCount(Peers& peers, const std::shared_ptr<Peer>& peer);
    RequestCount(const RequestCount&) = delete;
    RequestCount& operator=(const RequestCount&) = delete;
    ~RequestCount();

   private:
    Peers& peers_;
    const std::shared_ptr<Peer> stranger_;  // null: the sender is no stranger
  };
  /// False: the caller drops `peer`, a stranger with too many requests under way (the counted one included), or with
  /// the most of them when all strangers together have too many. If another one has most, this drops that one.
  bool has_room_for(Peer& peer);

 private:
  Peer* busiest_stranger() const;
  void forget_the_gone();

  const StrangerBounds bounds_;
  bmi::Network& network_;
  Refusals& refusals_;
  std::unordered_map<bmi::Address, std::shared_ptr<Peer>> peers_;
  std::size_t strangers_requests_ = 0;  // requests of all strangers under way
  std::size_t peers_after_pruning_ = 0;
};

}  // namespace spate::rpc
