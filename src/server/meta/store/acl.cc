// SPDX-License-Identifier: Apache-2.0
#include "server/meta/store/acl.h"

#include <algorithm>

#include "base/codec.h"

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

/// The order is: owner, users, owning group, groups, mask, others. Owner, owning group and others occur once, the mask
/// if there are users or groups.
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

/// The entry that corresponds to the group bits of a mode.
AclEntry& group_class(Acl& acl) {
  AclEntry* const mask = find(acl, AclEntry::kMask);
  return mask != nullptr ? *mask : *find(acl, AclEntry::kOwningGroup);
}

/// Entry and mode both keep only the bits that both have.
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

bool in_group(const Credential& who, std::uint32_t gid) {
  return who.gid == gid || std::find(who.groups.begin(), who.groups.end(), gid) != who.groups.end();
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

std::uint32_t mode_of(const Acl& acl, std::uint32_t mode) {
  Acl list = acl;
  const std::uint32_t bits = static_cast<std::uint32_t>(find(list, AclEntry::kOwner)->permissions) << 6U |
                             static_cast<std::uint32_t>(group_class(list).permissions) << 3U |
                             find(list, AclEntry::kOthers)->permissions;
  return (mode & ~0777U) | bits;
}

void apply_mode_to_acl(Acl& acl, std::uint32_t mode) {
  if (acl.empty()) return;
  find(acl, AclEntry::kOwner)->permissions = static_cast<std::uint16_t>((mode >> 6U) & 7U);
  group_class(acl).permissions = static_cast<std::uint16_t>((mode >> 3U) & 7U);
  find(acl, AclEntry::kOthers)->permissions = static_cast<std::uint16_t>(mode & 7U);
}

Acl limited_to_mode(Acl default_acl, std::uint32_t& mode) {
  meet(*find(default_acl, AclEntry::kOwner), mode, 6);
  meet(group_class(default_acl), mode, 3);
  meet(*find(default_acl, AclEntry::kOthers), mode, 0);
  return default_acl;
}

}  // namespace spate::meta
