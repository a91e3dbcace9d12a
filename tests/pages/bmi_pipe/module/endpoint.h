// SPDX-License-Identifier: Apache-2.0
// Endpoint: pipe URLs, and the Unix sockets that they name.
#pragma once

#include <string>
#include <string_view>

#include "base/random.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace spate::bmi::pipe {

/// `pipe://name`: 1 to 92 of a-z A-Z 0-9 . _ -, an abstract name of this network name space. For listening also
/// `pipe://*`: a free name.
struct Endpoint {
  std::string name;
};

Result<Endpoint> parse_url(std::string_view url);
std::string url_of(const Endpoint& endpoint);
/// Gives "*" a name; returns other endpoints unchanged.
Endpoint named(Endpoint endpoint, Random& random);

/// kExists: another process listens there.
Result<UniqueFd> listen_on(const Endpoint& endpoint);
/// Connects, and never blocks. kUnreachable: nobody listens there, or the listener's queue is full.
Result<UniqueFd> connect_to(const Endpoint& endpoint);

/// Whether the process at the other end belongs to this process's user, or to root.
bool is_trusted(int socket);

}  // namespace spate::bmi::pipe
