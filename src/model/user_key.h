// SPDX-License-Identifier: Apache-2.0
// UserKey and ClientKey: keys that are derived from the client key for one user (docs/security.md, "Keys of users").
#pragma once

#include <array>
#include <optional>
#include <string>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/result.h"
#include "model/attributes.h"
#include "model/ids.h"

namespace spate {

/// Identifies a key without revealing it.
using KeyId = std::array<std::byte, 8>;
/// 16 hex digits.
std::string text_of(const KeyId& id);
std::optional<KeyId> key_id_from(std::string_view text);

/// What a user's key allows. Its holder cannot change it: the key is derived from the encoding of all fields.
struct UserKey {
  KeyId id{};  // random, never zeros: the operator revokes the key by it
  /// The user that the key is good for: never root, and not in root's group. Groups ascend; the gid is not among them.
  Credential user;
  bool read_only = false;
  WallTime until;  // by the servers' clocks; 0: no end
  /// The directory that the key is confined to, with all that is below it. 0: the key is good for the whole file
  /// system.
  Handle directory;
  bool ended(WallTime now) const { return until.ns != 0 && until <= now; }
  friend bool operator==(const UserKey&, const UserKey&) = default;
};

/// Why no key can have these restrictions; empty: a key can have them.
std::string fault_of(const UserKey& key);
/// docs/wire.md, "Keys of users". One encoding for each value.
Bytes encoded(const UserKey& key);
/// kNotSupported for a version of the encoding that this build does not know, kInvalidArgument for anything else that
/// encoded() does not make.
Result<UserKey> decode_user_key(ByteView bytes);
constexpr std::size_t kMaxUserKeyBytes = 1 + 8 + 4 + 4 + 4 + 4 * kMaxGroups + 1 + 8 + 8;

/// Whether a holder of the key may act as `who`: the key's user, in some or all of the key's groups.
bool covers(const UserKey& key, const Credential& who);

/// The part of the claim that the key covers: its user, in those of the key's groups that are claimed.
Credential within(const UserKey& key, const Credential& claim);

/// Replaces root, and root's group, by nobody: the servers do not believe what a user's machine says about root.
Credential squash_root(Credential who);

/// The key that a client proves to have: from a key file of the file system, or derived from such a key for a user.
struct ClientKey {
  ClientKey() = default;
  ClientKey(const Key& of_file) : secret(of_file) {}  // NOLINT(google-explicit-constructor): the operator's
  Key secret{};
  KeyId issuer{};      // a user's key: the id of the client key that it was derived from
  Bytes restrictions;  // a user's key: the encoded UserKey; else empty
  bool is_users() const { return !restrictions.empty(); }
  friend bool operator==(const ClientKey&, const ClientKey&) = default;
};

}  // namespace spate
