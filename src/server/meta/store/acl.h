// SPDX-License-Identifier: Apache-2.0
// Access control lists as Linux has them: POSIX 1003.1e draft 17, as extended attributes system.posix_acl_access and
// system.posix_acl_default (docs/consistency.md, "Permissions").
#pragma once

#include "base/bytes.h"
#include "server/meta/store/records.h"

namespace spate::meta {

/// Of one list. The kernel asks for a list with room for 4096 bytes.
constexpr std::size_t kMaxAclEntries = 256;

/// Decodes a list from the attribute's value (version 2, little-endian, as in <linux/posix_acl_xattr.h>). An empty
/// value is an empty list. Fails with kInvalidArgument when the value is no list, kNotSupported for another version,
/// kNoSpace for too many entries.
Result<Acl> decode_acl(ByteView value);
/// Fails with kInvalidArgument when the list is out of order or lacks an entry. An empty list is valid.
Result<void> check_acl(const Acl& acl);
Bytes encode_acl(const Acl& acl);

/// Whether the list, not empty, grants all of `want` to `who`, who is not uid 0.
/// Source: POSIX 1003.1e draft 17, sec. 23.1.5, and posix_acl_permission() of Linux.
bool acl_allows(const Credential& who, const Attributes& object, const Acl& acl, unsigned want);

/// Makes the list the object's. The permission bits of the mode become those of owner, mask (or group) and others. A
/// list that says no more than a mode is not stored.
void set_access_acl(InodeRecord& object, Acl acl);
/// chmod: the group's bits go to the mask, if there is one.
void apply_mode_to_acl(Acl& acl, std::uint32_t mode);

/// A new object gets the permissions of its directory's default list, limited by the mode of the request. Without a
/// default list the umask applies.
void inherit_acl(const InodeRecord& directory, InodeRecord& object, std::uint32_t umask);

}  // namespace spate::meta
