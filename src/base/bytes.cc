// SPDX-License-Identifier: Apache-2.0
#include "base/bytes.h"

#include <cstddef>
#include <cstdlib>

#include "base/check.h"

namespace spate {

Buffer::Buffer(std::size_t size, std::size_t alignment) : size_(size) {
  if (size == 0) return;
  const std::size_t rounded = (size + alignment - 1) / alignment * alignment;
  // malloc gives a thread its small blocks back at once. aligned_alloc does not, in glibc 2.36.
  const bool any = alignment <= alignof(std::max_align_t);
  data_ = static_cast<std::byte*>(any ? std::malloc(rounded) : std::aligned_alloc(alignment, rounded));
  SPATE_CHECK(data_ != nullptr);
}

Buffer Buffer::copy_of(ByteView bytes) {
  Buffer buffer(bytes.size());
  if (!bytes.empty()) std::memcpy(buffer.data(), bytes.data(), bytes.size());
  return buffer;
}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    std::free(data_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

Buffer::~Buffer() { std::free(data_); }

void Buffer::shrink(std::size_t size) {
  SPATE_CHECK(size <= size_);
  size_ = size;
}

}  // namespace spate
