// SPDX-License-Identifier: Apache-2.0
// RequestWatch: which requests each server has under way, so that faults can be counted by, and aimed at, their types.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "rpc/service.h"

namespace spate::cluster {

/// One a world. Every service of every server is wrapped by watched().
class RequestWatch {
 public:
  /// Called when a request begins at a server.
  using Arrival = std::function<void(ServerId server, wire::Op op)>;
  void on_arrival(Arrival arrival) { arrival_ = std::move(arrival); }

  /// Under way at a server, each type once, ascending.
  std::vector<wire::Op> under_way(ServerId server) const;

  void begin(ServerId server, wire::Op op);
  void end(ServerId server, wire::Op op);

 private:
  Arrival arrival_;
  std::map<ServerId, std::map<wire::Op, int>> under_way_;
};

/// `inner` outlives it. `watch` may be null.
std::unique_ptr<rpc::Service> watched(RequestWatch* watch, ServerId server, rpc::Service& inner);

}  // namespace spate::cluster
