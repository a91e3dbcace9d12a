// SPDX-License-Identifier: Apache-2.0
// Acceptor: the answering side of handshakes, as pure functions of messages (docs/wire.md, "Handshake").
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "wire/handshake.h"
#include "wire/header.h"

namespace spate::rpc {

struct AcceptorOptions {
  FsId fs;
  ServerId server;
  bool key_required = true;
  KeyRing client_key;
  KeyRing server_key;
  std::uint64_t features = wire::kOurFeatures;      // that are agreed to when a peer asks
  bool allow_version_1 = false;                     // peers of before the present handshake are let in
  wire::Protect protect = wire::Protect::kControl;  // the least that will do on a network
};

/// What a handshake has come to. Made by hello(), used up by one authenticate(), right or wrong.
struct Handshake {
  std::uint16_t version = 0;
  std::uint64_t features = 0;
  wire::Nonce client_nonce{};
  wire::Nonce server_nonce{};
  std::optional<wire::KeyRole> role;           // version 2: of the key that the initiator named; none: it has none
  Key key{};                                   // between its holders and this server
  std::optional<wire::Transcript> transcript;  // with a role
  wire::Protect protect = wire::Protect::kNone;
};

/// A peer that has proved a key.
struct Accepted {
  wire::AuthenticateRequest request;
  std::optional<wire::SessionKeys> keys;         // none: version 1, or nobody has a key
  wire::Protect protect = wire::Protect::kNone;  // from the reply to this request on
  Mac server_proof{};                            // version 1: for the reply
};

/// A message as it came: whole, and where its body begins.
struct Received {
  ByteView whole;
  ByteView body;
  std::uint16_t version = 0;  // of its header
};

/// One for a server; keys are derived once. Not thread-safe.
class Acceptor {
 public:
  explicit Acceptor(const AcceptorOptions& options);

  /// Whether requests of that version are taken at all.
  bool speaks(std::uint16_t version) const;
  /// For whoever sent one that is not.
  Error version_error(std::uint16_t version) const;

  /// The body of the reply, behind `head` (the encoded header that it will be sent with). `reached`:
  /// bmi::PeerInfo::reached.
  Result<Bytes> hello(const Received& message, ByteView head, std::string_view reached, Random& random,
                      Handshake& handshake) const;
  /// Uses `handshake` up.
  Result<Accepted> authenticate(const Received& message, std::optional<Handshake>& handshake) const;

 private:
  struct OneKey {
    wire::KeyRole role;
    Key file;
    wire::KeyId id;
    Key key;  // between its holders and this server
  };
  std::string spoken() const;
  Result<void> choose_key(const wire::HelloOffer& offer, Handshake& handshake) const;
  Result<Accepted> prove(const Received& message, Handshake& handshake) const;
  Result<Accepted> prove_version_1(const Received& message, const Handshake& handshake) const;

  AcceptorOptions options_;
  std::vector<OneKey> keys_;  // of each role, the one in use first
};

}  // namespace spate::rpc
