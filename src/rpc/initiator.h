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
  /// `wanted`: 0 for whoever is at a URL given by hand. `version`: of the protocol. `identity` outlives it.
  Initiator(const Identity& identity, ServerId wanted, std::uint16_t version, Random& random);

  /// The whole request; `header` is completed.
  Bytes hello(wire::RequestHeader header);
  /// Takes the whole reply, whose status is 0. `reached`: bmi::PeerInfo::reached. What it refuses is not the server
  /// that is wanted, or not met as it should be: nothing more may be said to it.
  Result<void> welcome(ByteView reply, std::string_view reached);
  /// The whole request. `request` without server_nonce and proof. Afterwards keys() are there.
  Bytes authenticate(wire::RequestHeader header, wire::AuthenticateRequest request);

  std::uint16_t version() const { return version_; }
  FsId fs() const { return reply_.fs; }
  std::uint64_t features() const { return reply_.features & identity_.features; }
  /// None: the messages of this connection are not sealed.
  const std::optional<wire::SessionKeys>& keys() const { return keys_; }
  /// What of this connection is.
  wire::Protect protect() const { return keys_ ? answer_.protect : wire::Protect::kNone; }
  /// Version 1: whether the reply to authenticate proves the key.
  bool proven(const wire::AuthenticateReply& reply) const;

 private:
  Result<void> check_reply() const;
  Result<void> check_answer(ByteView reply, std::string_view reached);

  const Identity& identity_;
  const std::optional<Key> key_;  // the identity's may change meanwhile
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
