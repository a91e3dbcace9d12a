// SPDX-License-Identifier: Apache-2.0
// Identity: the keys, session and credential of a client (or of a server that calls another). All its channels share
// one.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "job/task.h"
#include "rpc/proofs.h"
#include "wire/session_messages.h"

namespace spate::rpc {

/// One epoch of one session. All rights that were granted in the epoch end with it.
struct SessionEpoch {
  ClientId client;
  std::uint32_t epoch = 0;
  friend bool operator==(const SessionEpoch&, const SessionEpoch&) = default;
};

/// The least security that this side accepts in a handshake.
struct HandshakePolicy {
  /// Accepts servers whose own address differs from the one dialled, since a NAT router changes it.
  bool behind_nat = false;
  bool allow_version_1 = false;  // accepts servers that speak only protocol version 1, whose handshake is weaker
  wire::Protect protect = wire::Protect::kControl;  // the least protection that this side accepts on a network
  AskedProofs asked;                                // what the servers' addresses ask of clients
};

/// One per client or server process. One executor.
struct Identity {
  wire::PeerKind kind = wire::PeerKind::kClient;
  FsId fs;
  std::optional<ClientKey> key;  // the client key, or a user's (kind client); the server key (kind server)
  /// Called when a server has refused the key. Returns the key to use from now on. Null: the key never changes.
  std::function<Result<ClientKey>()> newer_key;
  /// Makes the key for one handshake with that server, from a credential of munge. Null: this process has none. It is
  /// used where munge is asked for, and with AskedProofs::munge_for_key instead of `key` where a key is.
  std::function<Result<ClientKey>(ServerId)> fresh_key;
  Credential credential;
  std::string description;
  ServerId server;             // kind server: its number; 0: it has none (fsck)
  std::uint64_t features = 0;  // wire::Feature: the features that this process asks servers for
  HandshakePolicy policy;

  /// The session, once a meta server has opened it. A channel to an io server needs it.
  ClientId client;
  std::uint32_t epoch = 0;
  std::optional<SessionTicket> ticket;
  std::uint16_t answer_slots = 0;
  std::uint32_t lease_ms = 0;
  /// File-system clock minus this process's monotonic clock, ns, as of the last handshake or keep-alive of a meta
  /// server. It does not use the wall clock, which an administrator may set at any time.
  std::int64_t fs_clock_offset_ns = 0;

  SessionEpoch session() const { return {client, epoch}; }
};

/// Whether the identity can prove what an address asks for. Servers prove the server key everywhere.
bool can_prove(const Identity& identity, Proof asked);
/// The key for one handshake with `server` at an address that asks for this. Nothing: it offers no key.
Result<std::optional<ClientKey>> key_to_offer(const Identity& identity, Proof asked, ServerId server);
/// The URLs at which the identity can prove what is asked for, or all if there is no such URL; in no case
/// AskedProofs::avoided.
std::vector<std::string> usable_urls(std::vector<std::string> urls, const Identity& identity);

}  // namespace spate::rpc
