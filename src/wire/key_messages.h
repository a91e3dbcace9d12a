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

/// Revokes these keys, until their own end, or for ever. A request without keys only lists. Repeatable.
struct RevokeKeysRequest {
  static constexpr Op kOp = Op::kRevokeKeys;
  static constexpr std::string_view kName = "revoke keys request";
  /// At most kMaxRevoked. If the last is zeros, it is no key, and `ends` follows.
  std::vector<KeyId> keys;
  std::vector<WallTime> ends;  // of the keys before the zeros, in their order; 0: no end, or not known
  bool has_ends() const { return !keys.empty() && keys.back() == KeyId{}; }
  template <typename A>
  void fields(A& a) {
    a(keys);
    if (has_ends()) a(ends);
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
