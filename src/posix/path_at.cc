// SPDX-License-Identifier: Apache-2.0
#include "posix/path_at.h"

namespace spate::posix {

Result<wire::NamePath> to_name_path(const PathAt& where, bool rooted_links) {
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

}  // namespace spate::posix
