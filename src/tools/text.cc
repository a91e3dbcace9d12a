// SPDX-License-Identifier: Apache-2.0
#include "tools/text.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "config/convert.h"

namespace spate::tools {
namespace {

/// Three digits.
std::string rounded(double value, std::string_view unit) {
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, decimals, unit);
}

/// Bytes of the UTF-8 character that `text` begins with; 0 when it is none (RFC 3629: no overlong forms, no
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

}  // namespace

std::string human_size(std::uint64_t bytes) {
  constexpr std::string_view kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return rounded(value, kUnits[unit]);
}

std::string human_time(std::uint64_t ns) {
  if (ns < 1000) return fmt::format("{} ns", ns);
  const double value = static_cast<double>(ns);
  if (value < 999.5e3) return rounded(value / 1e3, "us");
  if (value < 999.5e6) return rounded(value / 1e6, "ms");
  return rounded(value / 1e9, "s");
}

std::string human_span(std::uint64_t ms) {
  const std::uint64_t seconds = ms / 1000;
  const std::uint64_t minutes = seconds / 60;
  const std::uint64_t hours = minutes / 60;
  if (seconds == 0) return "under a second";
  if (minutes == 0) return fmt::format("{} s", seconds);
  if (hours == 0) return fmt::format("{} min {} s", minutes, seconds % 60);
  if (hours < 24) return fmt::format("{} h {} min", hours, minutes % 60);
  return fmt::format("{} d {} h", hours / 24, hours % 24);
}

std::string printable(std::string_view name) {
  std::string text;
  while (!name.empty()) {
    const std::size_t size = character_size(name);
    const auto byte = static_cast<unsigned char>(name[0]);
    if (size == 0 || byte < 0x20 || byte == 0x7F || byte == '\\') {
      text += fmt::format("\\x{:02x}", byte);
      name.remove_prefix(1);
    } else {
      text += name.substr(0, size);
      name.remove_prefix(size);
    }
  }
  return text;
}

std::string printable_lines(std::string_view message) {
  std::string text;
  for (std::size_t end = message.find('\n'); end != std::string_view::npos; end = message.find('\n')) {
    text += printable(message.substr(0, end)) + "\n";
    message.remove_prefix(end + 1);
  }
  return text + printable(message);
}

std::string nearest_word(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t best_distance = std::min<std::size_t>(3, std::max<std::size_t>(1, word.size() / 3)) + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = config::edit_distance(word, candidate);
    if (distance >= best_distance) continue;
    best_distance = distance;
    best = candidate;
  }
  return best;
}

std::string counted(std::uint64_t number, std::string_view noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

std::string shell_word(std::string_view word) {
  constexpr std::string_view kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789%+,-./:=@_";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos) return std::string(word);
  std::string text = "'";
  for (const char c : word) {
    if (c == '\'')
      text += "'\\''";
    else
      text += c;
  }
  return text + "'";
}

}  // namespace spate::tools
