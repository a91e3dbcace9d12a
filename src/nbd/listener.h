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

/// Removes the file of that name when it dies. Move-only; an empty one removes nothing.
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

/// A socket that takes connections.
struct ListeningSocket {
  UniqueFd fd;
  std::string url;  // "nbd://127.0.0.1:10809", "nbd+unix:///?socket=/a/b"
  RemovedAtEnd unix_path;
  bool loopback = true;  // only this machine reaches it
};

inline constexpr std::uint16_t kDefaultPort = 10809;

/// All addresses of `host`; port 0: a free one, the same for all of them.
Result<std::vector<ListeningSocket>> listen_tcp(const std::string& host, std::uint16_t port);
/// Owner only (0600). A socket left by a process that is gone is replaced.
Result<ListeningSocket> listen_unix(const std::string& path);
/// The sockets that LISTEN_FDS names, if it is meant for this process; empty otherwise. Once a process.
Result<std::vector<ListeningSocket>> activated_sockets();

/// A client's address, and how to tell what may happen with it.
struct Accepted {
  UniqueFd fd;
  std::string text;              // "127.0.0.1:4711", "unix uid=1000"
  std::vector<std::uint8_t> ip;  // 4 or 16 bytes; empty for a Unix socket
};
/// kTryAgain when nobody waits; kBusy when there are no descriptors or memory left for one.
Result<Accepted> accept_client(int listening);

}  // namespace spate::nbd
