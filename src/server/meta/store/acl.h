// SPDX-License-Identifier: Apache-2.0
// Access control lists with the rules of Linux: POSIX 1003.1e draft 17, as extended attributes system.posix_acl_access
// and system.posix_acl_default (docs/consistency.md, "Permissions").
#pragma once

#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "model/attributes.h"

namespace spate::meta {

/// One entry of an access control list.
struct AclEntry {
  // Tags, as in <linux/posix_acl.h>.
  static constexpr std::uint16_t kOwner = 1;
  static constexpr std::uint16_t kUser = 2;
  static constexpr std::uint16_t kOwningGroup = 4;
  static constexpr std::uint16_t kGroup = 8;
  static constexpr std::uint16_t kMask = 16;
  static constexpr std::uint16_t kOthers = 32;
  std::uint16_t tag = 0;
  std::uint16_t permissions = 0;  // 0..7
  std::uint32_t id = 0;           // a user's or group's id; for other tags all ones
  friend bool operator==(const AclEntry&, const AclEntry&) = default;
  template <typename A>
  void fields(A& a) {
    a(tag, permissions, id);
  }
};
using Acl = std::vector<AclEntry>;

/// Most entries of one list. The kernel asks for a list with room for 4096 bytes.
constexpr std::size_t kMaxAclEntries = 256;

/// Decodes a list from the attribute's value (version 2, little-endian, as in <linux/posix_acl_xattr.h>). An empty
/// value is an empty list. Fails with kInvalidArgument when the value is no list, kNotSupported for another version,
/// kNoSpace for too many entries.
Result<Acl> decode_acl(ByteView value);
/// Fails with kInvalidArgument when the list is out of order or lacks an entry. An empty list is valid.
Result<void> check_acl(const Acl& acl);
Bytes encode_acl(const Acl& acl);

bool in_group(const Credential& who, std::uint32_t gid);

/// Whether the list, not empty, grants all of `want` to `who`, who is not uid 0.
/// Source: POSIX 1003.1e draft 17, sec. 23.1.5, and posix_acl_permission() of Linux.
bool acl_allows(const Credential& who, const Attributes& object, const Acl& acl, unsigned want);

/// The mode with the permission bits of the list, which is not empty: those of owner, mask (or group) and others.
std::uint32_t mode_of(const Acl& acl, std::uint32_t mode);
/// Whether the list grants rights that a mode cannot express.
inline bool says_more_than_mode(const Acl& acl) { return acl.size() > 3; }
/// chmod: the group bits go to the mask, if there is one.
void apply_mode_to_acl(Acl& acl, std::uint32_t mode);

/// The list that a new object inherits from its directory's default list, which is not empty. The list is limited by
/// `mode`, and `mode` by the list.
Acl limited_to_mode(Acl default_acl, std::uint32_t& mode);

}  // namespace spate::meta
