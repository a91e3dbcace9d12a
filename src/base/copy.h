// SPDX-License-Identifier: Apache-2.0
// Copies that do not fall into a trap of processors that copy by `rep movsb` (as the kernel and memcpy do where the
// processor calls that fast): if the destination begins 1 to 63 bytes behind the source, both taken modulo a page, each
// load seems to want what was just stored. Such a copy takes 5 to 10 times as long (AMD Zen 3: 0.37 instead of 0.04
// s/GiB, for distances of up to 31 bytes). It is no rare case: large memory of malloc begins 16 bytes into a page, and
// what lies in files and in the page cache begins where pages do.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"

namespace spate {

/// Whether a copy between these two addresses is slow. `from` and `to` may also be offsets in a file, since its pages
/// begin where memory pages do.
constexpr bool copies_slowly(std::uintptr_t to, std::uintptr_t from) {
  constexpr std::uintptr_t kPage = 4096;
  constexpr std::uintptr_t kTooClose = 64;
  const std::uintptr_t behind = (to - from) % kPage;
  return behind != 0 && behind < kTooClose;
}

/// As memcpy, at the speed of other distances.
void copy_memory(std::byte* to, const std::byte* from, std::size_t size);

}  // namespace spate
