// SPDX-License-Identifier: Apache-2.0
// A reader for the part of TOML 1.0 that spate.toml needs (docs/config.md). Own, because the packaged toml++ 3.3 runs
// into undefined behaviour on a file of two bytes and overflows the stack on a key of 300,000 dots
// (docs/dependencies.md).
#include "config/raw.h"

#include <algorithm>
#include <charconv>
#include <tuple>

namespace spate::config {
namespace {

constexpr int kMaxListDepth = 2;
// Both limits keep the search for duplicates from being quadratic in the file's length.
constexpr std::size_t kMaxKeysPerSection = 256;
constexpr std::size_t kMaxSections = 5000;

bool is_bare(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

void append_utf8(std::string& out, std::uint32_t code) {
  const auto put = [&out](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xc0U | code >> 6U);
  } else if (code < 0x10000) {
    put(0xe0U | code >> 12U);
    put(0x80U | (code >> 6U & 0x3fU));
  } else {
    put(0xf0U | code >> 18U);
    put(0x80U | (code >> 12U & 0x3fU));
    put(0x80U | (code >> 6U & 0x3fU));
  }
  put(0x80U | (code & 0x3fU));
}

class Reader {
 public:
  Reader(std::string_view text, std::string_view file_name) : text_(text), file_name_(file_name) {}

  Result<std::vector<RawSection>> run() {
    sections_.emplace_back();  // for keys outside of any section
    if (text_.starts_with("\xef\xbb\xbf")) at_ = 3;
    while (true) {
      skip(true);
      if (done()) break;
      SPATE_TRY(std::ignore, peek() == '[' ? header() : assignment());
      skip(false);
      if (!done() && peek() != '\n') return wrong("something is left over at the end of the line");
    }
    if (sections_[0].keys.empty()) sections_.erase(sections_.begin());
    return std::move(sections_);
  }

 private:
  bool done() const { return at_ >= text_.size(); }
  char peek() const { return done() ? '\0' : text_[at_]; }
  bool take(char c) {
    if (done() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  Error wrong(std::string_view what) const {
    return Error::told(Errc::kInvalidArgument,
                       std::string(file_name_) + ":" + std::to_string(line_) + ": " + std::string(what));
  }

  /// Skips blanks and comments; `lines`: also line ends.
  void skip(bool lines) {
    while (!done()) {
      const char c = text_[at_];
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (c == ' ' || c == '\t' || c == '\r') {
        ++at_;
      } else if (c == '\n' && lines) {
        ++line_;
        ++at_;
      } else {
        return;
      }
    }
  }

  Result<void> header() {
    ++at_;
    const bool repeated = take('[');
    skip(false);
    RawSection section{{}, repeated, line_, {}};
    SPATE_TRY(section.name, key_name());
    skip(false);
    if (peek() == '.') return wrong("sections are not nested here");
    if (!take(']') || (repeated && !take(']'))) return wrong("a section is written [name] or [[name]]");
    for (const RawSection& s : sections_) {
      if (s.line != 0 && s.name == section.name && !(s.repeated && repeated)) {
        return wrong("section [" + section.name.substr(0, 60) + "] stands in line " + std::to_string(s.line) +
                     " already");
      }
    }
    if (sections_.size() > kMaxSections) return wrong("too many sections");
    sections_.push_back(std::move(section));
    return {};
  }

  Result<void> assignment() {
    RawKey key;
    key.line = line_;
    SPATE_TRY(key.name, key_name());
    skip(false);
    if (peek() == '.') return wrong("keys have no dots here: write the section as [" + key.name.substr(0, 60) + "]");
    if (!take('=')) return wrong("after a key, = is expected");
    skip(false);
    SPATE_TRY(key.value, value(0));
    auto& keys = sections_.back().keys;
    for (const RawKey& k : keys) {
      if (k.name == key.name)
        return wrong("key " + key.name.substr(0, 60) + " stands in line " + std::to_string(k.line) + " already");
    }
    if (keys.size() >= kMaxKeysPerSection) return wrong("too many keys in a section");
    keys.push_back(std::move(key));
    return {};
  }

  Result<std::string> key_name() {
    if (peek() == '"' || peek() == '\'') return string();
    const std::size_t begin = at_;
    while (!done() && is_bare(text_[at_])) ++at_;
    if (at_ == begin) return wrong("a key or [section] is expected");
    return std::string(text_.substr(begin, at_ - begin));
  }

  Result<RawValue> value(int depth) {
    RawValue out;
    const char c = peek();
    if (c == '"' || c == '\'') {
      out.kind = RawValue::Kind::kText;
      SPATE_TRY(out.text, string());
      return out;
    }
    if (c == '[') return list(depth);
    if (c == '{') return wrong("inline tables are not used here: write [section]");
    return word();
  }

  /// Parses a value that is neither text nor list: an integer, true, false, or a value that no key accepts.
  Result<RawValue> word() {
    const std::size_t begin = at_;
    while (!done() && (is_bare(text_[at_]) || text_[at_] == '.' || text_[at_] == '+' || text_[at_] == ':')) ++at_;
    RawValue out;
    out.text = text_.substr(begin, std::min<std::size_t>(at_ - begin, 60));
    if (out.text.empty()) return wrong("a value is expected: text in double quotes, a number, true, false or a [list]");
    out.boolean = out.text == "true";
    if (out.boolean || out.text == "false") {
      out.kind = RawValue::Kind::kBoolean;
      return out;
    }
    std::string digits = out.text;
    std::erase(digits, '_');
    if (digits[0] == '+') digits.erase(0, 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out.integer);
    if (error == std::errc() && end == digits.data() + digits.size()) out.kind = RawValue::Kind::kInteger;
    const char first = digits.empty() ? '\0' : digits[0];
    if (out.kind == RawValue::Kind::kOther && first != '-' && (first < '0' || first > '9')) {
      return wrong(out.text + " is no value: text stands in double quotes");
    }
    return out;
  }

  Result<RawValue> list(int depth) {
    if (depth >= kMaxListDepth) return wrong("lists are not nested that deep here");
    RawValue out;
    out.kind = RawValue::Kind::kList;
    ++at_;
    skip(true);
    while (!take(']')) {
      SPATE_TRY(RawValue item, value(depth + 1));
      out.list.push_back(std::move(item));
      skip(true);
      if (take(',')) {
        skip(true);
      } else if (peek() != ']') {
        return wrong("in a list, a comma or ] is expected");
      }
    }
    return out;
  }

  Result<std::string> string() {
    const char quote = text_[at_];
    if (text_.substr(at_, 3) == std::string(3, quote)) return wrong("texts of several lines are not used here");
    ++at_;
    std::string out;
    while (!take(quote)) {
      if (done() || peek() == '\n') return wrong("a text is not ended by its quote");
      const char c = text_[at_++];
      if ((static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f) return wrong("control character in a text");
      if (c == '\\' && quote == '"') {
        SPATE_TRY(std::ignore, escape(out));
      } else {
        out += c;
      }
    }
    return out;
  }

  Result<void> escape(std::string& out) {
    constexpr std::string_view kLetters = "btnfr\"\\";
    constexpr std::string_view kMeanings = "\b\t\n\f\r\"\\";
    const char c = done() ? '\0' : text_[at_++];
    if (const std::size_t i = kLetters.find(c); i != std::string_view::npos) {
      out += kMeanings[i];
      return {};
    }
    const std::size_t digits = c == 'u' ? 4 : c == 'U' ? 8 : 0;
    const std::string_view hex = text_.substr(std::min(at_, text_.size()), digits);
    std::uint32_t code = 0;
    const auto [end, error] = std::from_chars(hex.data(), hex.data() + hex.size(), code, 16);
    const bool whole = digits != 0 && hex.size() == digits && error == std::errc() && end == hex.data() + hex.size();
    if (!whole || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return wrong("unknown escape in a text");
    at_ += digits;
    append_utf8(out, code);
    return {};
  }

  std::string_view text_;
  std::string_view file_name_;
  std::size_t at_ = 0;
  std::uint32_t line_ = 1;
  std::vector<RawSection> sections_;
};

}  // namespace

Result<std::vector<RawSection>> read_toml(std::string_view text, std::string_view file_name) {
  if (text.size() > kMaxFileBytes) {
    return Error::told(Errc::kInvalidArgument, std::string(file_name) + ":1: the file is longer than 4 MiB");
  }
  return Reader(text, file_name).run();
}

}  // namespace spate::config
