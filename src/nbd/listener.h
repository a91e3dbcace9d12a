// SPDX-License-Identifier: Apache-2.0
// Listening sockets: TCP, Unix, and those that a service manager has opened.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace spate::nbd {

/// Removes the file of that name when destroyed. Move-only; an empty one removes nothing.
class RemovedAtEnd {
 public:
  RemovedAtEnd() = default;
  explicit RemovedAtEnd(std::string path) : path_(std::move(path)) {}
  RemovedAtEnd(RemovedAtEnd&& other) noexcept : path_(std::exchange(other.path_, std::string())) {}
  RemovedAtEnd& operator=(RemovedAtEnd&& other) noexcept {
    std::swap(path_, other.path_);
    return *this;
  }
  RemovedAtEnd(const RemovedAtEnd&) = delete;
  RemovedAtEnd& operator=(const RemovedAtEnd&) = delete;
  ~RemovedAtEnd() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }

 private:
  std::string path_;
};

/// A socket that accepts connections.
struct ListeningSocket {
  UniqueFd fd;
  std::string url;  // "nbd://127.0.0.1:10809", "nbd+unix:///?socket=/a/b"
  RemovedAtEnd unix_path;
  bool loopback = true;  // only this machine can reach it
};

inline constexpr std::uint16_t kDefaultPort = 10809;

/// Listens at all addresses of `host`. Port 0: a free port, the same for all of them.
Result<std::vector<ListeningSocket>> listen_tcp(const std::string& host, std::uint16_t port);
/// Only the owner may connect (0600). Replaces the socket of a process that is gone.
Result<ListeningSocket> listen_unix(const std::string& path);
/// The sockets that LISTEN_FDS names, if LISTEN_PID is this process; otherwise none. Call it once in a process.
Result<std::vector<ListeningSocket>> activated_sockets();

/// An accepted client: its socket and its address.
struct Accepted {
  UniqueFd fd;
  std::string text;              // "127.0.0.1:4711", "unix uid=1000"
  std::vector<std::uint8_t> ip;  // 4 or 16 bytes; empty for a Unix socket
};
/// kTryAgain: no client waits; kBusy: no descriptors or memory left.
Result<Accepted> accept_client(int listening);

}  // namespace spate::nbd
