// SPDX-License-Identifier: Apache-2.0
// AccessPolicy: which users of this machine a server lets in.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace spate::bmi::shm {

/// A value. Root is always admitted, since it could read everything anyway.
struct AccessPolicy {
  enum class Kind : std::uint8_t { kSameUser = 0, kAnyUser = 1, kList = 2 };
  Kind kind = Kind::kSameUser;
  std::vector<std::uint32_t> uids;  // kList; the server's own user is admitted only if it is listed

  bool admits(std::uint32_t uid, std::uint32_t own_uid) const;
  friend bool operator==(const AccessPolicy&, const AccessPolicy&) = default;
};

/// "same", "any", or uids with commas ("1000,1001"; at most 256). kInvalidArgument says what is allowed.
Result<AccessPolicy> parse_policy(std::string_view text);

/// "admits only its own user (uid 1000) and root": the reason that a refused user gets.
std::string describe(AccessPolicy::Kind kind, std::uint32_t server_uid);

}  // namespace spate::bmi::shm
