// SPDX-License-Identifier: Apache-2.0
// Names and messages of any bytes, as a terminal may see them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace spate {

/// Bytes of the character that `text` (not empty) begins with; 0 when its first byte must not reach a terminal as it
/// is. That is so for what is not UTF-8, for control characters (C0, DEL and C1, with which some terminals begin a
/// sequence), and for those that turn or break the line that they stand in.
std::size_t printable_size(std::string_view text);

/// `text` with each byte that printable_size() refuses as \xNN (two digits, lower case), but for those in `kept`.
std::string escape_controls(std::string_view text, std::string_view kept = {});

/// A name as a terminal, a pipe and JSON may see it: as escape_controls(), with backslashes escaped too. Thus replacing
/// each \xNN gives the name back.
std::string printable(std::string_view name);
/// A message that may hold such names, for a terminal: each of its lines as printable() shows it.
std::string printable_lines(std::string_view message);

}  // namespace spate
