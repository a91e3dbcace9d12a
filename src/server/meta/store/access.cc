// SPDX-License-Identifier: Apache-2.0
#include "server/meta/store/access.h"

#include <algorithm>

#include "server/meta/store/acl.h"

namespace spate::meta {

bool in_group(const Credential& who, std::uint32_t gid) {
  return who.gid == gid || std::find(who.groups.begin(), who.groups.end(), gid) != who.groups.end();
}

bool may(const Credential& who, const InodeRecord& inode, unsigned want) {
  const Attributes& object = inode.attributes;
  if (is_root(who)) {
    const bool anyone_executes = (object.mode & 0111U) != 0;
    return (want & kWantExecute) == 0 || object.type == FileType::kDirectory || anyone_executes;
  }
  // A list without any right in its mask is not asked, as on Linux.
  if (!inode.acl.empty() && who.uid != object.uid && (object.mode & 070U) != 0)
    return acl_allows(who, object, inode.acl, want);
  // The first class that fits decides, even when a later one would allow more.
  unsigned shift = 0;
  if (who.uid == object.uid) {
    shift = 6;
  } else if (in_group(who, object.gid)) {
    shift = 3;
  }
  return ((object.mode >> shift) & want) == want;
}

bool sticky_allows(const Credential& who, const Attributes& directory, const Attributes& object) {
  return (directory.mode & kSticky) == 0 || is_root(who) || who.uid == object.uid || who.uid == directory.uid;
}

}  // namespace spate::meta
