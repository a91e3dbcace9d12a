// SPDX-License-Identifier: Apache-2.0
#include "base/bytes.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "base/check.h"

namespace spate {
namespace {

/// Room before the data for the distance to the begin of the block.
constexpr std::size_t kBeforeData = alignof(std::max_align_t);

}  // namespace

Buffer::Buffer(std::size_t size, std::size_t alignment) : size_(size) {
  if (size == 0) return;
  // aligned_alloc of glibc 2.36 cuts its blocks out of larger ones. The rests that it leaves are used for small
  // objects, which live for long and keep the place from being used again.
  const std::size_t begin = std::max(alignment, kBeforeData);
  auto* const block = static_cast<std::byte*>(std::malloc(begin + size));
  SPATE_CHECK(block != nullptr);
  const std::uintptr_t address = (reinterpret_cast<std::uintptr_t>(block) + begin) & ~(alignment - 1);
  data_ = block + (address - reinterpret_cast<std::uintptr_t>(block));
  const auto before = static_cast<std::size_t>(data_ - block);
  std::memcpy(data_ - sizeof before, &before, sizeof before);
}

void Buffer::free_block() {
  if (data_ == nullptr) return;
  std::size_t before = 0;
  std::memcpy(&before, data_ - sizeof before, sizeof before);
  std::free(data_ - before);
}

Buffer Buffer::copy_of(ByteView bytes) {
  Buffer buffer(bytes.size());
  if (!bytes.empty()) std::memcpy(buffer.data(), bytes.data(), bytes.size());
  return buffer;
}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    free_block();
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

Buffer::~Buffer() { free_block(); }

void Buffer::shrink(std::size_t size) {
  SPATE_CHECK(size <= size_);
  size_ = size;
}

}  // namespace spate
