// SPDX-License-Identifier: Apache-2.0
// Tap: an attacker on the network path of tcp connections. It forwards their bytes, records them, and may change them.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "base/unique_fd.h"

namespace spate::attacks {

/// Its own thread forwards from the construction to the destruction.
class Tap {
 public:
  /// Bytes on their way: the connection's number (in the order in which they were made), the direction, and the offset
  /// of the first byte in that direction's stream.
  struct Passing {
    std::size_t connection = 0;
    bool to_server = false;
    std::uint64_t at = 0;
    MutableByteView bytes;
  };
  /// `target`: "tcp://127.0.0.1:port". `change` is called on the tap's thread for all bytes before they are forwarded;
  /// null: nothing is changed.
  explicit Tap(const std::string& target, std::function<void(Passing)> change = nullptr);
  ~Tap();
  Tap(const Tap&) = delete;
  Tap& operator=(const Tap&) = delete;

  /// The URL at which it listens.
  const std::string& url() const { return url_; }
  /// The bytes forwarded in one direction of a connection. Empty if there is no such connection yet.
  Bytes seen(std::size_t connection, bool to_server) const;
  std::size_t connections() const;

 private:
  struct Connection {
    std::array<UniqueFd, 2> ends;  // the connecting process; the server
    std::array<Bytes, 2> seen;     // bytes received from each end
    bool open = true;
  };
  void work();
  void accept_one();
  void pass_some(std::size_t index, std::size_t from);

  const std::string target_;
  const std::function<void(Passing)> change_;
  UniqueFd listener_;
  UniqueFd stop_;
  std::string url_;
  mutable std::mutex mutex_;  // guards connections_, which only the tap's thread changes
  std::vector<std::unique_ptr<Connection>> connections_;
  std::thread thread_;
};

}  // namespace spate::attacks
