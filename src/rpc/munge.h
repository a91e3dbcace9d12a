// SPDX-License-Identifier: Apache-2.0
// Munge: users prove who they are by a credential of the cluster's MUNGE service (docs/security.md, "Users by munge").
#pragma once

#include <memory>
#include <string>

#include "model/ids.h"
#include "model/user_key.h"

namespace spate::rpc {

/// The key id of a hello with a credential of munge. No key file has this id.
inline constexpr KeyId kMungeKeyId = {std::byte{'m'}, std::byte{'u'}, std::byte{'n'}, std::byte{'g'}, std::byte{'e'}};

struct MungeOptions {
  std::string socket;            // munged's socket; empty: libmunge's default
  std::uint32_t server_uid = 0;  // the servers' user: only its processes may read what clients send
};

/// A genuine credential: its user, and the secret in it.
struct MungeIdentity {
  UserKey key;  // its user, by munged, and groups, by this machine's accounts; it never ends
  Key secret{};
};

/// libmunge, which the first open() loads. key_for() and read() block until munged answers. Thread-safe.
class Munge {
 public:
  /// kNotSupported: this machine has no libmunge.
  static Result<std::shared_ptr<const Munge>> open(MungeOptions options);
  explicit Munge(MungeOptions options) : options_(std::move(options)) {}

  /// Makes a secret for one handshake with one server, and a credential of this process's user around it. Only
  /// processes of `server_uid` in the same realm can read it. kUnauthenticated: munged makes none.
  Result<ClientKey> key_for(FsId fs, ServerId server) const;
  /// Reads a credential that a client has sent to this server. kUnauthenticated: it is expired, repeated, of another
  /// realm, for another server, or not secret. kBusy: munged does not answer.
  Result<MungeIdentity> read(FsId fs, ServerId self, ByteView credential) const;

 private:
  const MungeOptions options_;
};

/// The restrictions of a user for whom munge vouches: root and root's group are squashed.
UserKey munge_user(const Credential& user);

}  // namespace spate::rpc
