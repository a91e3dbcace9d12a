// SPDX-License-Identifier: Apache-2.0
// Endpoint: shm URLs and the Unix sockets that they name.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/random.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace spate::bmi::shm {

/// `shm:///run/spate/3.sock`: a socket in the file system; `shm://spate-3`: one in the abstract name space (of this
/// network name space), 1 to 96 of a-z A-Z 0-9 . _ -; for listening also `shm://*`: a free abstract name.
struct Endpoint {
  bool abstract = true;
  std::string name;  // the path, or the name
};

Result<Endpoint> parse_url(std::string_view url);
std::string url_of(const Endpoint& endpoint);
/// Gives "*" a name; returns other endpoints unchanged.
Endpoint named(Endpoint endpoint, Random& random);

/// Returns a listening socket. A path may have any length. A socket file whose server has died is replaced. kExists:
/// another process listens there. `for_all_users`: whether other users may reach the path.
Result<UniqueFd> listen_on(const Endpoint& endpoint, bool for_all_users);

/// A socket of the kind that links use.
Result<UniqueFd> make_socket();
/// Tries to connect once; never blocks. 0, or errno (EAGAIN: the other side's queue is full; try again).
int connect_to(int socket, const Endpoint& endpoint);

/// The process at the other end, as the kernel reports it.
struct Credentials {
  std::uint32_t uid = 0;
  std::int32_t pid = 0;
};
Result<Credentials> peer_of(int socket);

/// The URL to which the accepting side's listener is bound, as the kernel knows it. `connected`: `socket` is the
/// connecting side's. Empty when the kernel does not tell.
std::string reached_url(int socket, bool connected);

}  // namespace spate::bmi::shm
