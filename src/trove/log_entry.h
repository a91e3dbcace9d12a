// SPDX-License-Identifier: Apache-2.0
// LogEntry: one commit of a replicated store. Format: docs/disk-keyval.md, "Log of a group".
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

}  // namespace spate::trove
