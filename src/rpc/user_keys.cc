// SPDX-License-Identifier: Apache-2.0
#include "rpc/user_keys.h"

#include "base/units.h"

namespace spate::rpc {
namespace {

std::string name_of(const UserKey& key) { return "the key " + text_of(key.id); }

}  // namespace

Result<void> UserKeys::check(const UserKey& key) const {
  if (revoked_.contains(key.id)) {
    return Error::told(Errc::kUnauthenticated,
                       name_of(key) + " was revoked: ask the operator of the file system for another one");
  }
  if (!key.ended(clock_.wall())) return {};
  return Error::told(Errc::kUnauthenticated, name_of(key) + " has ended on " + format_time(key.until) +
                                                 ": ask the operator of the file system for a new one");
}

Result<void> UserKeys::check(const UserKey& key, Access access) const {
  SPATE_TRY(std::ignore, check(key));
  switch (access) {
    case Access::kAnyone:
    case Access::kReaders: return {};
    case Access::kWriters:
      if (!key.read_only) return {};
      return Error::told(Errc::kReadOnly, name_of(key) + " is for reading only");
    case Access::kOperators:
    case Access::kServersOnly: break;
  }
  return Error::told(Errc::kNotPermitted, "only the operator of the file system may ask this, with its client key; " +
                                              name_of(key) + " is good for user " + std::to_string(key.user.uid));
}

Error not_covered(const UserKey& key, const Credential& claimed) {
  return Error::told(Errc::kUnauthenticated,
                     name_of(key) + " is good for user " + std::to_string(key.user.uid) +
                         " and the groups that it names, not for user " + std::to_string(claimed.uid) + " in group " +
                         std::to_string(claimed.gid) + " and " + std::to_string(claimed.groups.size()) + " others");
}

}  // namespace spate::rpc
