// SPDX-License-Identifier: Apache-2.0
// MemoryMap: the memory side of a request, a list of user buffers seen as one stream.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"

namespace spate::datatype {

/// Maps ranges of the stream to ranges of buffers: byte i of the stream is byte i of the buffers laid end to end.
/// Copies the views, but not the memory, which outlives the map. Immutable; any thread may use it. View:
/// MutableByteView (reads) or ByteView (writes).
template <typename View>
class BasicMemoryMap {
 public:
  /// Empty buffers are allowed.
  explicit BasicMemoryMap(std::span<const View> buffers);

  std::uint64_t total_bytes() const { return total_; }
  /// Appends the memory of stream bytes [stream, stream + size), which must lie within total_bytes(). Merges it with
  /// the last element of `out` if both are neighbours in memory and in one buffer. O(log buffers + appended).
  void append(std::uint64_t stream, std::uint64_t size, std::vector<View>& out) const;

 private:
  std::vector<View> buffers_;          // none empty
  std::vector<std::uint64_t> starts_;  // starts_[i]: stream offset of buffers_[i]
  std::uint64_t total_ = 0;
};

using MemoryMap = BasicMemoryMap<MutableByteView>;
using ConstMemoryMap = BasicMemoryMap<ByteView>;

extern template class BasicMemoryMap<MutableByteView>;
extern template class BasicMemoryMap<ByteView>;

/// Sets stream bytes [stream, stream + size) to zero: holes, and bytes that a datafile was too short to send.
void fill_zeros(const MemoryMap& memory, std::uint64_t stream, std::uint64_t size);

}  // namespace spate::datatype
