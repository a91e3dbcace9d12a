// SPDX-License-Identifier: Apache-2.0
// Fuzzer: foreign input of the command: lists of checksums, programs to examine, names to print, join tokens. The
// first byte chooses.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "tools/elf.h"
#include "tools/join_token.h"
#include "tools/sum_list.h"
#include "tools/text.h"

namespace spate::tools {
namespace {

/// A line that was parsed is printed as a line with the same meaning.
void check_sums(std::string_view text) {
  const SumList list = parse_sums(text);
  SPATE_CHECK(list.lines.size() + list.malformed <= text.size() + 1);
  for (const SumLine& line : list.lines) {
    std::string again = format_sum(line);
    SPATE_CHECK(again.ends_with('\n'));
    again.pop_back();
    const auto read = parse_sum(again);
    SPATE_CHECK(read && read->kind == line.kind && read->hex == line.hex && read->name == line.name);
  }
}

void check_program(ByteView file) {
  const auto binary = read_binary(file);
  if (!binary) {
    SPATE_CHECK(binary.code() == Errc::kInvalidArgument);
    return;
  }
  for (const auto* list : {&binary->needed, &binary->run_paths, &binary->imports}) {
    SPATE_CHECK(list->size() <= 1'000'000);
    for (const std::string& name : *list) SPATE_CHECK(name.size() <= 4096);
  }
  SPATE_CHECK(binary->own_calls <= file.size());
}

unsigned digit(char c) { return static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10); }

/// A printed name has no control sequences, and the original can be restored from it.
void check_name(std::string_view name) {
  const std::string shown = printable(name);
  std::string back;
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const auto byte = static_cast<unsigned char>(shown[i]);
    SPATE_CHECK(byte >= 0x20 && byte != 0x7F);
    if (shown[i] != '\\') {
      back += shown[i];
      continue;
    }
    SPATE_CHECK(i + 3 < shown.size() && shown[i + 1] == 'x');
    back += static_cast<char>(digit(shown[i + 2]) << 4U | digit(shown[i + 3]));
    i += 3;
  }
  SPATE_CHECK(back == name);
}

/// A token has one text.
void check_token(std::string_view text) {
  const auto token = parse_join_token(text);
  if (token) SPATE_CHECK(to_text(*token) == text);
}

}  // namespace
}  // namespace spate::tools

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace spate::tools;
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0: check_sums(text); break;
    case 1: check_program(spate::as_bytes(text)); break;
    case 2: check_name(text); break;
    default: check_token(text); break;
  }
  return 0;
}
