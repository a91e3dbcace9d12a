// SPDX-License-Identifier: Apache-2.0
// Relay: an attacker without a key between a client (or a server) and a server. It forwards messages, changes them, and
// sends messages of its own over its connection to the server.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "job/gate.h"
#include "job/network.h"

namespace spate::attacks {

/// A request or a reply on its way through the relay.
struct Passing {
  bool reply = false;
  bmi::Tag tag;
  Bytes bytes;
};

struct RelayOptions {
  std::string listen;  // the address at which the victim connects
  std::string target;  // the server to which messages are forwarded
};

/// Forwards requests and replies (control messages). These tests do not need bulk data. One executor.
class Relay {
 public:
  Relay(std::vector<std::unique_ptr<bmi::Module>> modules, job::Executor& executor, const RelayOptions& options);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  /// The URL at which it listens.
  const std::string& url() const { return url_; }
  /// Called for each message before it is passed on; may change it, or return false to drop it.
  std::function<bool(Passing&)> on_passing;
  /// All messages in the order of their arrival, before on_passing has changed them.
  const std::vector<Passing>& seen() const { return seen_; }

  /// Sends `request` to the server as if the victim had sent it, under `tag` (0: a tag of the relay's own). Yields the
  /// bytes of the reply, or the failure.
  job::Task<Result<Bytes>> inject(Bytes request, bmi::Tag tag = {});
  /// Drops the connection to the target. The next message makes a new one.
  void drop_target() { network_->disconnect(target_); }
  /// Drops the connection by which the last request has come.
  void drop_victim() { network_->disconnect(victim_); }

 private:
  bool pass(Passing& passing);
  job::Task<void> forward(bmi::UnexpectedMessage message);
  job::Task<Result<Bytes>> ask(const Bytes& request, bmi::Tag tag);

  std::unique_ptr<bmi::Network> network_;
  std::unique_ptr<job::NetworkContext> context_;
  job::Gate gate_;
  job::StopSource stop_;
  bmi::Address target_;
  bmi::Address victim_;
  std::string url_;
  std::uint64_t own_tag_ = 0x7E1A00000000ULL;
  std::vector<Passing> seen_;
};

}  // namespace spate::attacks
