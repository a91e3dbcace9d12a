// SPDX-License-Identifier: Apache-2.0
// `spate du`.
#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <set>

#include "tools/commands.h"
#include "tools/name_space.h"
#include "tools/path_arguments.h"

namespace spate::tools {
namespace {

struct DuOptions {
  std::vector<std::string> paths;
  bool summarize = false;
  bool bytes = false;
  bool human = false;
};

struct Usage {
  std::uint64_t allocated = 0;
  std::uint64_t size = 0;
  std::uint64_t objects = 0;
};

void add(Usage& usage, const Attributes& a, std::set<std::uint64_t>& seen) {
  if (a.link_count > 1 && a.type != FileType::kDirectory && !seen.insert(a.handle.value).second) return;
  usage.allocated += a.allocated_bytes;
  usage.size += a.type == FileType::kDirectory ? 0 : a.size;
  ++usage.objects;
}

/// Prints "     4 KiB      1.2 KiB spate:/a": allocated, and the files' sizes.
void tell_usage(const DuOptions& options, const Usage& usage, const std::string& name) {
  const auto text = [&](std::uint64_t bytes) { return options.bytes ? std::to_string(bytes) : human_size(bytes); };
  print(fmt::format("{:>10} {:>10} {}\n", text(usage.allocated), text(usage.size), printable(name)));
}

/// State of a measurement. A file with several names counts once.
struct Measuring {
  const DuOptions& options;
  bool tell = false;  // print each directory
  std::set<std::uint64_t> seen = {};
};

struct MeasuredFolder : WalkLevel {
  Usage usage = {};
};

void add(Usage& usage, const Usage& below) {
  usage.allocated += below.allocated;
  usage.size += below.size;
  usage.objects += below.objects;
}

Result<Usage> measure(assembly::ClientProcess& process, Handle directory, std::string path, Measuring& measuring) {
  std::vector<MeasuredFolder> levels;
  SPATE_TRY(auto listed, list_directory(process, directory));
  levels.push_back({{std::move(listed), path.size()}});
  for (;;) {
    MeasuredFolder& level = levels.back();
    path.resize(level.path_bytes);
    const Listed* const entry = level.take();
    if (entry == nullptr) {
      if (measuring.tell) tell_usage(measuring.options, level.usage, "spate:" + path);
      const Usage whole = level.usage;
      levels.pop_back();
      if (levels.empty()) return whole;
      add(levels.back().usage, whole);
      continue;
    }
    add(level.usage, entry->attributes, measuring.seen);
    if (entry->attributes.type != FileType::kDirectory) continue;
    path = join_path(path, entry->name);
    SPATE_TRY(auto below, list_directory(process, entry->attributes.handle));
    levels.push_back({{std::move(below), path.size()}});
  }
}

int run_du(Context& context, const DuOptions& options) {
  if (options.bytes && options.human) return context.usage("-b and -h exclude each other");
  auto process = context.file_system();
  if (!process) return context.fail(process.error());
  std::vector<std::string> paths = options.paths;
  if (paths.empty()) paths.emplace_back("spate:/");
  int code = kExitOk;
  if (!take_remote_paths(context, **process, paths, code)) return code;
  nlohmann::json list = nlohmann::json::array();
  Measuring measuring{options, !options.summarize && !context.json};
  for (const std::string& name : paths) {
    const std::string path = remote_path(name);
    auto object = (*process)->run([&](client::Client& c) { return c.stat(client::path_from_root(path)); });
    if (!object) {
      code = context.fail(object.error(), name);
      continue;
    }
    const bool directory = object->attributes.type == FileType::kDirectory;
    Usage usage;
    if (directory) {
      auto measured = measure(**process, object->attributes.handle, path, measuring);
      if (!measured) {
        code = context.fail(measured.error(), name);
        continue;
      }
      usage = *measured;
    }
    add(usage, object->attributes, measuring.seen);
    if (context.json) {
      list.push_back({{"path", printable(name)},
                      {"allocated", usage.allocated},
                      {"size", usage.size},
                      {"objects", usage.objects}});
    } else if (!measuring.tell || !directory) {
      tell_usage(options, usage, name);
    }
  }
  if (context.json) context.print_json(list);
  return code;
}

}  // namespace

Command make_du() {
  auto options = std::make_shared<DuOptions>();
  Command command;
  command.name = "du";
  command.group = "Look";
  command.summary = "show the space that trees take: allocated bytes, and the sizes of their files";
  command.positionals = {{"PATH", "spate:/...", &options->paths}};
  command.options = {{"-s,--summarize", "only the totals", &options->summarize},
                     {"-h,--human", "sizes with units (the default)", &options->human},
                     {"-b,--bytes", "sizes in bytes", &options->bytes}};
  command.run = [options](Context& context) { return run_du(context, *options); };
  return command;
}

}  // namespace spate::tools
