// SPDX-License-Identifier: Apache-2.0
// Layout: the shape of a file, written into its inode at creation (docs/architecture.md, "The shape of a file").
#pragma once

#include <cstdint>
#include <vector>

#include "base/codec.h"
#include "base/result.h"
#include "model/ids.h"

namespace spate {

/// Values are stored and sent; append only.
enum class DistributionKind : std::uint8_t { kSimpleStripe = 1 };
enum class Redundancy : std::uint8_t { kNone = 0 };

constexpr std::uint64_t kMinStripBytes = 4096;
constexpr std::uint64_t kMaxStripBytes = 1ULL << 32U;
constexpr std::size_t kMaxSlots = 4096;
constexpr std::size_t kMaxReplicas = 8;
/// No file is longer than this: offsets fit a signed 64-bit number with room to add sizes.
constexpr std::uint64_t kMaxFileBytes = (1ULL << 62U);

/// An ordered list of targets that hold the same datafile; one today, replicas later.
struct Slot {
  std::vector<TargetId> targets;
  friend bool operator==(const Slot&, const Slot&) = default;
};

/// It replaces PVFS's parameters (PVFS sec. 3.2): the ordered slots stand for base and pcount, strip_bytes for ssize.
struct Layout {
  std::uint32_t generation = 1;  // changes when slots move; a request with another one is refused with kStaleLayout
  DistributionKind distribution = DistributionKind::kSimpleStripe;
  Redundancy redundancy = Redundancy::kNone;
  std::uint64_t strip_bytes = 1ULL << 20U;  // kMinStripBytes..kMaxStripBytes, any value (not only powers of two)
  std::vector<Slot> slots;                  // 1..kMaxSlots
  friend bool operator==(const Layout&, const Layout&) = default;
};

/// docs/wire.md, "Layout".
void encode(Encoder& out, const Layout& layout);
/// Fails the decoder on anything out of range.
Layout decode_layout(Decoder& in);

}  // namespace spate
