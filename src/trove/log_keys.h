// SPDX-License-Identifier: Apache-2.0
// The keys under which a member keeps its log, beside the records that the log is about (docs/disk-keyval.md).
#pragma once

#include <array>

#include "base/bytes.h"

namespace spate::trove {

/// First byte of each of these keys. All other keys of a replicated store are lower.
inline constexpr std::byte kGroupKeys{0xFF};

enum class GroupKey : char {
  kEntry = 'l',       // index, big-endian: an entry
  kPosition = 'p',    // LogPosition of the last entry that is applied, and the index of the first one that is kept
  kBoot = 'b',        // the boot of the machine in which the log's end was known last
  kEpoch = 'e',       // epoch of the last entries; the first entry of an epoch writes only this record
  kIncomplete = 'i',  // present while the store is being copied from another member
};

inline Bytes group_key(GroupKey key) { return {kGroupKeys, static_cast<std::byte>(key)}; }

inline Bytes entry_key(std::uint64_t index) {
  Bytes out = group_key(GroupKey::kEntry);
  for (int shift = 56; shift >= 0; shift -= 8) out.push_back(static_cast<std::byte>(index >> shift));
  return out;
}

}  // namespace spate::trove
