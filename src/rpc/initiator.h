// SPDX-License-Identifier: Apache-2.0
// Initiator: the asking side of one handshake, as pure functions of messages (docs/wire.md, "Handshake").
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/random.h"
#include "rpc/identity.h"
#include "wire/handshake.h"
#include "wire/header.h"

namespace spate::rpc {

/// One attempt at a handshake with one server. Order: hello(), welcome(), authenticate(). Not thread-safe.
class Initiator {
 public:
  /// `key`: what this side proves. `wanted`: 0 for any server at a URL that a person gave. `version`: of the protocol.
  /// `identity` outlives the initiator.
  Initiator(const Identity& identity, std::optional<ClientKey> key, ServerId wanted, std::uint16_t version,
            Random& random);
  /// With the key of `identity`.
  Initiator(const Identity& identity, ServerId wanted, std::uint16_t version, Random& random)
      : Initiator(identity, identity.key, wanted, version, random) {}

  /// Makes the whole request and completes `header`.
  Bytes hello(wire::RequestHeader header);
  /// Takes the whole reply, whose status is 0. `reached`, `binding`: see bmi::PeerInfo. After a failure, send nothing
  /// more: the peer is not the wanted server, or the connection goes through a relay.
  Result<void> welcome(ByteView reply, std::string_view reached, const Hash& binding = {});
  /// Makes the whole request. `request` lacks server_nonce and proof. keys() is set afterwards.
  Bytes authenticate(wire::RequestHeader header, wire::AuthenticateRequest request);

  std::uint16_t version() const { return version_; }
  FsId fs() const { return reply_.fs; }
  std::uint64_t features() const { return reply_.features & identity_.features; }
  /// None: the messages of this connection are not sealed.
  const std::optional<wire::SessionKeys>& keys() const { return keys_; }
  /// Which messages of this connection are protected.
  wire::Protect protect() const { return keys_ ? answer_.protect : wire::Protect::kNone; }
  /// Version 1: whether the reply to authenticate proves the key.
  bool proven(const wire::AuthenticateReply& reply) const;

 private:
  Result<void> check_reply() const;
  Result<void> check_answer(ByteView reply, std::string_view reached, const Hash& binding);

  const Identity& identity_;
  const std::optional<ClientKey> key_;  // a copy: the identity's key may change meanwhile
  const ServerId wanted_;
  const std::uint16_t version_;
  wire::Nonce nonce_{};
  Bytes hello_;
  wire::HelloReply reply_;
  wire::HelloAnswer answer_;
  std::optional<wire::Transcript> transcript_;
  std::optional<wire::SessionKeys> keys_;
};

}  // namespace spate::rpc
