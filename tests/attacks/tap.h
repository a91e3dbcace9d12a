// SPDX-License-Identifier: Apache-2.0
// Tap: somebody on the network path of tcp connections: passes their bytes on, has seen them, and may change them.
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

/// Works on a thread of its own, from its construction to its destruction.
class Tap {
 public:
  /// Bytes on their way: of which connection (in the order in which they were made), in which direction, and which of
  /// that direction's bytes the first one is.
  struct Passing {
    std::size_t connection = 0;
    bool to_server = false;
    std::uint64_t at = 0;
    MutableByteView bytes;
  };
  /// `target`: "tcp://127.0.0.1:port". `change` is called on the tap's thread for what passes, before it is passed on;
  /// null: nothing is changed.
  explicit Tap(const std::string& target, std::function<void(Passing)> change = nullptr);
  ~Tap();
  Tap(const Tap&) = delete;
  Tap& operator=(const Tap&) = delete;

  /// Where it listens.
  const std::string& url() const { return url_; }
  /// What has gone over a connection in one direction, as it was passed on; empty while there is no such connection.
  Bytes seen(std::size_t connection, bool to_server) const;
  std::size_t connections() const;

 private:
  struct Connection {
    std::array<UniqueFd, 2> ends;  // the one who connected; the server
    std::array<Bytes, 2> seen;     // from each
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
  mutable std::mutex mutex_;  // guards connections_, which only the thread changes
  std::vector<std::unique_ptr<Connection>> connections_;
  std::thread thread_;
};

}  // namespace spate::attacks
