// SPDX-License-Identifier: Apache-2.0
// Small functions on runs of extents.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/extent.h"

namespace spate::flow {

/// The most extents in one storage operation or message batch. Bounds the memory of a request with many small pieces.
constexpr std::size_t kMaxPieces = 1024;

/// How many bytes of the extents, taken in order, lie before the first byte at or beyond `file_size`.
std::uint64_t bytes_before_end(std::span<const Extent> extents, std::uint64_t file_size);
/// Keeps the first `bytes` of the run, or drops them.
void keep_first(std::vector<Extent>& extents, std::uint64_t bytes);
void drop_first(std::vector<Extent>& extents, std::uint64_t bytes);

}  // namespace spate::flow
