// SPDX-License-Identifier: Apache-2.0
#include "server/meta/store/access.h"

#include <utility>

#include "server/meta/store/acl.h"

namespace spate::meta {

bool may(const Credential& who, const InodeRecord& inode, unsigned want) {
  const Attributes& object = inode.attributes;
  if (is_root(who)) {
    const bool anyone_executes = (object.mode & 0111U) != 0;
    return (want & kWantExecute) == 0 || object.type == FileType::kDirectory || anyone_executes;
  }
  // As on Linux, a list whose mask has no rights is not consulted.
  if (!inode.acl.empty() && who.uid != object.uid && (object.mode & 070U) != 0)
    return acl_allows(who, object, inode.acl, want);
  // The first class that matches decides, even if a later one would allow more.
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

Result<void> check_searchable(const Credential& who, const InodeRecord& directory) {
  if (!directory.is_directory()) return Errc::kNotDirectory;
  if (!may(who, directory, kWantExecute)) return Errc::kPermissionDenied;
  return {};
}

void set_access_acl(InodeRecord& object, Acl acl) {
  object.acl.clear();
  if (acl.empty()) return;
  object.attributes.mode = mode_of(acl, object.attributes.mode);
  if (says_more_than_mode(acl)) object.acl = std::move(acl);
}

void inherit_acl(const InodeRecord& directory, InodeRecord& object, std::uint32_t umask) {
  if (object.is_symlink()) return;
  std::uint32_t& mode = object.attributes.mode;
  if (directory.default_acl.empty()) {
    mode &= ~(umask & 0777U);
    return;
  }
  Acl acl = limited_to_mode(directory.default_acl, mode);
  if (says_more_than_mode(acl)) object.acl = std::move(acl);
  if (object.is_directory()) object.default_acl = directory.default_acl;
}

}  // namespace spate::meta
