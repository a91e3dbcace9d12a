// SPDX-License-Identifier: Apache-2.0
// `spate policy`: how many copies the data of a directory's new files has.
#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "tools/commands.h"
#include "tools/name_space.h"
#include "tools/path_arguments.h"
#include "tools/text.h"
#include "wire/xattr_messages.h"

namespace spate::tools {
namespace {

/// One word of the policy: its name on the command line, and the directory's attribute.
struct Setting {
  std::string_view word;
  const char* attribute;
};
constexpr Setting kReplicas{"replicas=", "user.spate.replicas"};
constexpr Setting kMin{"min=", "user.spate.min_copies"};
constexpr std::string_view kDefault = "default";

struct PolicyOptions {
  std::string action;
  std::vector<std::string> words;
};

/// The new values. An empty one leaves the old value as it is.
struct Wanted {
  std::string replicas;
  std::string min;
};

bool is_setting(const std::string& word) { return word.find('=') != std::string::npos && !is_remote(word); }

std::uint32_t number_of(const std::string& text) {
  std::uint32_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

/// The value behind the setting's word.
Result<std::string> value_of(const Setting& setting, const std::string& word) {
  const std::string value = word.substr(setting.word.size());
  if (value == kDefault) return value;
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error == std::errc() && end == value.data() + value.size() && number >= 1 && number <= kMaxReplicas) return value;
  return Error::told(
      Errc::kInvalidArgument,
      fmt::format("{} takes 1 to {}, or default", setting.word.substr(0, setting.word.size() - 1), kMaxReplicas));
}

Result<Wanted> wanted_by(const std::vector<std::string>& words) {
  Wanted wanted;
  for (const std::string& word : words) {
    if (!is_setting(word)) continue;
    const bool replicas = word.starts_with(kReplicas.word);
    if (!replicas && !word.starts_with(kMin.word))
      return Error::told(Errc::kInvalidArgument, "policy takes replicas=N and min=N, not \"" + printable(word) + "\"");
    SPATE_TRY((replicas ? wanted.replicas : wanted.min), value_of(replicas ? kReplicas : kMin, word));
  }
  if (wanted.replicas.empty() && wanted.min.empty())
    return Error::told(Errc::kInvalidArgument, "policy set takes a directory and replicas=N, min=N or both");
  const std::uint32_t copies = number_of(wanted.replicas);
  if (copies != 0 && number_of(wanted.min) > copies)
    return Error::told(Errc::kInvalidArgument, fmt::format("min={} is more than replicas={}", wanted.min, copies));
  return wanted;
}

Result<void> set_one(assembly::ClientProcess& process, const std::string& path, const Setting& setting,
                     const std::string& value) {
  if (value.empty()) return {};
  if (value == kDefault) {
    const auto removed =
        process.run([&](client::Client& c) { return c.removexattr(client::path_from_root(path), setting.attribute); });
    return removed || removed.code() == Errc::kNoAttribute ? Result<void>() : removed.error();
  }
  wire::SetxattrRequest request;
  request.where = client::path_from_root(path);
  request.name = setting.attribute;
  request.value = to_bytes(as_bytes(value));
  return process.run([&](client::Client& c) { return c.setxattr(request); });
}

/// kNotDirectory with `advice` unless the path names a directory.
Result<void> check_directory(assembly::ClientProcess& process, const std::string& path, const char* advice) {
  SPATE_TRY(const auto object, process.run([&](client::Client& c) { return c.lookup(client::path_from_root(path)); }));
  if (object.attributes.type != FileType::kDirectory) return Error::told(Errc::kNotDirectory, advice);
  return {};
}

Result<void> set_policy(assembly::ClientProcess& process, const std::string& path, const Wanted& wanted) {
  SPATE_TRY(
      std::ignore,
      check_directory(process, path,
                      "the number of copies is set on a directory, for the files that are made below it from then on"));
  SPATE_TRY(std::ignore, set_one(process, path, kReplicas, wanted.replicas));
  return set_one(process, path, kMin, wanted.min);
}

struct Number {
  std::uint32_t value = 1;
  bool is_default = true;
};

Result<Number> number_at(assembly::ClientProcess& process, const std::string& path, const Setting& setting,
                         std::uint32_t otherwise) {
  const auto value =
      process.run([&](client::Client& c) { return c.getxattr(client::path_from_root(path), setting.attribute); });
  if (!value && value.code() != Errc::kNoAttribute) return value.error();
  if (!value) return Number{otherwise, true};
  return Number{number_of(std::string(as_text(*value))), false};
}

int run_set(Context& context, const PolicyOptions& options) {
  std::vector<std::string> paths = options.words;
  std::erase_if(paths, is_setting);
  const auto wanted = wanted_by(options.words);
  if (!wanted) return context.usage(wanted.error().message());
  if (paths.empty()) return context.usage("policy set takes a directory and replicas=N, min=N or both");
  return for_each_remote_path(context, paths,
                              [&wanted](assembly::ClientProcess& process, const std::string&, const std::string& path) {
                                return set_policy(process, path, *wanted);
                              });
}

int run_get(Context& context, const PolicyOptions& options) {
  if (options.words.empty()) return context.usage("policy get takes a directory");
  nlohmann::json list = nlohmann::json::array();
  const int code = for_each_remote_path(
      context, options.words,
      [&](assembly::ClientProcess& process, const std::string& name, const std::string& path) -> Result<void> {
        SPATE_TRY(std::ignore, check_directory(process, path, "`spate getstripe` shows how many copies a file has"));
        const auto& defaults = process.config().defaults;
        SPATE_TRY(const Number replicas, number_at(process, path, kReplicas, defaults.replicas));
        SPATE_TRY(Number min, number_at(process, path, kMin, defaults.min_copies));
        min.value = std::min(min.value, replicas.value);
        list.push_back({{"path", printable(name)},
                        {"replicas", replicas.value},
                        {"default", replicas.is_default},
                        {"min", min.value},
                        {"min_default", min.is_default}});
        const auto mark = [](const Number& number) { return number.is_default ? " (default)" : ""; };
        if (!context.json)
          print(fmt::format("{}: replicas={}{} min={}{}\n", printable(name), replicas.value, mark(replicas), min.value,
                            mark(min)));
        return {};
      });
  if (context.json) context.print_json(list);
  return code;
}

int run_policy(Context& context, PolicyOptions& options) {
  if (options.action != "set" && options.action != "get")
    return context.usage("policy takes set or get, not \"" + options.action + "\"");
  for (std::string& word : options.words) {
    if (is_remote(word) || is_setting(word)) continue;
    auto path = mounted_path(context, word);
    if (!path) return context.fail(path.error());
    word = *std::move(path);
  }
  return options.action == "set" ? run_set(context, options) : run_get(context, options);
}

}  // namespace

Command make_policy() {
  auto options = std::make_shared<PolicyOptions>();
  Command command;
  command.name = "policy";
  command.group = "Change";
  command.summary = "set or show how many copies the data of a directory's new files has";
  command.details =
      "policy set DIR... replicas=N   files made below DIR from now on keep N copies of their data, each on another "
      "io\n"
      "                               server; replicas=default removes this setting\n"
      "policy set DIR... min=N        while fewer than N copies of such a file can be reached, it can be read, and "
      "writes\n"
      "                               wait (1); min=default removes this setting\n"
      "policy get DIR...              print both numbers for new files there\n"
      "New directories inherit them. Files that exist stay as they are: copy them to a new name.";
  command.positionals = {
      {"ACTION", "set or get", &options->action, true, {"set", "get"}},
      {"WORD", "directories (spate:/... or on a mount); for set also replicas=N, min=N", &options->words}};
  command.run = [options](Context& context) { return run_policy(context, *options); };
  return command;
}

}  // namespace spate::tools
