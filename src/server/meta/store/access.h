// SPDX-License-Identifier: Apache-2.0
// Permissions: owner, group and others, as POSIX has them; uid 0 may everything (docs/consistency.md, "Permissions").
#pragma once

#include "server/meta/store/records.h"

namespace spate::meta {

/// As in a mode's three bits.
enum Want : unsigned { kWantExecute = 1, kWantWrite = 2, kWantRead = 4 };

constexpr std::uint32_t kSetUid = 04000;
constexpr std::uint32_t kSetGid = 02000;
constexpr std::uint32_t kSticky = 01000;
constexpr std::uint32_t kGroupExecute = 010;

/// A program of this mode runs with rights of its owner or group, which others may not change.
constexpr bool lends_rights(std::uint32_t mode) {
  return (mode & kSetUid) != 0 || ((mode & kSetGid) != 0 && (mode & kGroupExecute) != 0);
}

inline bool is_root(const Credential& who) { return who.uid == 0; }
bool in_group(const Credential& who, std::uint32_t gid);

/// `want`: Want values together. uid 0 lacks only execution of a file that nobody may execute. The access control list
/// counts, where there is one.
bool may(const Credential& who, const InodeRecord& object, unsigned want);
/// May do what only the owner may: chmod, explicit times.
inline bool owns(const Credential& who, const Attributes& object) { return is_root(who) || who.uid == object.uid; }
/// In a sticky directory names are removed by the owner of the object or of the directory only.
bool sticky_allows(const Credential& who, const Attributes& directory, const Attributes& object);

}  // namespace spate::meta
