// SPDX-License-Identifier: Apache-2.0
#include "server/meta/store/acl.h"

#include <algorithm>

#include "base/codec.h"
#include "server/meta/store/access.h"

namespace spate::meta {
namespace {

constexpr std::uint32_t kXattrVersion = 2;
constexpr std::uint32_t kNoId = 0xFFFFFFFF;
constexpr std::size_t kEntryBytes = 8;

bool has_id(std::uint16_t tag) { return tag == AclEntry::kUser || tag == AclEntry::kGroup; }

AclEntry* find(Acl& acl, std::uint16_t tag) {
  const auto found = std::find_if(acl.begin(), acl.end(), [&](const AclEntry& entry) { return entry.tag == tag; });
  return found == acl.end() ? nullptr : &*found;
}
const AclEntry* find(const Acl& acl, std::uint16_t tag) { return find(const_cast<Acl&>(acl), tag); }

bool known_tag(std::uint16_t tag) {
  switch (tag) {
    case AclEntry::kOwner:
    case AclEntry::kUser:
    case AclEntry::kOwningGroup:
    case AclEntry::kGroup:
    case AclEntry::kMask:
    case AclEntry::kOthers: return true;
    default: return false;
  }
}

/// Owner, users, owning group, groups, mask, others: in this order, the first, third and last once, the mask when there
/// are users or groups.
bool valid(const Acl& acl) {
  std::uint16_t last = 0;
  bool named = false;
  for (const AclEntry& entry : acl) {
    const bool again = entry.tag == last && has_id(entry.tag);
    if ((entry.tag <= last && !again) || !known_tag(entry.tag) || entry.permissions > 7) return false;
    if (has_id(entry.tag) && entry.id == kNoId) return false;
    named |= has_id(entry.tag);
    last = entry.tag;
  }
  const bool complete = find(acl, AclEntry::kOwner) != nullptr && find(acl, AclEntry::kOwningGroup) != nullptr &&
                        find(acl, AclEntry::kOthers) != nullptr;
  return complete && (!named || find(acl, AclEntry::kMask) != nullptr);
}

/// What stands for the group's bits of a mode.
AclEntry& group_class(Acl& acl) {
  AclEntry* const mask = find(acl, AclEntry::kMask);
  return mask != nullptr ? *mask : *find(acl, AclEntry::kOwningGroup);
}

/// Entry and bits of a mode both keep what both have.
void meet(AclEntry& entry, std::uint32_t& mode, unsigned shift) {
  entry.permissions &= static_cast<std::uint16_t>((mode >> shift) & 7U);
  mode = (mode & ~(7U << shift)) | (static_cast<std::uint32_t>(entry.permissions) << shift);
}

}  // namespace

Result<Acl> decode_acl(ByteView value) {
  if (value.empty()) return Acl();
  Decoder in(value);
  const std::uint32_t version = in.u32();
  if (!in.ok() || in.remaining() % kEntryBytes != 0)
    return Error::told(Errc::kInvalidArgument, "an access control list cut off");
  if (version != kXattrVersion)
    return Error::told(Errc::kNotSupported, "an access control list of another version than 2");
  if (in.remaining() / kEntryBytes > kMaxAclEntries)
    return Error::told(Errc::kNoSpace, "more than 256 entries in an access control list");
  Acl acl;
  while (in.remaining() > 0) {
    AclEntry entry;
    entry.tag = in.u16();
    entry.permissions = in.u16();
    entry.id = in.u32();
    if (!known_tag(entry.tag))
      return Error::told(Errc::kInvalidArgument, "an access control list with an unknown entry");
    if (!has_id(entry.tag)) entry.id = kNoId;
    acl.push_back(entry);
  }
  return acl;
}

Result<void> check_acl(const Acl& acl) {
  if (acl.empty() || valid(acl)) return {};
  return Error::told(Errc::kInvalidArgument, "an access control list that is out of order or lacks an entry");
}

Bytes encode_acl(const Acl& acl) {
  Bytes value;
  Encoder out(value);
  out.u32(kXattrVersion);
  for (const AclEntry& entry : acl) {
    out.u16(entry.tag);
    out.u16(entry.permissions);
    out.u32(entry.id);
  }
  return value;
}

bool acl_allows(const Credential& who, const Attributes& object, const Acl& acl, unsigned want) {
  const AclEntry* const mask = find(acl, AclEntry::kMask);
  const auto within_mask = [&](const AclEntry& entry) {
    return (entry.permissions & want) == want && (mask == nullptr || (mask->permissions & want) == want);
  };
  bool in_some_group = false;
  for (const AclEntry& entry : acl) {
    switch (entry.tag) {
      case AclEntry::kOwner:
        if (who.uid == object.uid) return (entry.permissions & want) == want;
        break;
      case AclEntry::kUser:
        if (who.uid == entry.id) return within_mask(entry);
        break;
      case AclEntry::kOwningGroup:
      case AclEntry::kGroup:
        if (!in_group(who, entry.tag == AclEntry::kGroup ? entry.id : object.gid)) break;
        in_some_group = true;
        if ((entry.permissions & want) == want) return within_mask(entry);
        break;
      case AclEntry::kOthers: return !in_some_group && (entry.permissions & want) == want;
      default: break;
    }
  }
  return false;
}

void set_access_acl(InodeRecord& object, Acl acl) {
  object.acl.clear();
  if (acl.empty()) return;
  const std::uint32_t bits = static_cast<std::uint32_t>(find(acl, AclEntry::kOwner)->permissions) << 6U |
                             static_cast<std::uint32_t>(group_class(acl).permissions) << 3U |
                             find(acl, AclEntry::kOthers)->permissions;
  object.attributes.mode = (object.attributes.mode & ~0777U) | bits;
  if (acl.size() > 3) object.acl = std::move(acl);
}

void apply_mode_to_acl(Acl& acl, std::uint32_t mode) {
  if (acl.empty()) return;
  find(acl, AclEntry::kOwner)->permissions = static_cast<std::uint16_t>((mode >> 6U) & 7U);
  group_class(acl).permissions = static_cast<std::uint16_t>((mode >> 3U) & 7U);
  find(acl, AclEntry::kOthers)->permissions = static_cast<std::uint16_t>(mode & 7U);
}

void inherit_acl(const InodeRecord& directory, InodeRecord& object, std::uint32_t umask) {
  if (object.is_symlink()) return;
  std::uint32_t& mode = object.attributes.mode;
  if (directory.default_acl.empty()) {
    mode &= ~(umask & 0777U);
    return;
  }
  Acl acl = directory.default_acl;
  meet(*find(acl, AclEntry::kOwner), mode, 6);
  meet(group_class(acl), mode, 3);
  meet(*find(acl, AclEntry::kOthers), mode, 0);
  if (acl.size() > 3) object.acl = std::move(acl);
  if (object.is_directory()) object.default_acl = directory.default_acl;
}

}  // namespace spate::meta
