// SPDX-License-Identifier: Apache-2.0
// RequestWatch: the requests that each server works on, so that faults can be counted by, and aimed at, their types.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <vector>

#include "rpc/service.h"

namespace spate::cluster {

/// A request that a server works on, or has answered just now.
struct WatchedRequest {
  ServerId server;
  wire::Op op = wire::Op::kPing;
  /// The sender; 0: a server, or a client without a session.
  ClientId client;
  TraceId trace;
  MonoTime ended = MonoTime::never();
};

/// One for each world. watched() wraps all services of the servers.
class RequestWatch {
 public:
  explicit RequestWatch(const Clock& clock) : clock_(clock) {}

  /// Called when a request begins at a server.
  using Arrival = std::function<void(const WatchedRequest& request)>;
  void on_arrival(Arrival arrival) { arrival_ = std::move(arrival); }

  /// In the order of arrival. Includes requests that ended so recently that the reply is still on the network.
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

/// Wraps a service so that `watch` learns of its requests. `inner` and `watch` outlive the result.
std::unique_ptr<rpc::Service> watched(RequestWatch& watch, ServerId server, rpc::Service& inner);

}  // namespace spate::cluster
