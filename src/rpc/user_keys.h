// SPDX-License-Identifier: Apache-2.0
// UserKeys: which keys of users a server accepts now, and what their holders may ask (docs/security.md, "Keys of
// users").
#pragma once

#include <set>

#include "base/clock.h"
#include "base/result.h"
#include "model/user_key.h"

namespace spate::rpc {

/// The callers that may use an operation. The row of each operation names one, so that nobody gets a new operation by
/// omission. The operator holds the client key itself.
enum class Access : std::uint8_t {
  kAnyone,       // unauthenticated peers, too
  kReaders,      // every key: the operation changes nothing, or checks UserKey::read_only itself
  kWriters,      // every key that is not for reading only
  kOperators,    // the client key itself, and servers; no key of a user
  kServersOnly,  // the server key
};

/// One per server. It needs no list of the keys that exist: the handshake derives them. One executor.
class UserKeys {
 public:
  explicit UserKeys(const Clock& clock) : clock_(clock) {}

  /// Refuses keys with these ids from now on, and no others.
  void set_revoked(std::set<KeyId> revoked) { revoked_ = std::move(revoked); }

  /// kUnauthenticated: the key has ended or was revoked.
  Result<void> check(const UserKey& key) const;
  /// The same; and whether its holder may use an operation with this access. kReadOnly, kNotPermitted.
  Result<void> check(const UserKey& key, Access access) const;

 private:
  const Clock& clock_;
  std::set<KeyId> revoked_;
};

/// The error for a caller who claims to be a user whom the key does not cover.
Error not_covered(const UserKey& key, const Credential& claimed);

}  // namespace spate::rpc
