// SPDX-License-Identifier: Apache-2.0
// Revocation of keys of users (docs/wire.md, "Keys of users").
#pragma once

#include "model/user_key.h"
#include "wire/header.h"

namespace spate::wire {

constexpr std::size_t kMaxRevoked = 4096;  // keys of one file system

struct RevokedKey {
  KeyId id{};
  WallTime since;
  template <typename A>
  void fields(A& a) {
    a(id, since);
  }
  friend bool operator==(const RevokedKey&, const RevokedKey&) = default;
};

/// Revokes these keys, for ever. With none it only lists. Repeatable.
struct RevokeKeysRequest {
  static constexpr Op kOp = Op::kRevokeKeys;
  static constexpr std::string_view kName = "revoke keys request";
  std::vector<KeyId> keys;  // at most kMaxRevoked
  template <typename A>
  void fields(A& a) {
    a(keys);
  }
};
struct RevokeKeysReply {
  static constexpr std::string_view kName = "revoke keys reply";
  std::vector<RevokedKey> revoked;  // all of the file system, by id
  template <typename A>
  void fields(A& a) {
    a(revoked);
  }
};

}  // namespace spate::wire
