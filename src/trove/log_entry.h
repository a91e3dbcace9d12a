// SPDX-License-Identifier: Apache-2.0
// LogEntry: one commit of a replicated store, and the keys of its log. Format: docs/disk-keyval.md, "Log of a group".
#pragma once

#include <compare>
#include <cstdint>

#include "base/bytes.h"
#include "base/result.h"
#include "trove/write_set.h"

namespace spate::trove {

/// The position of an entry. Logs are compared by the position of their last entry, never by length: the later epoch
/// wins.
struct LogPosition {
  std::uint64_t epoch = 0;
  std::uint64_t index = 0;  // from 1; 0: before the first entry
  friend constexpr auto operator<=>(const LogPosition&, const LogPosition&) = default;
};

struct LogEntry {
  LogPosition at;
  Batch writes;
};

Bytes encode_entry(LogPosition at, const WriteSet& writes);
/// kCorrupt for anything that is not exactly one entry with a good checksum.
Result<LogEntry> decode_entry(ByteView bytes);
/// The position of an entry that decode_entry() has accepted.
LogPosition position_of_entry(ByteView bytes);

/// First byte of the keys under which a member keeps its log, beside the records that the log is about. All other keys
/// of a replicated store are lower.
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
