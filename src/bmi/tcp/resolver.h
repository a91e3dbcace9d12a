// SPDX-License-Identifier: Apache-2.0
// Resolver: looks up host names on threads of its own, since getaddrinfo(3) blocks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "bmi/module.h"
#include "bmi/tcp/connection.h"
#include "bmi/tcp/endpoint.h"

namespace spate::bmi::tcp {

/// The result of a look-up. Without addresses the name is unknown.
struct Resolved {
  PeerId peer;
  std::vector<SocketAddress> addresses;
};

/// Starts one short-lived thread for each look-up; a name is looked up once for each connection to a server. Life
/// cycle: construct -> start() and take(), any number of times -> destroyed. The destructor does not wait for the
/// threads, and their results are lost. Not thread-safe: the module's lock guards it.
class Resolver : public Pollable {
 public:
  Resolver();
  /// Readable when take() has a result.
  int descriptor() const;
  void start(PeerId peer, std::string host, std::uint16_t port);
  std::vector<Resolved> take();

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;  // the threads have it, too, and may outlive the resolver
};

}  // namespace spate::bmi::tcp
