// SPDX-License-Identifier: Apache-2.0
// Access control lists as Linux has them: POSIX 1003.1e draft 17, as extended attributes system.posix_acl_access and
// system.posix_acl_default (docs/consistency.md, "Permissions").
#pragma once

#include "base/bytes.h"
#include "server/meta/store/records.h"

namespace spate::meta {

/// Of one list. The kernel asks for a list with room for 4096 bytes.
constexpr std::size_t kMaxAclEntries = 256;

/// A list from the attribute's value (version 2, little-endian, as in <linux/posix_acl_xattr.h>); empty: none.
/// kInvalidArgument for what is no list, kNotSupported for another version, kNoSpace for too many entries.
Result<Acl> decode_acl(ByteView value);
/// kInvalidArgument for a list that is out of order or lacks an entry; an empty one is good.
Result<void> check_acl(const Acl& acl);
Bytes encode_acl(const Acl& acl);

/// Whether the list, not empty, grants all of `want` to `who`, who is not uid 0.
/// Source: POSIX 1003.1e draft 17, sec. 23.1.5, and posix_acl_permission() of Linux.
bool acl_allows(const Credential& who, const Attributes& object, const Acl& acl, unsigned want);

/// The list becomes the object's, and its mode's permission bits those of owner, mask (or group) and others. One that
/// says no more than a mode is not kept.
void set_access_acl(InodeRecord& object, Acl acl);
/// chmod: the group's bits are the mask's, if there is one.
void apply_mode_to_acl(Acl& acl, std::uint32_t mode);

/// A new object gets what its directory's default list says, cut by the mode it was made with; without one the umask
/// counts.
void inherit_acl(const InodeRecord& directory, InodeRecord& object, std::uint32_t umask);

}  // namespace spate::meta
