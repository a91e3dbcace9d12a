// SPDX-License-Identifier: Apache-2.0
// The identifiers of a file system (docs/glossary.md).
#pragma once

#include <compare>
#include <cstdint>

#include "base/strong_id.h"

namespace spate {

/// An object of the name space. No handle is used twice in a file system. The upper 16 bits name the metadata shard.
using Handle = StrongId<struct HandleTag>;
/// Random id of a file system. Servers and clients of different file systems refuse each other.
using FsId = StrongId<struct FsIdTag>;
using ServerId = StrongId<struct ServerIdTag, std::uint32_t>;  // 1, 2, ... as in spate.toml; 0 = none
/// One storage device of one server; unique in the file system.
using TargetId = StrongId<struct TargetIdTag, std::uint32_t>;
/// A client's session. The meta server assigns it; it is never reused.
using ClientId = StrongId<struct ClientIdTag>;
/// Changes when a server restarts in a way that may lose unsynced writes, so that clients notice.
using Incarnation = StrongId<struct IncarnationTag>;
/// Follows one request over every hop, in logs.
using TraceId = StrongId<struct TraceIdTag>;

constexpr Handle kRootHandle{1};

/// A handle: shard (16 bits), place (7), number (41). The number alone is never used twice. The place
/// determines where in the store of the meta server the inode lies: in a large directory it follows the hash of the
/// name, else it is 0.
constexpr unsigned kPlaceBits = 7;
constexpr unsigned kPlaceShift = 41;
constexpr std::uint64_t number_of(Handle handle) { return handle.value & ((1ULL << kPlaceShift) - 1); }
constexpr std::uint16_t shard_of(Handle handle) { return static_cast<std::uint16_t>(handle.value >> 48U); }

/// A datafile: one slot's share of a file, a bytestream on one target.
struct DatafileId {
  Handle handle;
  std::uint32_t slot = 0;
  friend constexpr auto operator<=>(const DatafileId&, const DatafileId&) = default;
};

}  // namespace spate

template <>
struct std::hash<spate::DatafileId> {
  std::size_t operator()(const spate::DatafileId& id) const noexcept {
    return std::hash<spate::Handle>()(spate::Handle(id.handle.value * 31 + id.slot));
  }
};
