// SPDX-License-Identifier: Apache-2.0
// Capability and SessionTicket: the meta server signs them, and the io servers verify them (docs/consistency.md).
#pragma once

#include <cstdint>
#include <vector>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/codec.h"
#include "model/ids.h"

namespace spate {

/// A set. kOnGroups, in a capability: the file's data are on groups of targets, and requests must name these.
enum class Rights : std::uint8_t { kNone = 0, kRead = 1, kWrite = 2, kReadWrite = 3, kOnGroups = 4 };
constexpr bool allows(Rights have, Rights want) {
  return (static_cast<unsigned>(have) & static_cast<unsigned>(want)) == static_cast<unsigned>(want);
}

constexpr Rights operator|(Rights a, Rights b) {
  return static_cast<Rights>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}

/// The right to read or write one file's datafiles, handed out by open. Unforgeable: the MAC is under a key that only
/// servers have.
struct Capability {
  Handle handle;
  Rights rights = Rights::kNone;
  std::uint32_t layout_generation = 1;
  ClientId client;
  std::uint32_t session_epoch = 0;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::uint32_t project = 0;
  WallTime expiry;  // file-system time
  Mac mac{};
  friend bool operator==(const Capability&, const Capability&) = default;
};

/// Proves to io servers that the meta server has granted this session.
struct SessionTicket {
  ClientId client;
  std::uint32_t epoch = 0;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  WallTime expiry;
  Mac mac{};
  friend bool operator==(const SessionTicket&, const SessionTicket&) = default;
};

/// The keys of one role of a file system, while they are being changed (docs/operating.md, "New keys"). This side uses
/// one of them, and accepts the others from peers.
struct KeyRing {
  KeyRing() = default;
  KeyRing(const Key& only) : used(only) {}  // NOLINT(google-explicit-constructor): as a rule there is one
  Key used{};
  std::vector<Key> others;
};

/// The MAC of a genuine capability, over the file system's id and every other field.
Mac sign(const Key& server_key, FsId fs, const Capability& capability);
Mac sign(const Key& server_key, FsId fs, const SessionTicket& ticket);
/// Whether one of the keys has signed it.
bool verify(const KeyRing& server_keys, FsId fs, const Capability& capability);
bool verify(const KeyRing& server_keys, FsId fs, const SessionTicket& ticket);

}  // namespace spate
