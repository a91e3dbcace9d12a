// SPDX-License-Identifier: Apache-2.0
#include "posix/where.h"

#include <unistd.h>

#include <algorithm>

namespace spate::posix {

Result<wire::NamePath> to_name_path(const Where& where, bool rooted_links) {
  if (where.path.empty() && !where.empty_is_base) return Errc::kNotFound;
  if (where.path.size() > kLongestPath) return Errc::kNameTooLong;
  if (where.path.find('\0') != std::string::npos) return Error(Errc::kInvalidArgument, "a path with a NUL byte");
  wire::NamePath path;
  path.start = where.path.starts_with('/') ? kRootHandle : where.base;
  path.path = where.path;
  if (where.follow) path.flags |= wire::NamePath::kFollowLast;
  if (rooted_links) path.flags |= wire::NamePath::kRootedLinks;
  return path;
}

bool may_access(const Credential& who, const Attributes& object, int wanted) {
  const auto want = static_cast<unsigned>(wanted);
  if (who.uid == 0) {
    const bool runs = object.type == FileType::kDirectory || (object.mode & 0111U) != 0;
    return (want & static_cast<unsigned>(X_OK)) == 0 || runs;
  }
  const auto in_groups = [&] { return std::find(who.groups.begin(), who.groups.end(), object.gid) != who.groups.end(); };
  unsigned shift = 0;
  if (who.uid == object.uid) {
    shift = 6;
  } else if (who.gid == object.gid || in_groups()) {
    shift = 3;
  }
  return (want & ~(object.mode >> shift)) == 0;
}

}  // namespace spate::posix
