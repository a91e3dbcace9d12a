// SPDX-License-Identifier: Apache-2.0
// The keys of the meta server's store (docs/disk-meta.md, "Keys"). Numbers are big-endian, so that ranges sort by them.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "base/bytes.h"
#include "model/attributes.h"
#include "model/ids.h"
#include "trove/keyval.h"

namespace spate::meta {

/// First byte of a key: the kind of its record. Stored; never renumbered.
enum class KeyKind : char {
  kInode = 'i',      // handle
  kEntry = 'd',      // directory's handle, hash of the name, name
  kXattr = 'x',      // handle, name
  kSession = 's',    // client
  kAnswer = 'a',     // client, slot (u16)
  kOpen = 'o',       // handle, client, epoch (u32)
  kRemoval = 'r',    // handle
  kTruncate = 't',   // handle
  kUnsettled = 'u',  // handle
  kGlobal = 'g',     // name
  kDataGroup = 'm',  // number of the group (u32)
  kQueue = 'q',      // client
};

/// A key, built in place without allocating. A value.
class StoreKey {
 public:
  static constexpr std::size_t kMaxBytes = 1 + 8 + 8 + kMaxNameBytes;

  explicit StoreKey(KeyKind kind) { append_byte(static_cast<std::uint8_t>(kind)); }
  StoreKey& append_u64(std::uint64_t v);
  StoreKey& append_u32(std::uint32_t v);
  StoreKey& append_u16(std::uint16_t v);
  /// Appends at most kMaxNameBytes bytes. A longer text is a bug and ends the process (SPATE_CHECK), since callers have
  /// refused longer names.
  StoreKey& append(std::string_view text);

  ByteView view() const { return {bytes_.data(), size_}; }
  operator ByteView() const { return view(); }  // NOLINT(google-explicit-constructor): it is one
  Bytes bytes() const { return to_bytes(view()); }

 private:
  void append_byte(std::uint8_t v) { bytes_[size_++] = static_cast<std::byte>(v); }
  std::array<std::byte, kMaxBytes> bytes_;
  std::size_t size_ = 0;
};

StoreKey inode_key(Handle handle);
/// `hash`: of the name, by the superblock's NameHash.
StoreKey entry_key(Handle directory, std::uint64_t hash, std::string_view name);
StoreKey xattr_key(Handle handle, std::string_view name);
StoreKey session_key(ClientId client);
StoreKey answer_key(ClientId client, std::uint16_t slot);
StoreKey open_key(Handle handle, ClientId client, std::uint32_t epoch);
StoreKey removal_key(Handle handle);
StoreKey truncate_key(Handle handle);
StoreKey unsettled_key(Handle handle);
StoreKey global_key(std::string_view name);
StoreKey data_group_key(TargetId group);
StoreKey queue_key(ClientId client);
/// A global record: the session has taken locks. Its value is a counter that holds the session's epoch.
StoreKey lock_holder_key(ClientId client);
/// A global record of the same form: the session may have attribute leases.
StoreKey lease_holder_key(ClientId client);
/// A global record of the same form: directories may be delegated to the session.
StoreKey delegation_holder_key(ClientId client);

/// All records of a kind.
trove::KeyRange all_of(KeyKind kind);
/// Entries of a directory whose hash is > `after` (all of them for 0: no name hashes to 0).
trove::KeyRange entries_after(Handle directory, std::uint64_t after);
trove::KeyRange xattrs_of(Handle handle);
trove::KeyRange answers_of(ClientId client);
trove::KeyRange opens_of(Handle handle);
trove::KeyRange lock_holders();
trove::KeyRange lease_holders();
trove::KeyRange delegation_holders();
trove::KeyRange opens_of(Handle handle, ClientId client);

/// The parts of a decoded key. Nothing if it is not a key of that kind.
struct EntryKeyParts {
  std::uint64_t hash = 0;
  std::string_view name;  // borrows from the key
};
std::optional<EntryKeyParts> parse_entry_key(ByteView key);
std::optional<std::string_view> parse_xattr_key(ByteView key);
struct OpenKeyParts {
  Handle handle;
  ClientId client;
  std::uint32_t epoch = 0;
};
std::optional<OpenKeyParts> parse_open_key(ByteView key);
std::optional<ClientId> parse_lock_holder_key(ByteView key);
std::optional<ClientId> parse_lease_holder_key(ByteView key);
std::optional<ClientId> parse_delegation_holder_key(ByteView key);
/// The number after the kind: a handle or client.
std::optional<std::uint64_t> parse_id_key(ByteView key);

/// Hash of names: 63 bits and never 0, because readdir's cookie is a positive signed number. The seed is random for
/// each file system, so nobody can prepare names that collide. Source: XXH64.
struct NameHash {
  std::uint64_t seed = 0;
  std::uint8_t bits = 63;  // 1..63; fewer only in tests, to make names collide
  std::uint64_t operator()(std::string_view name) const;
};

}  // namespace spate::meta
