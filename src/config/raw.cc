// SPDX-License-Identifier: Apache-2.0
// The only file that knows toml++.
#include "config/raw.h"

// toml++ 3.3 asserts in places that a malformed file reaches ("[[["), and goes on to report a proper error when the
// assertion is not there. With NDEBUG it would tell the compiler that they cannot happen: hence neither.
#undef NDEBUG
#define TOML_ASSERT(expr) static_assert(true)
#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

#include <algorithm>
#include <tuple>

namespace spate::config {
namespace {

Error at(std::string_view file_name, std::uint32_t line, std::string_view what) {
  return Error(Errc::kInvalidArgument, std::string(file_name) + ":" + std::to_string(line) + ": " + std::string(what));
}

std::string kind_name(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table: return "a table";
    case toml::node_type::floating_point: return "a fraction";
    case toml::node_type::date:
    case toml::node_type::time:
    case toml::node_type::date_time: return "a date or time";
    default: return "another value";
  }
}

/// Lists nest two deep at the most (toml++ itself bounds the nesting of what it reads).
RawValue raw_value(const toml::node& node, int depth = 0) {
  RawValue out;
  if (const auto* text = node.as_string()) {
    out.kind = RawValue::Kind::kText;
    out.text = text->get();
  } else if (const auto* integer = node.as_integer()) {
    out.kind = RawValue::Kind::kInteger;
    out.integer = integer->get();
  } else if (const auto* boolean = node.as_boolean()) {
    out.kind = RawValue::Kind::kBoolean;
    out.boolean = boolean->get();
  } else if (const auto* array = node.as_array(); array != nullptr && depth < 2) {
    out.kind = RawValue::Kind::kList;
    for (const toml::node& item : *array) out.list.push_back(raw_value(item, depth + 1));
  } else {
    out.text = kind_name(node);
  }
  return out;
}

RawSection raw_section(std::string_view name, const toml::table& table, bool repeated) {
  RawSection section{std::string(name), repeated, table.source().begin.line, {}};
  for (const auto& [key, node] : table) {
    section.keys.push_back({std::string(key.str()), raw_value(node), key.source().begin.line});
  }
  std::stable_sort(section.keys.begin(), section.keys.end(),
                   [](const RawKey& a, const RawKey& b) { return a.line < b.line; });
  return section;
}

std::vector<RawSection> raw_sections(const toml::table& root) {
  std::vector<RawSection> out;
  RawSection outside;
  for (const auto& [key, node] : root) {
    if (const auto* table = node.as_table()) {
      out.push_back(raw_section(key.str(), *table, false));
    } else if (const auto* array = node.as_array(); array != nullptr && array->is_array_of_tables()) {
      for (const toml::node& item : *array) out.push_back(raw_section(key.str(), *item.as_table(), true));
    } else {
      outside.keys.push_back({std::string(key.str()), raw_value(node), key.source().begin.line});
    }
  }
  if (!outside.keys.empty()) {
    outside.line = outside.keys[0].line;
    out.push_back(std::move(outside));
  }
  std::stable_sort(out.begin(), out.end(), [](const RawSection& a, const RawSection& b) { return a.line < b.line; });
  return out;
}

constexpr std::size_t kMaxDotsPerLine = 16;

/// Each dot of a key nests a table, and toml++ destroys tables by recursion: a long enough key would end the process.
/// So dots outside of strings are counted first. Exact because strings of several lines, which nobody needs here, are
/// refused.
Result<void> check_nesting(std::string_view text, std::string_view file_name) {
  std::uint32_t line = 1;
  std::size_t dots = 0;
  char quote = 0;  // within a string: what ends it
  bool comment = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') {
      ++line;
      dots = 0;
      quote = 0;
      comment = false;
    } else if (comment) {
      continue;
    } else if (quote != 0) {
      if (c == '\\' && quote == '"') ++i;
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      if (text.substr(i, 3) == std::string(3, c))
        return at(file_name, line, "strings of several lines are not allowed here");
      quote = c;
    } else if (c == '#') {
      comment = true;
    } else if (c == '.' && ++dots > kMaxDotsPerLine) {
      return at(file_name, line, "too many dots outside of strings");
    }
  }
  return {};
}

}  // namespace

Result<std::vector<RawSection>> read_toml(std::string_view text, std::string_view file_name) {
  if (text.size() > kMaxFileBytes) return at(file_name, 1, "the file is longer than 4 MiB");
  SPATE_TRY(std::ignore, check_nesting(text, file_name));
  const toml::parse_result parsed = toml::parse(text, file_name);
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    return at(file_name, error.source().begin.line, error.description());
  }
  return raw_sections(parsed.table());
}

}  // namespace spate::config
