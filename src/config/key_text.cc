// SPDX-License-Identifier: Apache-2.0
// Finds keys by their names, and formats keys and values as text.
#include <array>
#include <cctype>
#include <cstdio>

#include "base/units.h"
#include "config/keys.h"

namespace spate::config {
namespace {

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\u%04x", byte);
      out += escape.data();
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string duration_text(std::uint64_t ns) { return format_duration(Duration(static_cast<Duration::rep>(ns))); }

std::string number_text(const Key& key, std::uint64_t number) {
  switch (key.type) {
    case Type::kSize: return in_quotes(format_size(number));
    case Type::kSync:
      if (number == 0) return in_quotes("commit");
      [[fallthrough]];
    case Type::kDuration: return in_quotes(duration_text(number));
    case Type::kChoice: return in_quotes(split_choices(key.choices)[number]);
    case Type::kHexId: {
      std::array<char, 20> hex{};
      std::snprintf(hex.data(), hex.size(), "%016llx", static_cast<unsigned long long>(number));
      return in_quotes(hex.data());
    }
    default: return std::to_string(number);
  }
}

std::string list_text(const std::vector<std::string>& list) {
  std::string out = "[";
  for (const std::string& item : list) out.append(out.size() == 1 ? "" : ", ").append(in_quotes(item));
  return out + "]";
}

std::string range_text(const std::string& low, const std::string& high) { return low + " .. " + high; }

std::string count_range(const Key& key) { return range_text(std::to_string(key.min), std::to_string(key.max)); }

}  // namespace

const Section* find_section(std::string_view name) {
  for (const Section& section : sections()) {
    if (section.name == name) return &section;
  }
  return nullptr;
}

const Key* find_key(std::string_view section, std::string_view name) {
  for (const Key& key : keys()) {
    if (key.section == section && key.name == name) return &key;
  }
  return nullptr;
}

std::string item_name(std::string_view section, std::size_t item) {
  return std::string(section) + "[" + std::to_string(item) + "]";
}

std::string item_name(const Key& key, std::size_t item) {
  if (!find_section(key.section)->repeated) return key.full_name();
  return item_name(key.section, item) + "." + std::string(key.name);
}

std::string Key::full_name() const { return std::string(section) + "." + std::string(name); }

std::string Key::environment_name() const {
  if (find_section(section)->repeated) return {};
  std::string out = "SPATE_" + std::string(section) + "_" + std::string(name);
  for (char& c : out) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

std::vector<std::string_view> split_choices(std::string_view choices) {
  std::vector<std::string_view> out;
  while (true) {
    const std::size_t bar = choices.find('|');
    out.push_back(choices.substr(0, bar));
    if (bar == std::string_view::npos) return out;
    choices.remove_prefix(bar + 1);
  }
}

std::string toml_text(const Key& key, const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return in_quotes(*text);
  if (const auto* list = std::get_if<std::vector<std::string>>(&value)) return list_text(*list);
  return number_text(key, std::get<std::uint64_t>(value));
}

std::string allowed_text(const Key& key) {
  std::string choices;
  for (const std::string_view c : split_choices(key.choices))
    choices.append(choices.empty() ? "" : " | ").append(in_quotes(c));
  switch (key.type) {
    case Type::kText: return "text of " + count_range(key) + " characters";
    case Type::kPath: return "a path; relative ones start at the folder of the config file";
    case Type::kTextList: return "a list of " + count_range(key) + " texts";
    case Type::kPathList:
      return "a list of " + count_range(key) + " paths; relative ones start at the folder of the config file";
    case Type::kChoice: return choices;
    case Type::kChoiceList: return "a list of " + choices;
    case Type::kWordList: return "a list of " + count_range(key) + " of " + choices;
    case Type::kCount: return "a number, " + count_range(key);
    case Type::kSize: return "a size such as \"64 KiB\", " + range_text(format_size(key.min), format_size(key.max));
    case Type::kDuration:
      return "a duration such as \"100 ms\", " + range_text(duration_text(key.min), duration_text(key.max));
    case Type::kSync:
      return "\"commit\", or a duration such as \"100 ms\", " +
             range_text(duration_text(key.min), duration_text(key.max));
    case Type::kHexId: return "1 .. 16 hex digits in quotes, not 0";
  }
  return {};
}

}  // namespace spate::config
