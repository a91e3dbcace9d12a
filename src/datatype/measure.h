// SPDX-License-Identifier: Apache-2.0
// Questions about a whole description. Each is O(1) or O(levels) for contiguous and for most ordered ones, else at most
// a walk over blocks(), which request_bytes() bounds; a server asks only what a request of kMaxRequestBlocks can bear.
#pragma once

#include <cstdint>
#include <vector>

#include "datatype/slot_cursor.h"

namespace spate::datatype {

/// The slots that hold at least one byte of the description, ascending.
std::vector<std::uint32_t> slots_touched(const Description& description, const Distribution& distribution);

/// The length of the slot's stream, bytes.
std::uint64_t bytes_for_slot(const Description& description, const Distribution& distribution, std::uint32_t slot);

/// One past the highest byte of the file that the description names; 0 when it is empty. A write of it makes the file
/// at least that long.
std::uint64_t file_end(const Description& description);

/// How many bytes of the stream a read of a file of `logical_size` bytes yields (Distribution::logical_size makes that
/// from the datafiles' sizes). As preadv counts, piece by piece: the stream ends at the first byte at or beyond the end
/// of the file, also when later pieces lie before it. Bytes within that no datafile holds are holes and read as zeros.
std::uint64_t valid_bytes(const Description& description, std::uint64_t logical_size);

/// How long a prefix of the slot's stream a datafile of `datafile_size` bytes can fill: up to the last byte that it
/// has. A server need send no more; the rest is hole or beyond the end, which valid_bytes() tells the client.
std::uint64_t present_bytes(const Description& description, const Distribution& distribution, std::uint32_t slot,
                            std::uint64_t datafile_size);

/// kInvalidArgument when two pieces share a byte, or when that cannot be ruled out: an interleaved strided pattern of
/// more than kMaxListPieces blocks. A client asks before it writes.
Result<void> check_disjoint(const Description& description);

}  // namespace spate::datatype
