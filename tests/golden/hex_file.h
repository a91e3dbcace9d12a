// SPDX-License-Identifier: Apache-2.0
// Golden files as text: two hex digits for a byte, "00x24" for 24 zeros. A comment begins with #.
#pragma once

#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace spate::golden {

std::string to_hex(std::string_view comment, ByteView bytes);
/// Parses such a text. kCorrupt, with the place in the text, if it is malformed.
Result<Bytes> from_hex(std::string_view text);

Result<std::string> read_text(const std::string& path);

}  // namespace spate::golden
