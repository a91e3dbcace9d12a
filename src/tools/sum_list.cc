// SPDX-License-Identifier: Apache-2.0
#include "tools/sum_list.h"

#include <algorithm>

namespace spate::tools {
namespace {

std::string escape(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c == '\\') {
      out += "\\\\";
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else {
      out += c;
    }
  }
  return out;
}

std::optional<std::string> unescape(std::string_view name) {
  std::string out;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] != '\\') {
      out += name[i];
      continue;
    }
    if (++i == name.size()) return std::nullopt;
    const char c = name[i];
    if (c != '\\' && c != 'n' && c != 'r') return std::nullopt;
    out += c == 'n' ? '\n' : c == 'r' ? '\r' : '\\';
  }
  return out;
}

std::optional<DigestKind> kind_of(std::size_t digits) {
  for (const DigestKind kind : {DigestKind::kSha256, DigestKind::kXxh3}) {
    if (digest_digits(kind) == digits) return kind;
  }
  return std::nullopt;
}

}  // namespace

std::string format_sum(const SumLine& line) {
  const std::string name = escape(line.name);
  return (name == line.name ? "" : "\\") + line.hex + "  " + name + "\n";
}

std::optional<SumLine> parse_sum(std::string_view text) {
  const bool escaped = text.starts_with('\\');
  if (escaped) text.remove_prefix(1);
  const std::size_t digits = std::min(text.find_first_not_of("0123456789abcdefABCDEF"), text.size());
  const auto kind = kind_of(digits);
  if (!kind) return std::nullopt;
  const std::string_view rest = text.substr(digits);
  if (rest.size() < 3 || rest[0] != ' ' || (rest[1] != ' ' && rest[1] != '*')) return std::nullopt;
  SumLine line;
  line.kind = *kind;
  line.hex = text.substr(0, digits);
  for (char& c : line.hex) c = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
  const auto name = escaped ? unescape(rest.substr(2)) : std::optional<std::string>(rest.substr(2));
  if (!name) return std::nullopt;
  line.name = *name;
  return line;
}

SumList parse_sums(std::string_view text) {
  SumList list;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view one = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (one.ends_with('\r')) one.remove_suffix(1);
    if (one.empty() || one.starts_with('#')) continue;
    auto line = parse_sum(one);
    if (line) {
      list.lines.push_back(*std::move(line));
    } else {
      ++list.malformed;
    }
  }
  return list;
}

}  // namespace spate::tools
