// SPDX-License-Identifier: Apache-2.0
// Extent: a run of bytes.
#pragma once

#include <cstdint>

namespace spate {

/// A range of a file (logical offset) or of a datafile (physical offset), bytes; the place of use says which.
/// offset + size <= 2^63 - 1.
struct Extent {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  friend bool operator==(const Extent&, const Extent&) = default;
};

}  // namespace spate
