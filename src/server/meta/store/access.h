// SPDX-License-Identifier: Apache-2.0
// Permissions of owner, group and others by POSIX; uid 0 may do everything (docs/consistency.md, "Permissions").
#pragma once

#include "server/meta/store/records.h"

namespace spate::meta {

/// The three bits of a mode.
enum Want : unsigned { kWantExecute = 1, kWantWrite = 2, kWantRead = 4 };

constexpr std::uint32_t kSetUid = 04000;
constexpr std::uint32_t kSetGid = 02000;
constexpr std::uint32_t kSticky = 01000;
constexpr std::uint32_t kGroupExecute = 010;

/// Whether a program of this mode runs with the rights of its owner or group (set-uid, set-gid). Other users may not
/// change it.
constexpr bool lends_rights(std::uint32_t mode) {
  return (mode & kSetUid) != 0 || ((mode & kSetGid) != 0 && (mode & kGroupExecute) != 0);
}

inline bool is_root(const Credential& who) { return who.uid == 0; }

/// `want`: an OR of Want values. uid 0 is refused only to execute a file that nobody may execute. If the inode has an
/// access control list, the list decides.
bool may(const Credential& who, const InodeRecord& object, unsigned want);
/// Whether the caller may do what only the owner may do: chmod, explicit times.
inline bool owns(const Credential& who, const Attributes& object) { return is_root(who) || who.uid == object.uid; }
/// Whether the caller may look up names in the directory. kNotDirectory, kPermissionDenied.
Result<void> check_searchable(const Credential& who, const InodeRecord& directory);
/// In a sticky directory only the owner of the object or of the directory may remove a name.
bool sticky_allows(const Credential& who, const Attributes& directory, const Attributes& object);

/// Gives the object this list, and sets the object's mode from it. A list that grants no more than a mode can is not
/// stored.
void set_access_acl(InodeRecord& object, Acl acl);
/// A new object gets the permissions of its directory's default list, limited by the mode of the request. Without a
/// default list the umask applies.
void inherit_acl(const InodeRecord& directory, InodeRecord& object, std::uint32_t umask);

}  // namespace spate::meta
