// SPDX-License-Identifier: Apache-2.0
// Text for people: rounded numbers with a unit (base/units.h writes them exactly), and words.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/printable.h"

namespace spate::tools {

/// "0 B", "999 B", "1.5 KiB", "12.3 MiB", "456 GiB": three digits, powers of 1024.
std::string human_size(std::uint64_t bytes);
/// "850 ns", "41.3 us", "2.07 ms", "1.50 s", "90.0 s": from nanoseconds.
std::string human_time(std::uint64_t ns);
/// "under a second", "42 s", "7 min 30 s", "3 h 5 min", "12 d 4 h": a duration, rounded down.
std::string human_span(std::uint64_t ms);

/// The candidate that was probably meant by `word`: the nearest by config::edit_distance(), within a third of its
/// letters and at most three mistakes. Empty if none is so near.
std::string nearest_word(std::string_view word, const std::vector<std::string>& candidates);

/// "1 object", "3 objects": a number with its noun.
std::string counted(std::uint64_t number, std::string_view noun);

/// The lines of `text`, without their ends.
std::vector<std::string> lines_of(std::string_view text);

/// A word of a proposed command line: in single quotes, if the shell would interpret it.
std::string shell_word(std::string_view word);

}  // namespace spate::tools
