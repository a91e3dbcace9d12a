// SPDX-License-Identifier: Apache-2.0
// Escapes names and messages, which may hold any bytes, for a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace spate {

/// Size in bytes of the character that `text` (not empty) begins with; 0 when its first byte must not reach a terminal
/// as it is: it is not UTF-8, or the character is a control character (C0, DEL or C1; some terminals begin an escape
/// sequence with C1), or it reverses or breaks its line.
std::size_t printable_size(std::string_view text);

/// Replaces each byte that printable_size() refuses by \xNN (two digits, lower case), except the bytes in `kept`.
std::string escape_controls(std::string_view text, std::string_view kept = {});

/// A name as a terminal, a pipe and JSON may see it: as escape_controls(), with backslashes escaped too. Thus replacing
/// each \xNN gives the name back.
std::string printable(std::string_view name);
/// Applies printable() to each line of a message that may hold such names, so that it can go to a terminal.
std::string printable_lines(std::string_view message);

}  // namespace spate
