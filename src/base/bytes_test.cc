// SPDX-License-Identifier: Apache-2.0
#include "base/bytes.h"

#include <cstdint>
#include <cstring>

#include "base/expect.h"

namespace spate {
namespace {

TEST(Buffer, BeginsAtAMultipleOfTheAlignment) {
  for (const std::size_t alignment : {8U, 16U, 64U, 4096U, 65536U}) {
    for (const std::size_t size : {1U, 8U, 63U, 4096U, 100001U}) {
      Buffer buffer(size, alignment);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % alignment, 0U) << size << " bytes at " << alignment;
      EXPECT_EQ(buffer.size(), size);
      std::memset(buffer.data(), 1, size);
    }
  }
}

TEST(Buffer, KeepsItsMemoryWhenItIsMovedOrShrunk) {
  Buffer buffer = Buffer::copy_of(as_bytes("contents"));
  Buffer other(100);
  other = std::move(buffer);
  other.shrink(4);
  const Buffer last(std::move(other));
  EXPECT_EQ(as_text(last.view()), "cont");
}

}  // namespace
}  // namespace spate
