// SPDX-License-Identifier: Apache-2.0
// Lists of checksums: "HEX  NAME" lines in the form of sha256sum and xxh128sum. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest.h"

namespace spate::tools {

struct SumLine {
  DigestKind kind = DigestKind::kSha256;
  std::string hex;   // lower case
  std::string name;  // bytes, as on disk
};

/// The line with its end. A name with a line break or a backslash is escaped; then the line begins with a backslash.
std::string format_sum(const SumLine& line);

/// Parses a line. Yields nothing for a malformed one. `text` is without its end; " *NAME" (binary mode) is read too.
/// The number of digits gives the kind.
std::optional<SumLine> parse_sum(std::string_view text);

struct SumList {
  std::vector<SumLine> lines;
  std::size_t malformed = 0;  // malformed lines; empty ones and those beginning with '#' do not count
};
SumList parse_sums(std::string_view text);

}  // namespace spate::tools
