// SPDX-License-Identifier: Apache-2.0
#include "tests/golden/hex_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <sstream>

namespace spate::golden {
namespace {

constexpr std::size_t kPerLine = 16;

std::string readable(ByteView bytes) {
  std::string text;
  for (const std::byte b : bytes) {
    const char c = static_cast<char>(b);
    text += c >= 0x20 && c < 0x7f ? c : '.';
  }
  return text;
}

std::string hex_line(ByteView bytes) {
  std::string line;
  for (const std::byte b : bytes) line += fmt::format("{:02x} ", std::to_integer<unsigned>(b));
  return fmt::format("{:<48} # {}\n", line, readable(bytes));
}

/// Appends the bytes of one word. False: the word is malformed.
bool append(std::string_view word, Bytes& out) {
  constexpr std::size_t kMaxZeros = 1U << 20U;
  if (word.starts_with("00x")) {
    std::size_t zeros = 0;
    const auto [end, error] = std::from_chars(word.data() + 3, word.data() + word.size(), zeros);
    if (error != std::errc() || end != word.data() + word.size() || zeros > kMaxZeros) return false;
    out.resize(out.size() + zeros);
    return true;
  }
  unsigned value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value, 16);
  if (word.size() != 2 || error != std::errc() || end != word.data() + word.size()) return false;
  out.push_back(static_cast<std::byte>(value));
  return true;
}

}  // namespace

std::string to_hex(std::string_view comment, ByteView bytes) {
  std::string text = fmt::format("# {}\n", comment);
  while (!bytes.empty()) {
    const auto zeros = static_cast<std::size_t>(
        std::ranges::find_if(bytes, [](std::byte b) { return b != std::byte{0}; }) - bytes.begin());
    if (zeros >= 4 * kPerLine) {
      text += fmt::format("00x{}\n", zeros);
      bytes = bytes.subspan(zeros);
      continue;
    }
    const std::size_t take = std::min(kPerLine, bytes.size());
    text += hex_line(bytes.first(take));
    bytes = bytes.subspan(take);
  }
  return text;
}

Result<Bytes> from_hex(std::string_view text) {
  Bytes out;
  std::istringstream lines{std::string(text)};
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    for (std::string word; words >> word;) {
      if (!append(word, out)) return Error(Errc::kCorrupt, fmt::format("line {}: \"{}\" is no byte", number, word));
    }
  }
  return out;
}

Result<std::string> read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return Error(Errc::kNotFound, path);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

}  // namespace spate::golden
