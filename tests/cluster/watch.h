// SPDX-License-Identifier: Apache-2.0
// RequestWatch: which requests each server has under way, so that faults can be counted by, and aimed at, their types.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <vector>

#include "rpc/service.h"

namespace spate::cluster {

/// A request under way at a server.
struct WatchedRequest {
  ServerId server;
  wire::Op op = wire::Op::kPing;
  /// Who asks; 0: a server, or a client that has no session yet.
  ClientId client;
  MonoTime ended = MonoTime::never();
};

/// One a world. Every service of every server is wrapped by watched().
class RequestWatch {
 public:
  explicit RequestWatch(const Clock& clock) : clock_(clock) {}

  /// Called when a request begins at a server.
  using Arrival = std::function<void(const WatchedRequest& request)>;
  void on_arrival(Arrival arrival) { arrival_ = std::move(arrival); }

  /// In the order of their arrival; with those whose answer has left so lately that it is still on the network.
  const std::list<WatchedRequest>& under_way();

  using Place = std::list<WatchedRequest>::iterator;
  Place begin(const WatchedRequest& request);
  void end(Place place) { place->ended = clock_.now(); }

 private:
  static constexpr Duration kOnTheWay = std::chrono::microseconds(20);
  void forget_answered();

  const Clock& clock_;
  Arrival arrival_;
  std::list<WatchedRequest> under_way_;
};

/// `inner` and `watch` outlive it.
std::unique_ptr<rpc::Service> watched(RequestWatch& watch, ServerId server, rpc::Service& inner);

}  // namespace spate::cluster
