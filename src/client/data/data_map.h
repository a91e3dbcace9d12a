// SPDX-License-Identifier: Apache-2.0
// DataMap: the data and holes of a file, combined from the answers of its datafiles.
#pragma once

#include <vector>

#include "client/data/share.h"
#include "client/session/limits.h"
#include "wire/copy_messages.h"

namespace spate::client {

/// The combined answer of all io servers of a file, from the requested offset on. Offsets are logical, in bytes. A
/// value; refers to the distribution, which must outlive it.
class DataMap {
 public:
  /// `slots[slot_count]` and `sizes[slot_count]`: the ranges and the size of each datafile.
  DataMap(const Distribution& distribution, std::vector<wire::SlotRanges> slots, std::span<const std::uint64_t> sizes);

  std::uint64_t file_size() const { return file_size_; }
  /// Offset below which the answers are valid. It is at least file_size() when the whole file is known.
  std::uint64_t known_to() const { return known_to_; }
  /// The first byte of data at or after `from`; file_size() when there is none.
  std::uint64_t next_data(std::uint64_t from) const;
  /// The first byte of a hole at or after `from`; the end of the file counts as one.
  std::uint64_t next_hole(std::uint64_t from) const;

 private:
  const Distribution* distribution_;
  std::vector<wire::SlotRanges> slots_;
  std::uint64_t file_size_ = 0;
  std::uint64_t known_to_ = 0;
};

/// Asks all servers of the file at the same time. The target's capability may be for any right.
job::Task<Result<DataMap>> ask_data(TransferTarget target, std::uint64_t from, std::uint32_t max_ranges, Limits limits);

}  // namespace spate::client
