// SPDX-License-Identifier: Apache-2.0
// Requests to an io server about data and holes (docs/wire.md, "Data"): finding them, and copying both on the server.
#pragma once

#include "wire/io_messages.h"

namespace spate::wire {

/// A range of a datafile, bytes.
struct DataRange {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  template <typename A>
  void fields(A& a) {
    a(offset, size);
  }
};

/// The data of one datafile.
struct SlotRanges {
  std::vector<DataRange> ranges;  // ascending, at or after the requested offset
  std::uint64_t complete_to = 0;  // everything else before this offset is a hole; 2^63 - 1: the rest, too
  template <typename A>
  void fields(A& a) {
    a(ranges, complete_to);
  }
};

/// The most ranges of one slot in a reply.
constexpr std::uint32_t kMaxRangesPerSlot = 256;
/// The most ranges of all slots of a reply together.
constexpr std::uint32_t kMaxRanges = 4096;

struct DatafileRangesRequest {
  static constexpr Op kOp = Op::kDatafileRanges;
  static constexpr std::string_view kName = "datafile ranges request";
  Handle handle;
  std::vector<SlotRef> slots;
  std::vector<std::uint64_t> offsets;  // physical, one for each slot: where to begin
  std::uint32_t max_ranges = 0;        // of each slot, 1..kMaxRangesPerSlot
  template <typename A>
  void fields(A& a) {
    a(handle, slots, offsets, max_ranges);
  }
};
struct DatafileRangesReply {
  static constexpr std::string_view kName = "datafile ranges reply";
  std::vector<DatafileState> datafiles;  // one for each slot, in their order
  std::vector<SlotRanges> ranges;        // likewise
  template <typename A>
  void fields(A& a) {
    a(datafiles, ranges);
  }
};

/// A range of one datafile that becomes a range of another one, both on `target`, bytes.
struct CopyPiece {
  TargetId target;
  std::uint32_t from_slot = 0;
  std::uint32_t to_slot = 0;
  std::uint64_t from_offset = 0;
  std::uint64_t to_offset = 0;
  std::uint64_t size = 0;
  template <typename A>
  void fields(A& a) {
    a(target, from_slot, to_slot, from_offset, to_offset, size);
  }
};

/// Copies the pieces of `from` to the pieces of `to`. Holes stay holes, and the part beyond a source's end becomes a
/// hole. The header's capability is for `to`, `from_capability` for `from`.
struct DatafileCopyRequest {
  static constexpr Op kOp = Op::kDatafileCopy;
  static constexpr std::string_view kName = "datafile copy request";
  Handle from;
  Handle to;
  std::vector<CopyPiece> pieces;  // ascending by to_slot; each slot once
  Capability from_capability;
  WallTime fs_time;  // the new mtime
  template <typename A>
  void fields(A& a) {
    a(from, to, pieces, from_capability, fs_time);
  }
};
struct DatafileCopyReply {
  static constexpr std::string_view kName = "datafile copy reply";
  std::vector<DatafileState> datafiles;  // of `to`, one for each piece, in their order
  template <typename A>
  void fields(A& a) {
    a(datafiles);
  }
};

}  // namespace spate::wire
