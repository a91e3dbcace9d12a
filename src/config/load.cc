// SPDX-License-Identifier: Apache-2.0
#include "config/load.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>

#include "config/check.h"
#include "config/convert.h"
#include "config/keys.h"
#include "config/raw.h"

namespace spate::config {
namespace {

constexpr std::size_t kMaxProblems = 20;

std::string with_suggestion(std::string text, const std::string& suggestion) {
  return suggestion.empty() ? text : std::move(text) + " (" + suggestion + ")";
}

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return out;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return out;
}

Result<const Key*> find_full(std::string_view full_name, std::string_view where) {
  const std::size_t dot = full_name.find('.');
  const std::string_view section = full_name.substr(0, dot);
  const std::string_view name = dot == std::string_view::npos ? std::string_view() : full_name.substr(dot + 1);
  const std::string at(where);
  if (const Section* s = find_section(section); s != nullptr && s->repeated) {
    return Error::told(Errc::kInvalidArgument, at + ": " + std::string(section) + " are set in the file only");
  }
  if (const Key* key = find_key(section, name)) return key;
  const bool section_known = find_section(section) != nullptr;
  return Error::told(Errc::kInvalidArgument,
                     with_suggestion(at + ": unknown key \"" + std::string(full_name) + "\"",
                                     section_known ? suggest(section, name) : suggest("", section)));
}

/// Loads one file: collects values and mistakes.
class Loader {
 public:
  explicit Loader(const Input& input) : input_(input) {}

  Result<LoadedConfig> run() {
    SPATE_TRY(const auto raw, read_toml(input_.text, input_.file_name));
    for (const RawSection& section : raw) read_section(section);
    for (const Override& o : input_.overrides) apply(o);
    find_missing();
    // After a mistake, further checks would only report its consequences.
    if (problems_.empty()) {
      for (const Problem& p : check(out_.config)) problem(origin_of(p.key), p.text);
    }
    if (problems_.empty()) return std::move(out_);
    std::string all;
    for (const std::string& p : problems_) all += (all.empty() ? "" : "\n") + p;
    if (more_problems_ > 0) all += "\nand " + std::to_string(more_problems_) + " more";
    return Error::told(Errc::kInvalidArgument, std::move(all));
  }

 private:
  bool full() const { return problems_.size() >= kMaxProblems; }
  void problem(const std::string& where, const std::string& text) {
    if (full()) {
      ++more_problems_;
    } else {
      problems_.push_back(where + ": " + text);
    }
  }
  /// Computed only for mistakes that will be printed, since a hostile file may have a million unknown keys.
  std::string nearest(std::string_view section, std::string_view name) const {
    return full() ? std::string() : suggest(section, name);
  }
  std::string at(std::uint32_t line) const { return input_.file_name + ":" + std::to_string(line); }

  /// The line that sets a key; for a key that is not set, the line where its server begins, or the file.
  std::string origin_of(const std::string& key) const {
    if (const auto found = out_.origins.find(key); found != out_.origins.end()) return found->second;
    if (const auto found = out_.origins.find(key.substr(0, key.find('.'))); found != out_.origins.end())
      return found->second;
    return input_.file_name;
  }

  void read_section(const RawSection& raw) {
    const Section* section = find_section(raw.name);
    if (raw.name.empty()) {
      for (const RawKey& key : raw.keys) {
        problem(at(key.line),
                with_suggestion("\"" + key.name + "\" stands outside of any section", nearest("", key.name)));
      }
      return;
    }
    if (section == nullptr) {
      problem(at(raw.line), with_suggestion("unknown section [" + raw.name + "]", nearest("", raw.name)));
      return;
    }
    if (section->repeated != raw.repeated) {
      problem(at(raw.line),
              section->repeated ? "write [[" + raw.name + "]], once for each" : "write [" + raw.name + "], once");
      return;
    }
    const std::size_t item = section->repeated ? section->count(out_.config) : 0;
    if (section->repeated) {
      section->add(out_.config);
      out_.origins[item_name(section->name, item)] = at(raw.line);
    }
    for (const RawKey& key : raw.keys) read_key(*section, item, key);
  }

  void read_key(const Section& section, std::size_t item, const RawKey& raw) {
    const Key* key = find_key(section.name, raw.name);
    if (key == nullptr) {
      problem(at(raw.line), with_suggestion("unknown key \"" + raw.name + "\" in [" + std::string(section.name) + "]",
                                            nearest(section.name, raw.name)));
      return;
    }
    store(*key, item, raw.value, at(raw.line));
  }

  void apply(const Override& o) {
    const auto key = find_full(o.key, o.origin);
    if (!key) {
      problems_.push_back(key.error().context());
      return;
    }
    store(**key, 0, raw_from_text(**key, o.value), o.origin);
  }

  void store(const Key& key, std::size_t item, const RawValue& raw, const std::string& origin) {
    auto value = convert(key, raw);
    if (!value) {
      problem(origin, value.error().context());
      return;
    }
    if (key.type == Type::kPath) std::get<std::string>(*value) = resolve(std::get<std::string>(*value));
    if (key.type == Type::kPathList) {
      for (std::string& path : std::get<std::vector<std::string>>(*value)) path = resolve(path);
    }
    key.set(out_.config, item, *value);
    out_.origins[item_name(key, item)] = origin;
  }

  std::string resolve(const std::string& path) const {
    if (path.empty()) return path;
    return (std::filesystem::path(input_.folder) / path).lexically_normal().string();
  }

  void find_missing() {
    if (!problems_.empty()) return;
    for (const Key& key : keys()) {
      if (!key.required) continue;
      const std::size_t count = find_section(key.section)->count(out_.config);
      for (std::size_t i = 0; i < count; ++i) {
        const std::string name = item_name(key, i);
        if (!out_.origins.contains(name)) {
          problem(origin_of(name), "no " + key.full_name() + " is given; allowed: " + allowed_text(key));
        }
      }
    }
  }

  const Input& input_;
  LoadedConfig out_;
  std::vector<std::string> problems_;  // at most kMaxProblems
  std::size_t more_problems_ = 0;
};

}  // namespace

Result<std::vector<Override>> overrides_from_environment(const std::vector<std::string>& environment) {
  std::vector<Override> out;
  for (const std::string& entry : environment) {
    const std::size_t equals = entry.find('=');
    const std::string_view variable = std::string_view(entry).substr(0, equals);
    if (equals == std::string::npos) continue;
    for (const Section& section : sections()) {
      const std::string prefix = "SPATE_" + upper(section.name) + "_";
      if (!variable.starts_with(prefix)) continue;
      const std::string name = std::string(section.name) + "." + lower(variable.substr(prefix.size()));
      const std::string origin = "environment " + std::string(variable);
      SPATE_TRY([[maybe_unused]] const Key* key, find_full(name, origin));
      out.push_back({name, entry.substr(equals + 1), origin});
    }
  }
  return out;
}

Result<Override> override_from_argument(std::string_view argument) {
  const std::size_t equals = argument.find('=');
  if (equals == std::string_view::npos) {
    return Error::told(Errc::kInvalidArgument,
                       "command line: \"" + std::string(argument) + "\" is not section.key=value");
  }
  Override out{std::string(argument.substr(0, equals)), std::string(argument.substr(equals + 1)), "command line"};
  SPATE_TRY([[maybe_unused]] const Key* key, find_full(out.key, out.origin));
  return out;
}

Result<LoadedConfig> load(const Input& input) { return Loader(input).run(); }

Result<LoadedConfig> load_file(const std::string& path, std::vector<Override> overrides) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return errno_error(errno, "open config file " + path);
  Input input{{}, path, std::filesystem::absolute(path).parent_path().string(), std::move(overrides)};
  // Part by part: room for the largest file allowed would stay with every server and cost every command a millisecond.
  std::array<char, 16384> part;
  while (input.text.size() <= kMaxFileBytes && file) {
    file.read(part.data(), part.size());
    if (file.bad()) return errno_error(errno, "read config file " + path);
    input.text.append(part.data(), static_cast<std::size_t>(file.gcount()));
  }
  SPATE_TRY(LoadedConfig loaded, load(input));
  loaded.text = std::move(input.text);
  return loaded;
}

}  // namespace spate::config
