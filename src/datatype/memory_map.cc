// SPDX-License-Identifier: Apache-2.0
#include "datatype/memory_map.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace spate::datatype {

template <typename View>
BasicMemoryMap<View>::BasicMemoryMap(std::span<const View> buffers) {
  for (const View& buffer : buffers) {
    if (buffer.empty()) continue;
    buffers_.push_back(buffer);
    starts_.push_back(total_);
    total_ += buffer.size();
  }
}

template <typename View>
void BasicMemoryMap<View>::append(std::uint64_t stream, std::uint64_t size, std::vector<View>& out) const {
  SPATE_CHECK(stream <= total_ && size <= total_ - stream);
  if (size == 0) return;
  auto i = static_cast<std::size_t>(std::upper_bound(starts_.begin(), starts_.end(), stream) - starts_.begin()) - 1;
  std::uint64_t skip = stream - starts_[i];
  for (; size > 0; ++i, skip = 0) {
    const View part = buffers_[i].subspan(skip, std::min<std::uint64_t>(size, buffers_[i].size() - skip));
    if (skip > 0 && !out.empty() && out.back().data() + out.back().size() == part.data()) {
      out.back() = View(out.back().data(), out.back().size() + part.size());
    } else {
      out.push_back(part);
    }
    size -= part.size();
  }
}

template class BasicMemoryMap<MutableByteView>;
template class BasicMemoryMap<ByteView>;

void fill_zeros(const MemoryMap& memory, std::uint64_t stream, std::uint64_t size) {
  std::vector<MutableByteView> parts;
  memory.append(stream, size, parts);
  for (const MutableByteView part : parts) std::memset(part.data(), 0, part.size());
}

}  // namespace spate::datatype
