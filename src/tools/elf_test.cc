// SPDX-License-Identifier: Apache-2.0
#include "tools/elf.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "base/expect.h"

namespace spate::tools {
namespace {

Bytes own_file() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const ByteView bytes = as_bytes(text);
  return {bytes.begin(), bytes.end()};
}

bool has(const std::vector<std::string>& list, std::string_view wanted) {
  return std::find(list.begin(), list.end(), wanted) != list.end();
}

TEST(Elf, ReadsThisProgram) {
  const auto binary = read_binary(own_file());
  ASSERT_OK(binary);
  EXPECT_TRUE(binary->dynamic);
  EXPECT_FALSE(binary->go);
  EXPECT_TRUE(has(binary->needed, "libc.so.6"));
  EXPECT_TRUE(has(binary->imports, "strlen") || has(binary->imports, "memcpy") || has(binary->imports, "malloc"));
}

TEST(Elf, OtherFilesAreRefused) {
  EXPECT_ERRC(read_binary({}), Errc::kInvalidArgument);
  Bytes file = own_file();
  file[0] = std::byte{0};
  EXPECT_ERRC(read_binary(file), Errc::kInvalidArgument);
  file = own_file();
  file[18] = std::byte{3};  // e_machine: i386
  EXPECT_ERRC(read_binary(file), Errc::kInvalidArgument);
}

TEST(Elf, ATruncatedFileIsReadWithinItsBounds) {
  const Bytes file = own_file();
  std::size_t refused = 0;
  for (std::size_t size = 0; size < 4096; size += 7) {
    const Bytes part(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
    refused += read_binary(part).has_value() ? 0U : 1U;
  }
  EXPECT_GT(refused, 500U);
}

TEST(Elf, ForeignNumbersInTheHeadersDoNoHarm) {
  const Bytes good = own_file();
  for (std::size_t place = 24; place < 64; ++place) {
    for (const unsigned value : {0U, 1U, 0x7fU, 0xffU}) {
      Bytes file(good.begin(),
                 good.begin() + std::min<std::ptrdiff_t>(65536, static_cast<std::ptrdiff_t>(good.size())));
      file[place] = static_cast<std::byte>(value);
      std::ignore = read_binary(file);  // it must not crash or loop for ever
    }
  }
}

/// Only a program header, and a text with one system call.
TEST(Elf, SystemCallsInTheTextAreCounted) {
  Bytes file = own_file();
  const auto before = read_binary(file);
  ASSERT_OK(before);
  const auto number = [&](std::size_t at, unsigned size) {
    std::uint64_t value = 0;
    for (unsigned i = 0; i < size; ++i) value |= std::to_integer<std::uint64_t>(file[at + i]) << (8 * i);
    return value;
  };
  const std::uint64_t headers = number(32, 8);
  for (std::uint64_t i = 0; i < number(56, 2); ++i) {
    const std::uint64_t header = headers + i * 56;
    if (number(header, 4) != 1 || (number(header + 4, 4) & 1) == 0) continue;  // PT_LOAD, PF_X
    const std::uint64_t text = number(header + 8, 8);
    // write(2), and brk(2), which does not concern files.
    const unsigned code[] = {0x90, 0xb8, 0x01, 0, 0, 0, 0x0f, 0x05, 0x90, 0xb8, 0x0c, 0, 0, 0, 0x0f, 0x05};
    for (std::size_t j = 0; j < std::size(code); ++j) file[text + 64 + j] = static_cast<std::byte>(code[j]);
  }
  EXPECT_EQ(read_binary(file)->own_calls, before->own_calls + 1);
}

}  // namespace
}  // namespace spate::tools
