// SPDX-License-Identifier: Apache-2.0
// `spate policy`: how many copies the data of a directory's new files has.
#include <fmt/core.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "tools/commands.h"
#include "tools/name_space.h"
#include "tools/path_arguments.h"
#include "tools/text.h"
#include "wire/xattr_messages.h"

namespace spate::tools {
namespace {

constexpr const char* kAttribute = "user.spate.replicas";
constexpr std::string_view kReplicas = "replicas=";
constexpr std::string_view kDefault = "default";

struct PolicyOptions {
  std::string action;
  std::vector<std::string> words;
};

/// The value behind "replicas=". kInvalidArgument: the word does not begin like that.
Result<std::string> replicas_of(const std::string& word) {
  if (!word.starts_with(kReplicas))
    return Error::told(Errc::kInvalidArgument, "policy takes replicas=N, not \"" + word + "\"");
  const std::string value = word.substr(kReplicas.size());
  if (value == kDefault) return value;
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error == std::errc() && end == value.data() + value.size() && number >= 1 && number <= kMaxReplicas) return value;
  return Error::told(Errc::kInvalidArgument,
                     fmt::format("{} takes 1 to {}, or default", word.substr(0, kReplicas.size()), kMaxReplicas));
}

Result<void> set_replicas(assembly::ClientProcess& process, const std::string& path, const std::string& value) {
  SPATE_TRY(const auto object, process.run([&](client::Client& c) { return c.lookup(client::path_from_root(path)); }));
  if (object.attributes.type != FileType::kDirectory) {
    return Error::told(Errc::kNotDirectory,
                       "the number of copies is set on a directory, for the files that are made below it from then on");
  }
  if (value == kDefault) {
    const auto removed =
        process.run([&](client::Client& c) { return c.removexattr(client::path_from_root(path), kAttribute); });
    return removed || removed.code() == Errc::kNoAttribute ? Result<void>() : removed.error();
  }
  wire::SetxattrRequest request;
  request.where = client::path_from_root(path);
  request.name = kAttribute;
  request.value = to_bytes(as_bytes(value));
  return process.run([&](client::Client& c) { return c.setxattr(request); });
}

struct Policy {
  std::uint32_t replicas = 1;
  bool is_default = true;
};

Result<Policy> policy_of(assembly::ClientProcess& process, const std::string& path) {
  auto value = process.run([&](client::Client& c) { return c.getxattr(client::path_from_root(path), kAttribute); });
  if (!value && value.code() != Errc::kNoAttribute) return std::move(value).error();
  Policy policy{process.config().defaults.replicas, true};
  if (value)
    policy = {static_cast<std::uint32_t>(std::strtoul(std::string(as_text(*value)).c_str(), nullptr, 10)), false};
  return policy;
}

int run_set(Context& context, const PolicyOptions& options) {
  if (options.words.size() < 2) return context.usage("policy set takes a directory and replicas=N");
  const auto value = replicas_of(options.words.back());
  if (!value) return context.usage(value.error().message());
  const std::vector<std::string> paths(options.words.begin(), options.words.end() - 1);
  return for_each_remote_path(context, paths,
                              [&value](assembly::ClientProcess& process, const std::string&, const std::string& path) {
                                return set_replicas(process, path, *value);
                              });
}

int run_get(Context& context, const PolicyOptions& options) {
  if (options.words.empty()) return context.usage("policy get takes a directory");
  nlohmann::json list = nlohmann::json::array();
  const int code = for_each_remote_path(
      context, options.words,
      [&](assembly::ClientProcess& process, const std::string& name, const std::string& path) -> Result<void> {
        SPATE_TRY(const Policy policy, policy_of(process, path));
        list.push_back({{"path", printable(name)}, {"replicas", policy.replicas}, {"default", policy.is_default}});
        if (!context.json)
          print(fmt::format("{}: replicas={}{}\n", printable(name), policy.replicas,
                            policy.is_default ? " (default)" : ""));
        return {};
      });
  if (context.json) context.print_json(list);
  return code;
}

int run_policy(Context& context, PolicyOptions& options) {
  for (std::string& word : options.words) {
    if (is_remote(word) || word.find('=') != std::string::npos) continue;
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
      "policy get DIR...              print the number of copies that new files there have\n"
      "New directories inherit it. Files that exist stay as they are: copy them to a new name.";
  command.positionals = {{"ACTION", "set or get", &options->action, true, {"set", "get"}},
                         {"WORD", "directories (spate:/... or on a mount); for set also replicas=N", &options->words}};
  command.run = [options](Context& context) { return run_policy(context, *options); };
  return command;
}

}  // namespace spate::tools
