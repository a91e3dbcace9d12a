// SPDX-License-Identifier: Apache-2.0
#include "server/meta/store/keys.h"

#include <algorithm>

#include "base/check.h"
#include "base/checksum.h"

namespace spate::meta {
namespace {

constexpr std::string_view kLockHolder = "lock_holder.";
constexpr std::string_view kLeaseHolder = "lease_holder.";
constexpr std::string_view kDelegationHolder = "delegation_holder.";

std::uint64_t read_u64(ByteView bytes) {
  std::uint64_t v = 0;
  for (const std::byte b : bytes.first(8)) v = v << 8U | static_cast<std::uint64_t>(b);
  return v;
}

bool is_kind(ByteView key, KeyKind kind, std::size_t at_least) {
  return key.size() >= at_least && static_cast<char>(key[0]) == static_cast<char>(kind);
}

std::optional<ClientId> holder(ByteView key, std::string_view name) {
  const std::size_t bytes = 1 + name.size() + 8;
  if (!is_kind(key, KeyKind::kGlobal, bytes) || key.size() != bytes) return std::nullopt;
  return ClientId(read_u64(key.last(8)));
}

/// Every key that begins with `prefix`.
trove::KeyRange prefix_range(const StoreKey& prefix) {
  trove::KeyRange range;
  range.begin = prefix.bytes();
  range.end = range.begin;
  while (!range.end.empty() && range.end.back() == std::byte{0xFF}) range.end.pop_back();
  SPATE_CHECK(!range.end.empty());  // a kind's byte is a letter
  range.end.back() = static_cast<std::byte>(static_cast<unsigned>(range.end.back()) + 1);
  return range;
}

}  // namespace

StoreKey& StoreKey::append_u64(std::uint64_t v) {
  SPATE_CHECK(size_ + 8 <= kMaxBytes);
  for (unsigned i = 0; i < 8; ++i) append_byte(static_cast<std::uint8_t>(v >> (56 - 8 * i)));
  return *this;
}

StoreKey& StoreKey::append_u32(std::uint32_t v) {
  return append_u16(static_cast<std::uint16_t>(v >> 16U)).append_u16(static_cast<std::uint16_t>(v & 0xFFFFU));
}

StoreKey& StoreKey::append_u16(std::uint16_t v) {
  SPATE_CHECK(size_ + 2 <= kMaxBytes);
  append_byte(static_cast<std::uint8_t>(v >> 8U));
  append_byte(static_cast<std::uint8_t>(v & 0xFFU));
  return *this;
}

StoreKey& StoreKey::append(std::string_view text) {
  SPATE_CHECK(size_ + text.size() <= kMaxBytes);
  const ByteView bytes = as_bytes(text);
  std::copy(bytes.begin(), bytes.end(), bytes_.begin() + static_cast<std::ptrdiff_t>(size_));
  size_ += text.size();
  return *this;
}

StoreKey inode_key(Handle handle) { return StoreKey(KeyKind::kInode).append_u64(handle.value); }

StoreKey entry_key(Handle directory, std::uint64_t hash, std::string_view name) {
  return StoreKey(KeyKind::kEntry).append_u64(directory.value).append_u64(hash).append(name);
}

StoreKey xattr_key(Handle handle, std::string_view name) {
  return StoreKey(KeyKind::kXattr).append_u64(handle.value).append(name);
}

StoreKey session_key(ClientId client) { return StoreKey(KeyKind::kSession).append_u64(client.value); }

StoreKey answer_key(ClientId client, std::uint16_t slot) {
  return StoreKey(KeyKind::kAnswer).append_u64(client.value).append_u16(slot);
}

StoreKey open_key(Handle handle, ClientId client, std::uint32_t epoch) {
  return StoreKey(KeyKind::kOpen).append_u64(handle.value).append_u64(client.value).append_u32(epoch);
}

StoreKey removal_key(Handle handle) { return StoreKey(KeyKind::kRemoval).append_u64(handle.value); }

StoreKey truncate_key(Handle handle) { return StoreKey(KeyKind::kTruncate).append_u64(handle.value); }

StoreKey unsettled_key(Handle handle) { return StoreKey(KeyKind::kUnsettled).append_u64(handle.value); }

StoreKey lease_holder_key(ClientId client) { return global_key(kLeaseHolder).append_u64(client.value); }

StoreKey delegation_holder_key(ClientId client) { return global_key(kDelegationHolder).append_u64(client.value); }

StoreKey lock_holder_key(ClientId client) { return global_key(kLockHolder).append_u64(client.value); }

StoreKey data_group_key(TargetId group) { return StoreKey(KeyKind::kDataGroup).append_u32(group.value); }
StoreKey queue_key(ClientId client) { return StoreKey(KeyKind::kQueue).append_u64(client.value); }
StoreKey global_key(std::string_view name) { return StoreKey(KeyKind::kGlobal).append(name); }

trove::KeyRange all_of(KeyKind kind) { return prefix_range(StoreKey(kind)); }

trove::KeyRange entries_after(Handle directory, std::uint64_t after) {
  const StoreKey all = StoreKey(KeyKind::kEntry).append_u64(directory.value);
  trove::KeyRange range = prefix_range(all);
  if (after != 0) range.begin = StoreKey(all).append_u64(after + 1).bytes();
  return range;
}

trove::KeyRange xattrs_of(Handle handle) { return prefix_range(StoreKey(KeyKind::kXattr).append_u64(handle.value)); }

trove::KeyRange answers_of(ClientId client) {
  return prefix_range(StoreKey(KeyKind::kAnswer).append_u64(client.value));
}

trove::KeyRange opens_of(Handle handle) { return prefix_range(StoreKey(KeyKind::kOpen).append_u64(handle.value)); }

trove::KeyRange opens_of(Handle handle, ClientId client) {
  return prefix_range(StoreKey(KeyKind::kOpen).append_u64(handle.value).append_u64(client.value));
}

std::optional<EntryKeyParts> parse_entry_key(ByteView key) {
  if (!is_kind(key, KeyKind::kEntry, 1 + 8 + 8 + 1)) return std::nullopt;
  return EntryKeyParts{read_u64(key.subspan(9)), as_text(key.subspan(17))};
}

std::optional<std::string_view> parse_xattr_key(ByteView key) {
  if (!is_kind(key, KeyKind::kXattr, 1 + 8 + 1)) return std::nullopt;
  return as_text(key.subspan(9));
}

std::optional<OpenKeyParts> parse_open_key(ByteView key) {
  constexpr std::size_t kBytes = 1 + 8 + 8 + 4;
  if (!is_kind(key, KeyKind::kOpen, kBytes) || key.size() != kBytes) return std::nullopt;
  std::uint32_t epoch = 0;
  for (const std::byte b : key.last(4)) epoch = epoch << 8U | static_cast<std::uint32_t>(b);
  return OpenKeyParts{Handle(read_u64(key.subspan(1))), ClientId(read_u64(key.subspan(9))), epoch};
}

trove::KeyRange lease_holders() { return prefix_range(global_key(kLeaseHolder)); }
trove::KeyRange delegation_holders() { return prefix_range(global_key(kDelegationHolder)); }
trove::KeyRange lock_holders() { return prefix_range(global_key(kLockHolder)); }

std::optional<ClientId> parse_lock_holder_key(ByteView key) { return holder(key, kLockHolder); }
std::optional<ClientId> parse_lease_holder_key(ByteView key) { return holder(key, kLeaseHolder); }
std::optional<ClientId> parse_delegation_holder_key(ByteView key) { return holder(key, kDelegationHolder); }

std::optional<std::uint64_t> parse_id_key(ByteView key) {
  if (key.size() < 1 + 8) return std::nullopt;
  return read_u64(key.subspan(1));
}

std::uint64_t NameHash::operator()(std::string_view name) const {
  const std::uint64_t hash = hash64(as_bytes(name), seed) >> (64U - bits);
  return hash == 0 ? 1 : hash;
}

}  // namespace spate::meta
