// SPDX-License-Identifier: Apache-2.0
// `spate df`, `spate setstripe`, `spate getstripe`.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "base/units.h"
#include "dist/registry.h"
#include "tools/commands.h"
#include "tools/groups.h"
#include "tools/name_space.h"
#include "tools/path_arguments.h"
#include "wire/xattr_messages.h"

namespace spate::tools {
namespace {

struct SpaceOptions {
  std::vector<std::string> paths;
  std::string strip;
  std::string count;
  std::string first;
  std::string distribution;
  bool bytes = false;
  bool human = false;
  bool details = false;
};

/// How long an io server may take to report its space.
constexpr Duration kSpaceTimeout = std::chrono::seconds(5);

nlohmann::json json_of(const client::SpaceUse& use, const std::string& fs_name) {
  nlohmann::json targets = nlohmann::json::array();
  nlohmann::json missing = nlohmann::json::array();
  for (const auto& server : use.servers) {
    if (!server.answered)
      missing.push_back({{"server", server.server.value},
                         {"error", server.answered.error().message()},
                         {"code", name(server.answered.error().code())}});
    for (const auto& t : server.targets) {
      targets.push_back({{"server", server.server.value},
                         {"target", t.target.value},
                         {"total", t.total_bytes},
                         {"free", t.free_bytes},
                         {"store", t.store}});
    }
  }
  return {{"name", fs_name},        {"total", use.total_bytes}, {"free", use.free_bytes},
          {"objects", use.objects}, {"targets", targets},       {"missing", missing}};
}

void print_table(const client::SpaceUse& use, const std::string& fs_name, const SpaceOptions& options) {
  const bool details = options.details;
  const auto size = [&](std::uint64_t bytes) { return options.bytes ? std::to_string(bytes) : human_size(bytes); };
  const auto row = [&](const std::string& name, std::uint64_t total, std::uint64_t free, const std::string& more) {
    const double percent = total == 0 ? 0.0 : 100.0 * static_cast<double>(total - free) / static_cast<double>(total);
    print(fmt::format("{:<22} {:>10} {:>10} {:>10} {:>5.1f}% {}\n", name, size(total), size(total - free), size(free),
                      percent, more));
  };
  print(fmt::format("{:<22} {:>10} {:>10} {:>10} {:>6} state{}\n", "", "size", "used", "free", "use%",
                    details ? " store" : ""));
  std::size_t down = 0;
  for (const auto& server : use.servers) down += server.answered ? 0U : 1U;
  row("file system " + fs_name, use.total_bytes, use.free_bytes,
      (down == 0 ? std::string("up") : counted(down, "server") + " not counted") +
          (details ? ", " + counted(use.objects, "object") : ""));
  for (const auto& server : use.servers) {
    if (!server.answered)
      print(fmt::format("  server {:<13} {:>10} {:>10} {:>10} {:>6} DOWN\n", server.server.value, "?", "?", "?", "?"));
    for (const auto& t : server.targets) {
      row(fmt::format("  server {} target {}", server.server.value, t.target.value), t.total_bytes, t.free_bytes,
          (t.free_bytes < kFullBelow ? "full" : "up") + (details ? "  " + t.store : ""));
    }
  }
}

int run_df(Context& context, const SpaceOptions& options) {
  if (options.bytes && options.human) return context.usage("-b and -h exclude each other");
  auto process = context.file_system();
  if (!process) return context.fail(process.error());
  auto use = (*process)->run([](client::Client& c) { return c.space_of_those_there(kSpaceTimeout); });
  if (!use) return context.fail(use.error());
  if (context.json) {
    context.print_json(json_of(*use, (*process)->config().fs.name));
  } else {
    print_table(*use, (*process)->config().fs.name, options);
  }
  int code = kExitOk;
  for (const auto& server : use->servers) {
    if (!server.answered) code = context.fail(server.answered.error());
  }
  return code;
}

Result<void> set_attribute(assembly::ClientProcess& process, const std::string& path, const char* name,
                           const std::string& value) {
  wire::SetxattrRequest request;
  request.where = client::path_from_root(path);
  request.name = name;
  request.value = to_bytes(as_bytes(value));
  return process.run([&](client::Client& c) { return c.setxattr(request); });
}

/// Refuses a number of targets that does not exist. The meta server would silently take as many as there are.
Result<void> check_targets(const config::FileSystemConfig& config, std::uint64_t count, std::uint64_t first) {
  const ClusterMap map = config::cluster_map(config);
  std::size_t targets = 0;
  for (const ServerEntry& server : map.servers) targets += server.roles.io ? server.targets.size() : 0;
  if (count > targets) {
    return Error::told(
        Errc::kInvalidArgument,
        fmt::format("-c {}: the file system has {} targets (`spate df` lists them); 0 takes all, also of later ones",
                    count, targets));
  }
  if (first != 0 &&
      (first > UINT32_MAX || map.server_of_target(TargetId(static_cast<std::uint32_t>(first))) == nullptr)) {
    return Error::told(Errc::kInvalidArgument,
                       fmt::format("-i {}: there is no such target; `spate df` lists them", first));
  }
  return {};
}

Result<void> set_stripe(assembly::ClientProcess& process, const std::string& path, const SpaceOptions& options) {
  wire::LayoutHints hints;
  if (!options.strip.empty()) {
    SPATE_TRY(hints.strip_bytes, parse_size(options.strip));
  }
  // All targets: 0, or -1 as with Lustre's `lfs setstripe`.
  const bool all_targets = options.count.empty() || options.count == "-1";
  SPATE_TRY(const std::uint64_t count, parse_size(all_targets ? "0" : options.count));
  SPATE_TRY(const std::uint64_t first, parse_size(options.first.empty() ? "0" : options.first));
  SPATE_TRY(std::ignore, check_targets(process.config(), count, first));
  if (!options.distribution.empty()) {
    SPATE_TRY(hints.distribution, parse_distribution(options.distribution));
  }
  auto object = process.run([&](client::Client& c) { return c.lookup(client::path_from_root(path)); });
  if (object && object->attributes.type == FileType::kDirectory) {
    if (hints.strip_bytes) {
      SPATE_TRY(std::ignore,
                set_attribute(process, path, "user.spate.strip_bytes", std::to_string(*hints.strip_bytes)));
    }
    if (!options.count.empty()) {
      SPATE_TRY(std::ignore, set_attribute(process, path, "user.spate.strip_count", std::to_string(count)));
    }
    if (!options.first.empty()) {
      SPATE_TRY(std::ignore, set_attribute(process, path, "user.spate.first_target", std::to_string(first)));
    }
    if (hints.distribution) {
      SPATE_TRY(std::ignore, set_attribute(process, path, "user.spate.distribution", describe(*hints.distribution)));
    }
    return {};
  }
  if (object)
    return Error::told(Errc::kExists,
                       "the layout of an existing file cannot be changed; set one on a directory, or on a new file");
  if (object.code() != Errc::kNotFound) return object.error();
  if (!options.count.empty()) hints.slot_count = static_cast<std::uint32_t>(count);
  if (!options.first.empty()) hints.first_target = TargetId(static_cast<std::uint32_t>(first));
  client::NewObject made;
  made.attributes.mode = 0644;
  made.layout = hints;
  SPATE_TRY(std::ignore, process.run([&](client::Client& c) {
    return c.create(client::path_from_root(path), wire::kOpenExclusive, made);
  }));
  return {};
}

int run_setstripe(Context& context, const SpaceOptions& options) {
  auto process = context.file_system();
  if (!process) return context.fail(process.error());
  if (options.strip.empty() && options.count.empty() && options.first.empty() && options.distribution.empty())
    return context.usage("setstripe takes -S, -c, -i or --distribution");
  for (const std::string& name : options.paths) {
    if (!is_remote(name)) return context.usage_not_remote(name);
    auto set = set_stripe(**process, remote_path(name), options);
    if (!set) return context.fail(set.error(), name);
  }
  return kExitOk;
}

/// The directory's attribute, if it is set there.
std::optional<std::string> directory_setting(assembly::ClientProcess& process, const std::string& path,
                                             const char* name) {
  auto value = process.run([&](client::Client& c) { return c.getxattr(client::path_from_root(path), name); });
  return value ? std::optional(std::string(as_text(*value))) : std::nullopt;
}

/// Prints the layout of new files below a directory, and whether it comes from the directory or from the file system's
/// default.
void tell_directory(const config::FileSystemConfig& config, const std::string& name,
                    const std::optional<std::string>& strip, const std::optional<std::string>& count,
                    const std::optional<std::string>& first, const std::optional<std::string>& distribution) {
  const auto from = [](bool here) { return here ? "" : " (default)"; };
  const auto number = [](const std::string& text) { return std::strtoull(text.c_str(), nullptr, 10); };
  const std::uint64_t bytes = strip ? number(*strip) : config.defaults.strip_bytes;
  const std::uint64_t targets = count ? number(*count) : config.defaults.strip_count;
  print(fmt::format("{}: new files below get {}{}, strips of {}{}, on {}{}, beginning with {}{}\n", printable(name),
                    distribution.value_or(describe(DistributionSpec())), from(distribution.has_value()),
                    human_size(bytes), from(strip.has_value()),
                    targets == 0 ? "all targets" : counted(targets, "target"), from(count.has_value()),
                    first ? "target " + *first : "a target that differs from file to file", from(first.has_value())));
}

/// Prints the layout of a file, and returns it.
Result<nlohmann::json> tell_file(const Context& context, assembly::ClientProcess& process, const std::string& name,
                                 const Layout& layout) {
  SPATE_TRY(const GroupMap groups, groups_of(process, layout));
  nlohmann::json row = to_json(layout);
  row["path"] = printable(name);
  const bool mirrored = layout.redundancy != Redundancy::kNone;
  if (mirrored) {
    row["groups"] = nlohmann::json::array();
    row["slots"] = nlohmann::json::array();
    for (const Slot& slot : layout.slots) {
      row["groups"].push_back(slot.targets.front().value);
      nlohmann::json& targets = row["slots"].emplace_back(nlohmann::json::array());
      for (const TargetId target : targets_of(slot, groups)) targets.push_back(target.value);
    }
  }
  if (!context.json)
    print(fmt::format("{}: {}, strips of {}, {}:{}\n", printable(name), describe(layout.distribution),
                      human_size(layout.strip_bytes), counted(layout.slots.size(), mirrored ? "group" : "target"),
                      slots_text(layout, groups)));
  return row;
}

int run_getstripe(Context& context, const SpaceOptions& options) {
  std::vector<std::string> paths;
  for (const std::string& path : options.paths) {
    auto named = is_remote(path) ? Result<std::string>(path) : mounted_path(context, path);
    if (!named) return context.fail(named.error());
    paths.push_back(*std::move(named));
  }
  auto process = context.file_system();
  if (!process) return context.fail(process.error());
  nlohmann::json list = nlohmann::json::array();
  int code = kExitOk;
  if (!take_remote_paths(context, **process, paths, code)) return code;
  for (const std::string& name : paths) {
    const std::string path = remote_path(name);
    auto object = (*process)->run([&](client::Client& c) { return c.lookup(client::path_from_root(path)); });
    if (!object) {
      code = context.fail(object.error(), name);
      continue;
    }
    if (object->layout) {
      const auto told = tell_file(context, **process, name, *object->layout);
      if (told) list.push_back(*told);
      if (!told) code = context.fail(told.error(), name);
      continue;
    }
    const auto strip = directory_setting(**process, path, "user.spate.strip_bytes");
    const auto count = directory_setting(**process, path, "user.spate.strip_count");
    const auto first = directory_setting(**process, path, "user.spate.first_target");
    const auto distribution = directory_setting(**process, path, "user.spate.distribution");
    const auto replicas = directory_setting(**process, path, "user.spate.replicas");
    list.push_back({{"path", printable(name)},
                    {"distribution", distribution.value_or("default")},
                    {"strip_bytes", strip.value_or("default")},
                    {"strip_count", count.value_or("default")},
                    {"first_target", first.value_or("default")},
                    {"replicas", replicas.value_or("default")}});
    if (!context.json) tell_directory((*process)->config(), name, strip, count, first, distribution);
  }
  if (context.json) context.print_json(list);
  return code;
}

}  // namespace

Command make_df() {
  auto options = std::make_shared<SpaceOptions>();
  Command command;
  command.name = "df";
  command.group = "Look";
  command.summary = "show how full the file system and each target is";
  command.options = {{"-h,--human", "sizes with units (the default)", &options->human},
                     {"-b,--bytes", "sizes in bytes", &options->bytes},
                     {"-v,--verbose", "also show the objects, and the storage of each target", &options->details}};
  command.run = [options](Context& context) { return run_df(context, *options); };
  return command;
}

Command make_setstripe() {
  auto options = std::make_shared<SpaceOptions>();
  Command command;
  command.name = "setstripe";
  command.group = "Change";
  command.summary = "set the layout of a directory's new files, or make a new file with it";
  command.positionals = {{"PATH", "spate:/..., or a path on a mount", &options->paths, true}};
  command.options = {{"-S,--strip", "bytes in one strip: 4K to 4G", &options->strip},
                     {"-c,--count", "number of targets of a file; 0 or -1: all", &options->count},
                     {"-i,--first", "the first target's id (see `spate df --json`)", &options->first},
                     {"-d,--distribution", "which target holds which byte: NAME or NAME:PARAMETERS, see below",
                      &options->distribution}};
  command.details = "Distributions:\n";
  for (const DistributionType* type : distribution_types()) {
    command.details += fmt::format("  {:<14} {}\n", type->name(), type->summary());
  }
  command.details += "Example: spate setstripe --distribution 'varstrip:64 KiB,1 MiB' spate:/results";
  command.run = [options](Context& context) { return run_setstripe(context, *options); };
  return command;
}

Command make_getstripe() {
  auto options = std::make_shared<SpaceOptions>();
  Command command;
  command.name = "getstripe";
  command.group = "Look";
  command.summary = "show the layout of a file, or that of a directory's new files";
  command.positionals = {{"PATH", "spate:/..., or a path on a mount", &options->paths, true}};
  command.run = [options](Context& context) { return run_getstripe(context, *options); };
  return command;
}

}  // namespace spate::tools
