// SPDX-License-Identifier: Apache-2.0
// Small functions on runs of extents.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "datatype/description.h"
#include "dist/distribution.h"
#include "model/extent.h"

namespace spate::flow {

/// Extents in one storage operation or message batch: bounds the memory of a request of many small pieces.
constexpr std::size_t kMaxPieces = 1024;

/// How many bytes of the extents, taken in order, lie before the first byte at or beyond `file_size`.
std::uint64_t bytes_before_end(std::span<const Extent> extents, std::uint64_t file_size);
/// Keeps the first `bytes` of the run, or drops them.
void keep_first(std::vector<Extent>& extents, std::uint64_t bytes);
void drop_first(std::vector<Extent>& extents, std::uint64_t bytes);

/// The length of the slot's stream in bytes if that is at most `limit`, else limit + 1. Walks no further than it must.
/// It walks at most one batch of a pathological description (SlotCursor::kMaxStepsPerBatch), and then returns limit +
/// 1.
std::uint64_t stream_bytes_up_to(const datatype::Description& what, const Distribution& distribution,
                                 std::uint32_t slot, std::uint64_t limit);

}  // namespace spate::flow
