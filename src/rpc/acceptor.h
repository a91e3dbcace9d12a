// SPDX-License-Identifier: Apache-2.0
// Acceptor: the answering side of handshakes, as pure functions of messages (docs/wire.md, "Handshake").
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "rpc/munge.h"
#include "rpc/proofs.h"
#include "wire/handshake.h"
#include "wire/header.h"

namespace spate::rpc {

struct AcceptorOptions {
  FsId fs;
  ServerId server;
  bool munge_beside_keys = true;  // a credential of munge counts where an address asks for a key
  KeyRing client_key;
  KeyRing server_key;
  std::uint64_t features = wire::kOurFeatures;  // features that this server agrees to when a peer asks for them
  bool allow_version_1 = false;                 // admits peers that speak protocol version 1, whose handshake is weaker
  wire::Protect protect = wire::Protect::kControl;  // the least protection that this server accepts on a network
};

/// The state of a handshake between its two requests. hello() makes it; one authenticate() consumes it, whether that
/// succeeds or fails.
struct Handshake {
  Proof asked = Proof::kKey;  // what the connection's address asks of clients; set before hello()
  std::uint16_t version = 0;
  std::uint64_t features = 0;
  wire::Nonce client_nonce{};
  wire::Nonce server_nonce{};
  std::optional<wire::KeyRole> role;  // version 2: the role of the key that the initiator named; none: it named no key
  std::optional<UserKey> user_key;    // set if that key is a user's
  std::optional<MungeIdentity> munge_identity;  // set before hello() if the hello has a credential of munge
  Key key{};                                    // the key that this server shares with the holders of that key
  std::optional<wire::Transcript> transcript;   // only with a role
  wire::Protect protect = wire::Protect::kNone;
};

/// A peer that has proved a key.
struct Accepted {
  wire::AuthenticateRequest request;
  std::optional<UserKey> user_key;               // none: the key of a file, which is good for every user
  std::optional<wire::SessionKeys> keys;         // none: version 1, or the handshake used no key
  bool by_munge = false;                         // claimed groups that are not the user's are left out
  wire::Protect protect = wire::Protect::kNone;  // from the reply to this request on
  Mac server_proof{};                            // version 1 only: goes into the reply
};

/// A received message, and its body.
struct Received {
  ByteView whole;
  ByteView body;
  std::uint16_t version = 0;  // protocol version in its header
};

/// The connection by which a message came; see bmi::PeerInfo.
struct InboundConnection {
  InboundConnection(std::string_view its_url, const Hash& its_binding = {})  // NOLINT(google-explicit-constructor)
      : url(its_url), binding(its_binding) {}
  std::string_view url;
  Hash binding;
};

/// One per server. It derives the keys once, when it is constructed. Not thread-safe.
class Acceptor {
 public:
  explicit Acceptor(const AcceptorOptions& options);

  /// Whether this server accepts requests of that protocol version.
  bool speaks(std::uint16_t version) const;
  /// The error for a peer that sent a request of another version.
  Error version_error(std::uint16_t version) const;

  /// The credential of munge in a hello for this server, at an address that asks for `asked`; empty: there is none, or
  /// it does not count there. Handshake::munge_identity says whose it is.
  Bytes munge_credential(const Received& message, Proof asked) const;
  /// Makes the body of the reply to hello. It follows `head`, the reply's encoded header. kProtocol: the body cannot be
  /// read; kVersionMismatch; kWrongFileSystem: the peer wants another file system or server; kNotSupported: it wants a
  /// protection that is not known; kUnauthenticated: it has no key, none of this file system, or another proof than
  /// `handshake.asked`. After a failure `handshake` must not be used.
  Result<Bytes> hello(const Received& message, ByteView head, const InboundConnection& where, Random& random,
                      Handshake& handshake) const;
  /// Consumes `handshake`, also when it fails. kUnauthenticated: no hello came before, or the proof is wrong;
  /// kProtocol: the body cannot be read.
  Result<Accepted> authenticate(const Received& message, std::optional<Handshake>& handshake) const;

 private:
  struct OneKey {
    wire::KeyRole role;
    Key file;
    wire::FileKey of_fs;
    wire::KeyId id;
    Key key;  // the key that this server shares with the holders of `file`
  };
  std::string spoken() const;
  Result<void> choose_key(const wire::HelloOffer& offer, Handshake& handshake) const;
  Result<void> use_no_key(Proof asked) const;
  bool takes_munge(Proof asked) const;
  Result<void> use_munge_identity(const wire::HelloOffer& offer, Handshake& handshake) const;
  Result<void> derive_user_key(const OneKey& issuer, ByteView restrictions, Handshake& handshake) const;
  Result<Accepted> prove(const Received& message, Handshake& handshake) const;
  Result<Accepted> prove_version_1(const Received& message, const Handshake& handshake) const;

  AcceptorOptions options_;
  std::vector<OneKey> keys_;  // of each role, the key in use comes first
};

}  // namespace spate::rpc
