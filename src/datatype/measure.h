// SPDX-License-Identifier: Apache-2.0
// Questions about a whole description. Each is O(1) or O(levels) for contiguous and for most ordered descriptions.
// Otherwise it visits at most blocks() blocks, which request_bytes() bounds. A server asks only questions that are
// cheap enough for a request of kMaxRequestBlocks.
#pragma once

#include <cstdint>
#include <vector>

#include "datatype/slot_cursor.h"

namespace spate::datatype {

/// The most blocks, counted once for each slot, that a server examines for data that comes in a request or goes into
/// its reply. Nothing else bounds these blocks: all of them may lie in slots that the request does not name.
constexpr std::uint64_t kMaxInlineBlocks = 1ULL << 20U;
/// Whether the data of `slots` slots may come in the request or go into the reply, as far as the description is
/// concerned. Client and server must agree.
inline bool may_be_inline(const Description& description, std::size_t slots) {
  return description.blocks() <= kMaxInlineBlocks / slots;
}

/// The slots that hold at least one byte of the description, ascending.
std::vector<std::uint32_t> slots_touched(const Description& description, const Distribution& distribution);

/// The length of the slot's stream, bytes.
std::uint64_t bytes_for_slot(const Description& description, const Distribution& distribution, std::uint32_t slot);

/// One past the highest byte of the file that the description names; 0 if it is empty. After a write of the
/// description, the file has at least this size.
std::uint64_t file_end(const Description& description);

/// How many bytes of the stream a read of a file of `logical_size` bytes yields (Distribution::logical_size computes
/// that size from those of the datafiles). It counts as preadv does, piece by piece: the stream ends at the first byte
/// at or beyond the end of the file, even if later pieces lie before it. Bytes within the stream that no datafile has
/// are holes and read as zeros.
std::uint64_t valid_bytes(const Description& description, std::uint64_t logical_size);

/// The length of the prefix of the slot's stream that a datafile of `datafile_size` bytes can fill, up to its last
/// byte. A server need not send more. The rest is a hole or lies beyond the end of the file; valid_bytes() tells the
/// client which.
std::uint64_t present_bytes(const Description& description, const Distribution& distribution, std::uint32_t slot,
                            std::uint64_t datafile_size);

/// Fails with kInvalidArgument if two pieces share a byte. It may also fail, without such pieces, for an interleaved
/// strided pattern of more than kMaxListPieces blocks. A client calls it before it writes.
Result<void> check_disjoint(const Description& description);

}  // namespace spate::datatype
