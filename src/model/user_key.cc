// SPDX-License-Identifier: Apache-2.0
#include "model/user_key.h"

#include <algorithm>
#include <iterator>

#include "base/codec.h"

namespace spate {
namespace {

constexpr std::uint8_t kUserKeyVersion = 1;
constexpr std::uint8_t kConfinedVersion = 2;  // appends the directory, which no key of version 1 has
constexpr std::uint8_t kReadOnlyFlag = 1;

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

Error malformed(std::string why) {
  return Error::told(Errc::kInvalidArgument, "the restrictions of the user's key cannot be read: " + std::move(why));
}

}  // namespace

std::string text_of(const KeyId& id) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::byte b : id) {
    text += kDigits[std::to_integer<std::size_t>(b >> 4U)];
    text += kDigits[std::to_integer<std::size_t>(b & std::byte{15})];
  }
  return text;
}

std::optional<KeyId> key_id_from(std::string_view text) {
  KeyId id{};
  if (text.size() != 2 * id.size()) return std::nullopt;
  for (std::size_t i = 0; i < id.size(); ++i) {
    const int high = hex_digit(text[2 * i]);
    const int low = hex_digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    id[i] = static_cast<std::byte>(high * 16 + low);
  }
  return id;
}

std::string fault_of(const UserKey& key) {
  const Credential& user = key.user;
  if (key.id == KeyId{}) return "it has no id";
  if (user.uid == 0) return "a user's key gives nobody the rights of root (user 0)";
  if (user.gid == 0 || std::ranges::find(user.groups, 0U) != user.groups.end())
    return "a user's key puts nobody into root's group (group 0)";
  if (user.uid == UINT32_MAX || user.gid == UINT32_MAX) return "4294967295 is no user and no group";
  if (user.groups.size() > kMaxGroups) return "it has more than " + std::to_string(kMaxGroups) + " groups";
  const auto next = std::ranges::adjacent_find(user.groups, std::ranges::greater_equal());
  if (next != user.groups.end() || std::ranges::find(user.groups, user.gid) != user.groups.end())
    return "its groups are not in order, or one is there twice";
  if (key.until.ns < 0) return "its end lies before 1970";
  return {};
}

Bytes encoded(const UserKey& key) {
  Bytes bytes;
  Encoder out(bytes);
  out.u8(key.directory ? kConfinedVersion : kUserKeyVersion);
  out.raw(key.id);
  out.u32(key.user.uid);
  out.u32(key.user.gid);
  out.u32(static_cast<std::uint32_t>(key.user.groups.size()));
  for (const std::uint32_t group : key.user.groups) out.u32(group);
  out.u8(key.read_only ? kReadOnlyFlag : 0);
  out.i64(key.until.ns);
  if (key.directory) out.u64(key.directory.value);
  return bytes;
}

Result<UserKey> decode_user_key(ByteView bytes) {
  Decoder in(bytes);
  const std::uint8_t version = in.u8();
  if (in.ok() && version != kUserKeyVersion && version != kConfinedVersion)
    return Error::told(Errc::kNotSupported, "the user's key has restrictions of version " + std::to_string(version) +
                                                ", which this version of Spate does not know");
  UserKey key;
  const ByteView id = in.raw(key.id.size());
  if (in.ok()) std::ranges::copy(id, key.id.begin());
  key.user.uid = in.u32();
  key.user.gid = in.u32();
  const std::uint32_t groups = in.count(sizeof(std::uint32_t));
  if (groups > kMaxGroups) in.fail();
  for (std::uint32_t i = 0; i < groups && in.ok(); ++i) key.user.groups.push_back(in.u32());
  const std::uint8_t flags = in.u8();
  if ((flags & ~unsigned{kReadOnlyFlag}) != 0) in.fail();
  key.read_only = (flags & kReadOnlyFlag) != 0;
  key.until.ns = in.i64();
  if (version == kConfinedVersion) {
    key.directory = Handle(in.u64());
    if (!key.directory) in.fail();  // then it would be a key of version 1
  }
  if (!in.ok() || in.remaining() != 0) return malformed("the key file is damaged");
  if (std::string fault = fault_of(key); !fault.empty()) return malformed(std::move(fault));
  return key;
}

bool covers(const UserKey& key, const Credential& who) {
  const auto has = [&key](std::uint32_t group) {
    return group == key.user.gid || std::ranges::binary_search(key.user.groups, group);
  };
  return who.uid == key.user.uid && has(who.gid) && std::ranges::all_of(who.groups, has);
}

Credential within(const UserKey& key, const Credential& claim) {
  const auto has = [&key](std::uint32_t group) { return covers(key, {key.user.uid, group, {}}); };
  Credential who{claim.uid, has(claim.gid) ? claim.gid : key.user.gid, {}};
  std::ranges::copy_if(claim.groups, std::back_inserter(who.groups), has);
  return who;
}

Credential squash_root(Credential who) {
  constexpr std::uint32_t kNobody = 65534;
  if (who.uid == 0) return {kNobody, kNobody, {}};
  if (who.gid == 0) who.gid = kNobody;
  std::erase(who.groups, 0U);
  return who;
}

}  // namespace spate
