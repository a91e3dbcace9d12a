// SPDX-License-Identifier: Apache-2.0
#include "tools/join_token.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "config/key_file.h"
#include "model/cluster_map.h"

namespace spate::tools {
namespace {

constexpr std::string_view kVersion = "spj1";
constexpr std::size_t kMostText = 512;

/// 64 hex digits.
std::string key_text(const Key& key) {
  std::string text = config::key_file_text(key);
  text.pop_back();  // the end of the line
  return text;
}

std::string sum_of(std::string_view text) { return fmt::format("{:08x}", crc32c(as_bytes(text))); }

/// Lower-case digits without zeros in front, as to_text() writes them; 0 for any other text.
std::uint64_t number_of(std::string_view text, int base) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return 0;
  return text == (base == 16 ? fmt::format("{:x}", value) : fmt::format("{}", value)) ? value : 0;
}

std::optional<Key> key_of(const std::string& text) {
  const auto ring = config::parse_key_file(text + "\n", "");
  if (!ring || !ring->others.empty() || key_text(ring->used) != text) return std::nullopt;
  return ring->used;
}

std::vector<std::string> parts_of(std::string_view text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == '.') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

std::optional<JoinToken> parse(std::string_view text) {
  if (text.size() > kMostText) return std::nullopt;
  const std::vector<std::string> parts = parts_of(text);
  if (parts.size() < 5 || parts.size() > 6 || parts.front() != kVersion) return std::nullopt;
  if (sum_of(text.substr(0, text.rfind('.'))) != parts.back()) return std::nullopt;
  const std::uint64_t meta = number_of(parts[2], 10);
  JoinToken token{FsId(number_of(parts[1], 16)), ServerId(static_cast<std::uint32_t>(meta)), {}, {}};
  const auto client = key_of(parts[3]);
  if (token.fs.value == 0 || meta == 0 || meta > kMaxServerId || !client) return std::nullopt;
  token.client_key = *client;
  if (parts.size() == 5) return token;
  token.server_key = key_of(parts[4]);
  return token.server_key ? std::optional(token) : std::nullopt;
}

}  // namespace

std::string to_text(const JoinToken& token) {
  std::string text =
      fmt::format("{}.{:x}.{}.{}", kVersion, token.fs.value, token.meta.value, key_text(token.client_key));
  if (token.server_key) text += "." + key_text(*token.server_key);
  return text + "." + sum_of(text);
}

Result<JoinToken> parse_join_token(std::string_view text) {
  const auto token = parse(text);
  if (token) return *token;
  return Error::told(Errc::kInvalidArgument,
                     "this is no join token, or a part of one: copy the whole word that `spate init` printed");
}

}  // namespace spate::tools
