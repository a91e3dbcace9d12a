// SPDX-License-Identifier: Apache-2.0
// Progress: the progress of a copy, and the line that shows it on a terminal.
#pragma once

#include <cstdint>
#include <string>

namespace spate::tools {

/// How much a copy has moved so far, and the total as far as it is known.
struct Progress {
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
  std::uint64_t total_files = 0;
  std::uint64_t total_bytes = 0;  // without holes
  bool counted = false;           // the totals are complete
};

/// "[######      ] 54%  1.20/2.20 GiB  812 MiB/s  1 s left" after `seconds`. Leaves out what is not known.
std::string progress_line(const Progress& progress, double seconds);
/// "120 files, 2.20 GiB in 2.71 s, 831 MiB/s"
std::string progress_sum(const Progress& progress, double seconds);

}  // namespace spate::tools
