// SPDX-License-Identifier: Apache-2.0
// PeerLog: what a module logs about its peers.
#pragma once

#include <string_view>

#include "base/clock.h"
#include "bmi/protocol/handshake.h"
#include "log/log.h"
#include "log/rate_limit.h"

namespace spate::bmi::protocol {

/// Thread-safe. It limits its rate, so that no peer can fill the log.
class PeerLog {
 public:
  /// `module`: the folder that speaks, "bmi/tcp".
  PeerLog(const Clock& clock, log::Source module)
      : module_(module), connects_(clock), peers_(clock), unauthenticated_peers_(clock) {}

  /// This side could not connect to a server.
  void connect_failed(std::string_view url, std::string_view why);
  /// A peer was dropped.
  void peer_dropped(std::string_view who, std::string_view why);
  /// A connector was refused because the two sides speak no common version of the module's protocol.
  void versions_differ(std::string_view who, const Versions& its, const Versions& own);
  /// A peer was not reached at this URL. It may have another one that works, so this is no warning.
  void not_connected(std::string_view url, std::string_view why) const;
  /// A connection was dropped whose peer was not admitted.
  void unauthenticated_dropped(std::string_view who, std::string_view why);
  /// A connection could not be accepted.
  void out_of_descriptors();

 private:
  const log::Source module_;
  // A limit each, so that a flood of one kind hides nothing of the others.
  log::RateLimit connects_;
  log::RateLimit peers_;
  log::RateLimit unauthenticated_peers_;
};

}  // namespace spate::bmi::protocol
