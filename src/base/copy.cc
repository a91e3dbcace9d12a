// SPDX-License-Identifier: Apache-2.0
#include "base/copy.h"

#include <array>
#include <cstring>

namespace spate {
namespace {

/// memcpy uses no `rep movsb` for copies of fewer bytes.
constexpr std::size_t kSmall = 2048;
using Line = std::array<std::byte, 64>;

/// Copies `lines` cache lines by ordinary loads and stores.
void copy_lines(std::byte* to, const std::byte* from, std::size_t lines) {
  for (; lines > 0; --lines) {
    Line line;
    std::memcpy(&line, from, sizeof line);
    std::memcpy(to, &line, sizeof line);
    asm volatile("" ::: "memory");  // keeps the compiler from making a memcpy of this loop
    to += sizeof line;
    from += sizeof line;
  }
}

}  // namespace

void copy_memory(std::byte* to, const std::byte* from, std::size_t size) {
  const bool slow = copies_slowly(reinterpret_cast<std::uintptr_t>(to), reinterpret_cast<std::uintptr_t>(from));
  if (slow && size >= kSmall) {
    const std::size_t lines = size / sizeof(Line);
    copy_lines(to, from, lines);
    to += lines * sizeof(Line);
    from += lines * sizeof(Line);
    size -= lines * sizeof(Line);
  }
  if (size > 0) std::memcpy(to, from, size);  // an empty view may have a null address
}

}  // namespace spate
