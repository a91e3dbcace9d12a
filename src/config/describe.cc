// SPDX-License-Identifier: Apache-2.0
#include "config/describe.h"

#include <functional>

#include "config/convert.h"
#include "config/keys.h"

namespace spate::config {
namespace {

constexpr std::size_t kCommentWidth = 100;

/// Splits `text` into lines that begin with `prefix`.
std::string wrapped(std::string_view text, std::string_view prefix) {
  std::string out;
  while (!text.empty()) {
    std::size_t end = text.size();
    if (end > kCommentWidth) {
      end = text.rfind(' ', kCommentWidth);
      if (end == std::string_view::npos || end == 0) end = text.size();
    }
    out.append(prefix).append(text.substr(0, end)).append("\n");
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  return out;
}

std::string default_text(const Key& key) {
  return key.required ? "none, must be given" : toml_text(key, default_value(key));
}

std::string explain_key(const Key& key) {
  std::string out = key.full_name() + "\n" + wrapped(key.doc, "    ");
  out += "    allowed:  " + allowed_text(key) + "\n";
  out += "    default:  " + default_text(key) + "\n";
  if (const std::string variable = key.environment_name(); !variable.empty()) out += "    variable: " + variable + "\n";
  return out;
}

/// Calls `visit` for each section, and for each item of a repeated one.
void each_section(const FileSystemConfig& config, const std::function<void(const Section&, std::size_t item)>& visit) {
  for (const Section& section : sections()) {
    const std::size_t count = section.count(config);
    for (std::size_t i = 0; i < count; ++i) visit(section, i);
  }
}

std::string header(const Section& section) {
  return section.repeated ? "[[" + std::string(section.name) + "]]\n" : "[" + std::string(section.name) + "]\n";
}

std::string assignment(const Key& key, const Value& value) {
  return std::string(key.name) + " = " + toml_text(key, value);
}

}  // namespace

Result<std::string> explain(std::string_view name) {
  std::string out;
  for (const Section& section : sections()) {
    std::string part;
    for (const Key& key : keys()) {
      if (key.section == section.name && (name.empty() || name == section.name || name == key.full_name())) {
        part += explain_key(key);
      }
    }
    if (part.empty()) continue;
    const bool whole = name.empty() || name == section.name;
    out += (out.empty() ? "" : "\n") + (whole ? header(section) + wrapped(section.doc, "") + "\n" + part : part);
  }
  if (!out.empty()) return out;
  const std::size_t dot = name.find('.');
  const bool known = dot != std::string_view::npos && find_section(name.substr(0, dot)) != nullptr;
  const std::string near =
      known ? suggest(name.substr(0, dot), name.substr(dot + 1)) : suggest("", name.substr(0, dot));
  return Error::told(Errc::kInvalidArgument,
                     "no key \"" + std::string(name) + "\"" + (near.empty() ? "" : " (" + near + ")"));
}

std::vector<Explanation> explanations(std::string_view name) {
  std::vector<Explanation> all;
  for (const Key& key : keys()) {
    if (!name.empty() && name != key.section && name != key.full_name()) continue;
    all.push_back(
        {key.full_name(), std::string(key.doc), allowed_text(key), default_text(key), key.environment_name()});
  }
  return all;
}

std::string explain_markdown() {
  std::string out;
  for (const Section& section : sections()) {
    out += "\n## `" + header(section);
    out.back() = '`';
    out += "\n\n" + std::string(section.doc) + "\n\n| key | meaning | allowed | default |\n|---|---|---|---|\n";
    for (const Key& key : keys()) {
      if (key.section != section.name) continue;
      std::string row = "`" + std::string(key.name) + "` | " + std::string(key.doc) + " | ";
      for (const char c : allowed_text(key)) row += c == '|' ? std::string("\\|") : std::string(1, c);
      out += "| " + row + " | " + (key.required ? "required" : "`" + default_text(key) + "`") + " |\n";
    }
  }
  return out;
}

std::vector<Setting> settings(const LoadedConfig& loaded) {
  std::vector<Setting> all;
  each_section(loaded.config, [&](const Section& section, std::size_t item) {
    for (const Key& key : keys()) {
      if (key.section != section.name) continue;
      std::string name = item_name(key, item);
      const auto origin = loaded.origins.find(name);
      all.push_back({std::move(name), toml_text(key, key.get(loaded.config, item)),
                     origin == loaded.origins.end() ? "default" : origin->second});
    }
  });
  return all;
}

std::string show(const LoadedConfig& loaded) {
  std::string out;
  std::string section_now;
  for (const Setting& setting : settings(loaded)) {
    const std::size_t dot = setting.name.find('.');
    const std::string section = setting.name.substr(0, dot);  // "servers[0]"
    if (section != section_now) {
      out += (out.empty() ? "" : "\n") + header(*find_section(section.substr(0, section.find('['))));
      section_now = section;
    }
    out += setting.name.substr(dot + 1) + " = " + setting.value + "  # " + setting.origin + "\n";
  }
  return out;
}

std::string to_toml(const FileSystemConfig& config) {
  std::string out =
      "# A Spate file system: this file is the same for all of its servers and clients.\n"
      "# `spate config explain` tells more of each key, `spate config check` looks for mistakes.\n";
  each_section(config, [&](const Section& section, std::size_t item) {
    // Only the first item has comments.
    const bool comments = item == 0;
    out += "\n" + (comments ? wrapped(section.doc, "# ") : std::string()) + header(section);
    for (const Key& key : keys()) {
      if (key.section != section.name) continue;
      const Value value = key.get(config, item);
      const bool is_default = !key.required && value == default_value(key);
      if (comments) out += wrapped(key.doc, "# ");
      if (comments || !is_default) out += (is_default ? "# " : "") + assignment(key, value) + "\n";
    }
  });
  return out;
}

}  // namespace spate::config
