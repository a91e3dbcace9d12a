// SPDX-License-Identifier: Apache-2.0
#include "bmi/shm/policy.h"

#include <algorithm>
#include <charconv>

namespace spate::bmi::shm {

bool AccessPolicy::admits(std::uint32_t uid, std::uint32_t own_uid) const {
  if (uid == 0) return true;
  switch (kind) {
    case Kind::kSameUser: return uid == own_uid;
    case Kind::kAnyUser: return true;
    case Kind::kList: return std::ranges::find(uids, uid) != uids.end();
  }
  return false;
}

Result<AccessPolicy> parse_policy(std::string_view text) {
  constexpr std::size_t kMaxUids = 256;
  if (text == "same") return AccessPolicy{};
  if (text == "any") return AccessPolicy{AccessPolicy::Kind::kAnyUser, {}};
  AccessPolicy policy;
  policy.kind = AccessPolicy::Kind::kList;
  for (std::string_view rest = text;;) {
    const std::string_view one = rest.substr(0, rest.find(','));
    std::uint32_t uid = 0;
    const auto [end, error] = std::from_chars(one.data(), one.data() + one.size(), uid);
    if (error != std::errc() || end != one.data() + one.size() || policy.uids.size() == kMaxUids) {
      return Error(Errc::kInvalidArgument,
                   "\"" + std::string(text) + "\" is not \"same\", \"any\" or a list of user ids (\"1000,1001\")");
    }
    policy.uids.push_back(uid);
    if (one.size() == rest.size()) return policy;
    rest.remove_prefix(one.size() + 1);
  }
}

std::string describe(AccessPolicy::Kind kind, std::uint32_t server_uid) {
  switch (kind) {
    case AccessPolicy::Kind::kSameUser:
      return "admits only its own user (uid " + std::to_string(server_uid) + ") and root";
    case AccessPolicy::Kind::kAnyUser: return "admits every user";
    case AccessPolicy::Kind::kList: return "admits only the users that its configuration lists";
  }
  return {};
}

}  // namespace spate::bmi::shm
