// SPDX-License-Identifier: Apache-2.0
#include "base/printable.h"

namespace spate {
namespace {

/// Bytes of the UTF-8 character that `text` begins with; 0 if it is not valid (RFC 3629: no overlong forms, no
/// surrogates).
std::size_t character_size(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const auto follows = [&](std::size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead < 0xE0) return follows(1) ? 2 : 0;
  if (lead >= 0xE0 && lead < 0xF0) {
    const bool bad = (lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xED && byte(1) >= 0xA0);
    return !bad && follows(1) && follows(2) ? 3 : 0;
  }
  if (lead < 0xF0 || lead > 0xF4) return 0;
  const bool bad = (lead == 0xF0 && byte(1) < 0x90) || (lead == 0xF4 && byte(1) >= 0x90);
  return !bad && follows(1) && follows(2) && follows(3) ? 4 : 0;
}

/// `character` is a whole UTF-8 character. True if it is a control character, or turns or breaks the line.
bool is_control(std::string_view character) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 1) return byte(0) < 0x20 || byte(0) == 0x7F;
  if (character.size() == 2) return byte(0) == 0xC2 && byte(1) < 0xA0;  // U+0080 to U+009F
  if (character.size() != 3 || byte(0) != 0xE2) return false;
  const bool line = byte(1) == 0x80 && byte(2) >= 0xA8 && byte(2) <= 0xAE;     // U+2028 to U+202E
  const bool isolate = byte(1) == 0x81 && byte(2) >= 0xA6 && byte(2) <= 0xA9;  // U+2066 to U+2069
  return line || isolate;
}

std::string escaped_byte(char byte) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  const auto value = static_cast<unsigned char>(byte);
  return {'\\', 'x', kDigits[value >> 4U], kDigits[value & 0xFU]};
}

}  // namespace

std::size_t printable_size(std::string_view text) {
  const std::size_t size = character_size(text);
  return size == 0 || is_control(text.substr(0, size)) ? 0 : size;
}

std::string escape_controls(std::string_view text, std::string_view kept) {
  std::string out;
  while (!text.empty()) {
    const std::size_t size = kept.find(text[0]) != std::string_view::npos ? 1 : printable_size(text);
    out += size == 0 ? escaped_byte(text[0]) : std::string(text.substr(0, size));
    text.remove_prefix(size == 0 ? 1 : size);
  }
  return out;
}

std::string printable(std::string_view name) {
  std::string text;
  for (std::size_t slash = name.find('\\'); slash != std::string_view::npos; slash = name.find('\\')) {
    text += escape_controls(name.substr(0, slash)) + escaped_byte('\\');
    name.remove_prefix(slash + 1);
  }
  return text + escape_controls(name);
}

std::string printable_lines(std::string_view message) {
  std::string text;
  for (std::size_t end = message.find('\n'); end != std::string_view::npos; end = message.find('\n')) {
    text += printable(message.substr(0, end)) + "\n";
    message.remove_prefix(end + 1);
  }
  return text + printable(message);
}

}  // namespace spate
