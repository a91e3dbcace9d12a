// SPDX-License-Identifier: Apache-2.0
// Resolver: host names to addresses on a thread of its own, since getaddrinfo(3) blocks.
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

/// A look-up that ended; no addresses: the name is not known.
struct Resolved {
  PeerId peer;
  std::vector<SocketAddress> addresses;
};

/// Starts one short-lived thread a look-up: a name is looked up once per connection to a server. The destructor does
/// not wait for these threads; their results are lost.
class Resolver : public Pollable {
 public:
  Resolver();
  /// Readable when take() has something.
  int descriptor() const;
  void start(PeerId peer, std::string host, std::uint16_t port);
  std::vector<Resolved> take();

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;  // shared with the threads, which may outlive the resolver
};

}  // namespace spate::bmi::tcp
