// SPDX-License-Identifier: Apache-2.0
// Relay: somebody without any key who stands between a client (or a server) and a server: passes messages on, changes
// them, and sends messages of its own over the connection that it has to the server.
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
  std::string listen;  // where the victim is made to connect to
  std::string target;  // the server that the messages are passed on to
};

/// Passes on requests and replies (control messages); bulk data is not needed for what is tried here. One executor.
class Relay {
 public:
  Relay(std::vector<std::unique_ptr<bmi::Module>> modules, job::Executor& executor, const RelayOptions& options);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  /// Where it listens.
  const std::string& url() const { return url_; }
  /// Called for each message before it is passed on; may change it, or return false to drop it.
  std::function<bool(Passing&)> on_passing;
  /// Everything that came by, in order, as it came.
  const std::vector<Passing>& seen() const { return seen_; }

  /// Sends `request` to the server as if it were its victim, under `tag` (0: one of its own): the bytes of the answer,
  /// or why there is none.
  job::Task<Result<Bytes>> inject(Bytes request, bmi::Tag tag = {});
  /// Ends the connection to the server, or to the victim: the next message makes a new one.
  void drop_target() { network_->disconnect(target_); }

 private:
  bool pass(Passing& passing);
  job::Task<void> forward(bmi::UnexpectedMessage message);
  job::Task<Result<Bytes>> ask(const Bytes& request, bmi::Tag tag);

  std::unique_ptr<bmi::Network> network_;
  std::unique_ptr<job::NetworkContext> context_;
  job::Gate gate_;
  job::StopSource stop_;
  bmi::Address target_;
  std::string url_;
  std::uint64_t own_tag_ = 0x7E1A00000000ULL;
  std::vector<Passing> seen_;
};

}  // namespace spate::attacks
