// SPDX-License-Identifier: Apache-2.0
// Layout: the shape of a file, written into its inode at creation (docs/architecture.md, "The shape of a file").
#pragma once

#include <cstdint>
#include <vector>

#include "base/codec.h"
#include "base/result.h"
#include "model/ids.h"

namespace spate {

/// kMirror: each slot names one group of targets (model/data_group.h), whose members keep the same datafile.
enum class Redundancy : std::uint8_t { kNone = 0, kMirror = 1 };

constexpr std::uint64_t kMinStripBytes = 4096;
constexpr std::uint64_t kMaxStripBytes = 1ULL << 32U;
constexpr std::size_t kMaxSlots = 4096;
constexpr std::size_t kMaxReplicas = 8;
/// No file is longer than this: offsets fit a signed 64-bit number with room to add sizes.
constexpr std::uint64_t kMaxFileBytes = (1ULL << 62U);

/// The longest parameters of a distribution, bytes: each inode keeps them, and each request for data carries them.
constexpr std::size_t kMaxDistributionBytes = 4096;

/// The kind of a distribution (dist/registry.h), and its parameters. Only that distribution interprets the parameters.
/// Their first byte is the version of their format.
struct DistributionSpec {
  static constexpr std::uint8_t kSimpleStripe = 1;
  std::uint8_t kind = kSimpleStripe;  // numbers are stored and sent, so they never change
  Bytes parameters;                   // 0..kMaxDistributionBytes; a simple stripe has none
  friend bool operator==(const DistributionSpec&, const DistributionSpec&) = default;
};

/// The target that holds the datafile. With Redundancy::kMirror it is the number of a group.
struct Slot {
  std::vector<TargetId> targets;
  friend bool operator==(const Slot&, const Slot&) = default;
};

/// A file's layout. It replaces PVFS's parameters (PVFS sec. 3.2): the ordered slots stand for base and pcount,
/// strip_bytes for ssize.
struct Layout {
  std::uint32_t generation = 1;  // changes when slots move; a request with an older one is refused with kStaleLayout
  DistributionSpec distribution;
  Redundancy redundancy = Redundancy::kNone;
  /// kMinStripBytes..kMaxStripBytes, any value (not only powers of two). A distribution with strips of other sizes
  /// ignores it when it places bytes; clients still prefer requests of this size.
  std::uint64_t strip_bytes = 1ULL << 20U;
  std::vector<Slot> slots;  // 1..kMaxSlots
  friend bool operator==(const Layout&, const Layout&) = default;
};

/// docs/wire.md, "Layout". Decoding fails the decoder on any value out of range. It accepts kinds that this build does
/// not know; make_distribution() refuses those with a message.
void encode(Encoder& out, const DistributionSpec& spec);
DistributionSpec decode_distribution(Decoder& in);
void encode(Encoder& out, const Layout& layout);
Layout decode_layout(Decoder& in);

}  // namespace spate
