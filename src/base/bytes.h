// SPDX-License-Identifier: Apache-2.0
// Views of bytes (borrowed) and Buffer (owned, aligned).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace spate {

using ByteView = std::span<const std::byte>;
using MutableByteView = std::span<std::byte>;
using Bytes = std::vector<std::byte>;

inline ByteView as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
inline std::string_view as_text(ByteView bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
inline Bytes to_bytes(ByteView view) { return {view.begin(), view.end()}; }

/// An owned run of bytes at an aligned address; contents are undefined after construction. Move-only value.
class Buffer {
 public:
  static constexpr std::size_t kPageAlignment = 4096;

  Buffer() = default;
  /// `size` bytes at a multiple of `alignment` (a power of two >= 8). Ends the process when memory is exhausted,
  /// as operator new does: sizes from outside are checked before they come here.
  explicit Buffer(std::size_t size, std::size_t alignment = 64);
  static Buffer copy_of(ByteView bytes);
  Buffer(Buffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  /// Makes the buffer appear shorter; the memory stays. `size` <= size().
  void shrink(std::size_t size);

  MutableByteView view() { return {data_, size_}; }
  ByteView view() const { return {data_, size_}; }

 private:
  void free_block();

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace spate
