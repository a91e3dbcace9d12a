// SPDX-License-Identifier: Apache-2.0
// Identity: who a client (or a server calling another) is, shared by all of its channels.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "job/task.h"
#include "wire/session_messages.h"

namespace spate::rpc {

/// One epoch of one session: what it holds ends with it.
struct SessionEpoch {
  ClientId client;
  std::uint32_t epoch = 0;
  friend bool operator==(const SessionEpoch&, const SessionEpoch&) = default;
};

/// What a handshake may do without.
struct HandshakePolicy {
  bool behind_nat = false;       // servers may be reached at another address than the one dialled
  bool allow_version_1 = false;  // servers of before the present handshake are spoken to, if they know no other
  wire::Protect protect = wire::Protect::kControl;  // the least that will do on a network
};

/// One per client or server process. One executor.
struct Identity {
  wire::PeerKind kind = wire::PeerKind::kClient;
  FsId fs;
  std::optional<Key> key;  // the client key (kind client) or the server key (kind server)
  /// Asked when a server has refused the key: the one that is to be used from now on. Null: it stays as it is.
  std::function<Result<Key>()> newer_key;
  Credential credential;
  std::string description;
  std::uint64_t features = 0;  // wire::Feature: what this process wants of servers
  HandshakePolicy policy;

  /// The session, once a meta server has opened it. A channel to an io server needs it; see SessionSource.
  ClientId client;
  std::uint32_t epoch = 0;
  std::optional<SessionTicket> ticket;
  std::uint16_t answer_slots = 0;
  std::uint32_t lease_ms = 0;
  /// File-system clock minus this process's monotonic clock, ns, as of the last handshake or keep-alive of a meta
  /// server. Not its wall clock: somebody may set that at any time.
  std::int64_t fs_clock_offset_ns = 0;

  SessionEpoch session() const { return {client, epoch}; }
};

}  // namespace spate::rpc
