// SPDX-License-Identifier: Apache-2.0
// `spate ls`, `spate tree`, `spate du`, `spate stat`.
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "tools/name_space.h"

namespace spate::tools {
namespace {

struct LsOptions {
  std::vector<std::string> paths;
  bool details = false;
  bool human = false;
  bool recursive = false;
  bool summarize = false;
};

Result<std::string> link_target(assembly::ClientProcess& process, const std::string& path) {
  SPATE_TRY(auto reply, process.run([&](client::Client& c) { return c.stat(client::path_from_root(path, false)); }));
  return reply.target;
}

std::string size_text(const LsOptions& options, std::uint64_t size) {
  return options.human ? human_size(size) : std::to_string(size);
}

std::string line(const LsOptions& options, const Listed& entry, const std::string& target) {
  const Attributes& a = entry.attributes;
  std::string name = printable(entry.name);
  if (!target.empty()) name += " -> " + printable(target);
  if (!options.details) return name + "\n";
  return fmt::format("{} {:>3} {:<8} {:<8} {:>12} {} {}\n", mode_text(a.type, a.mode), a.link_count, user_name(a.uid),
                     group_name(a.gid), size_text(options, a.size), time_text(a.mtime), name);
}

/// What listing has found.
struct Listing {
  nlohmann::json rows = nlohmann::json::array();  // of all directories
  std::string text;                               // of this one
  std::vector<std::string> below;                 // sub-directories of this one
};

/// One directory (or one other object).
Result<void> list_one(Context& context, assembly::ClientProcess& process, const LsOptions& options,
                      const std::string& path, Listing& out) {
  SPATE_TRY(auto object,
            process.run([&](client::Client& c) { return c.stat(client::path_from_root(path, !options.details)); }));
  std::vector<Listed> entries;
  const bool directory = object.attributes.type == FileType::kDirectory;
  if (directory) {
    SPATE_TRY(entries, list_directory(process, object.attributes.handle));
  } else {
    entries.push_back({path, object.attributes, {}});
  }
  for (const Listed& entry : entries) {
    const std::string full = directory ? join_path(path, entry.name) : path;
    std::string target;
    if (entry.attributes.type == FileType::kSymlink && options.details) {
      SPATE_TRY(target, link_target(process, full));
    }
    if (context.json) {
      nlohmann::json& row = out.rows.emplace_back(to_json(entry.attributes));
      row["name"] = printable(entry.name);
      row["path"] = "spate:" + printable(full);
      if (!target.empty()) row["target"] = printable(target);
    } else {
      out.text += line(options, entry, target);
    }
    if (entry.attributes.type == FileType::kDirectory && directory) out.below.push_back(full);
  }
  return {};
}

int run_ls(Context& context, const LsOptions& options) {
  auto process = context.file_system();
  if (!process) return context.fail(process.error());
  std::vector<std::string> paths = options.paths;
  if (paths.empty()) paths.emplace_back("spate:/");
  const bool headings = paths.size() > 1 || options.recursive;
  int code = kExitOk;
  Listing listing;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (!is_remote(paths[i])) return context.usage(paths[i] + ": paths in the file system begin with spate:");
    const std::string path = remote_path(paths[i]);
    listing.text = headings && !context.json ? fmt::format("{}spate:{}:\n", i == 0 ? "" : "\n", printable(path)) : "";
    listing.below.clear();
    auto listed = list_one(context, **process, options, path, listing);
    print(listing.text);
    if (!listed) code = context.fail(listed.error(), "spate:" + path);
    if (options.recursive) {
      for (const std::string& sub : listing.below) paths.push_back("spate:" + sub);
    }
  }
  if (context.json) print_json(listing.rows);
  return code;
}

/// The same as nested values.
Result<nlohmann::json> nested(assembly::ClientProcess& process, Handle directory) {
  nlohmann::json list = nlohmann::json::array();
  SPATE_TRY(const auto entries, list_directory(process, directory));
  for (const Listed& entry : entries) {
    nlohmann::json& row = list.emplace_back();
    row = {{"name", printable(entry.name)}, {"type", type_name(entry.attributes.type)}};
    if (entry.attributes.type != FileType::kDirectory) continue;
    SPATE_TRY(row["entries"], nested(process, entry.attributes.handle));
  }
  return list;
}

/// Depth first; `prefix` draws the branches.
Result<void> draw(assembly::ClientProcess& process, Handle directory, const std::string& prefix, std::uint64_t& count) {
  SPATE_TRY(const auto entries, list_directory(process, directory));
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const bool last = i + 1 == entries.size();
    print(prefix + (last ? "└── " : "├── ") + printable(entries[i].name) + "\n");
    ++count;
    if (entries[i].attributes.type != FileType::kDirectory) continue;
    SPATE_TRY(std::ignore, draw(process, entries[i].attributes.handle, prefix + (last ? "    " : "│   "), count));
  }
  return {};
}

int run_tree(Context& context, const LsOptions& options) {
  auto process = context.file_system();
  if (!process) return context.fail(process.error());
  const std::string name = options.paths.empty() ? "spate:/" : options.paths.front();
  if (!is_remote(name)) return context.usage(name + ": paths in the file system begin with spate:");
  auto root = (*process)->run([&](client::Client& c) { return c.stat(client::path_from_root(remote_path(name))); });
  if (!root) return context.fail(root.error(), name);
  const bool directory = root->attributes.type == FileType::kDirectory;
  if (context.json) {
    auto below = directory ? nested(**process, root->attributes.handle) : nlohmann::json::array();
    if (!below) return context.fail(below.error(), name);
    print_json({{"path", printable(name)}, {"type", type_name(root->attributes.type)}, {"entries", *below}});
    return kExitOk;
  }
  print(printable(name) + "\n");
  std::uint64_t count = 0;
  if (directory) {
    auto drawn = draw(**process, root->attributes.handle, "", count);
    if (!drawn) return context.fail(drawn.error(), name);
  }
  print(fmt::format("\n{} entries\n", count));
  return kExitOk;
}

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

Result<Usage> measure(assembly::ClientProcess& process, Handle directory, const std::string& path, bool tell,
                      std::set<std::uint64_t>& seen) {
  Usage usage;
  SPATE_TRY(const auto entries, list_directory(process, directory));
  for (const Listed& entry : entries) {
    add(usage, entry.attributes, seen);
    if (entry.attributes.type != FileType::kDirectory) continue;
    SPATE_TRY(const Usage below, measure(process, entry.attributes.handle, join_path(path, entry.name), tell, seen));
    usage.allocated += below.allocated;
    usage.size += below.size;
    usage.objects += below.objects;
  }
  if (tell)
    print(
        fmt::format("{:>10} {:>10} spate:{}\n", human_size(usage.allocated), human_size(usage.size), printable(path)));
  return usage;
}

int run_du(Context& context, const LsOptions& options) {
  auto process = context.file_system();
  if (!process) return context.fail(process.error());
  std::vector<std::string> paths = options.paths;
  if (paths.empty()) paths.emplace_back("spate:/");
  nlohmann::json list = nlohmann::json::array();
  std::set<std::uint64_t> seen;
  for (const std::string& name : paths) {
    if (!is_remote(name)) return context.usage(name + ": paths in the file system begin with spate:");
    const std::string path = remote_path(name);
    auto object = (*process)->run([&](client::Client& c) { return c.stat(client::path_from_root(path)); });
    if (!object) return context.fail(object.error(), name);
    Usage usage;
    const bool tell = !options.summarize && !context.json;
    if (object->attributes.type == FileType::kDirectory) {
      auto measured = measure(**process, object->attributes.handle, path, tell, seen);
      if (!measured) return context.fail(measured.error(), name);
      usage = *measured;
    }
    add(usage, object->attributes, seen);
    if (context.json) {
      list.push_back({{"path", printable(name)},
                      {"allocated", usage.allocated},
                      {"size", usage.size},
                      {"objects", usage.objects}});
    } else if (!tell || object->attributes.type != FileType::kDirectory) {
      print(fmt::format("{:>10} {:>10} {}\n", human_size(usage.allocated), human_size(usage.size), printable(name)));
    }
  }
  if (context.json) print_json(list);
  return kExitOk;
}

int run_stat(Context& context, const LsOptions& options) {
  auto process = context.file_system();
  if (!process) return context.fail(process.error());
  nlohmann::json list = nlohmann::json::array();
  int code = kExitOk;
  for (const std::string& name : options.paths) {
    if (!is_remote(name)) return context.usage(name + ": paths in the file system begin with spate:");
    auto object =
        (*process)->run([&](client::Client& c) { return c.stat(client::path_from_root(remote_path(name), false)); });
    if (!object) {
      code = context.fail(object.error(), name);
      continue;
    }
    const Attributes& a = object->attributes;
    if (context.json) {
      list.push_back(to_json(a));
      list.back()["path"] = printable(name);
      if (object->layout) list.back()["layout"] = to_json(*object->layout);
      if (!object->target.empty()) list.back()["target"] = printable(object->target);
      continue;
    }
    std::string text = fmt::format("  path: {}{}\n  type: {}   handle: {}   links: {}\n", printable(name),
                                   object->target.empty() ? "" : " -> " + printable(object->target), type_name(a.type),
                                   a.handle.value, a.link_count);
    text += fmt::format("  size: {} bytes, {} allocated\n  mode: {:04o} ({})   owner: {} ({})   group: {} ({})\n",
                        a.size, human_size(a.allocated_bytes), a.mode, mode_text(a.type, a.mode), a.uid,
                        user_name(a.uid), a.gid, group_name(a.gid));
    text += fmt::format("  modified: {}   changed: {}   read: {}   made: {}\n", time_text(a.mtime), time_text(a.ctime),
                        time_text(a.atime), time_text(a.btime));
    if (object->layout) {
      text += fmt::format("  layout: {} strips of {} over {} targets\n", "simple_stripe,",
                          human_size(object->layout->strip_bytes), object->layout->slots.size());
    }
    print(text);
  }
  if (context.json) print_json(list);
  return code;
}

Command make(std::string name, std::string summary, const std::shared_ptr<LsOptions>& options,
             int (*run)(Context&, const LsOptions&)) {
  Command command;
  command.name = std::move(name);
  command.group = "Look";
  command.summary = std::move(summary);
  command.positionals = {{"PATH", "spate:/...", &options->paths}};
  command.run = [options, run](Context& context) { return run(context, *options); };
  return command;
}

}  // namespace

Command make_ls() {
  auto options = std::make_shared<LsOptions>();
  Command command = make("ls", "list directories", options, run_ls);
  command.options = {{"-l,--long", "modes, owners, sizes, times, link targets", &options->details},
                     {"-H,--human", "sizes with units", &options->human},
                     {"-R,--recursive", "sub-directories too", &options->recursive}};
  return command;
}

Command make_tree() { return make("tree", "draw a directory tree", std::make_shared<LsOptions>(), run_tree); }

Command make_du() {
  auto options = std::make_shared<LsOptions>();
  Command command = make("du", "space that trees take: allocated, and their files' sizes", options, run_du);
  command.options = {{"-s,--summarize", "only the totals", &options->summarize}};
  return command;
}

Command make_stat() {
  Command command = make("stat", "show everything known of an object", std::make_shared<LsOptions>(), run_stat);
  command.positionals.front().required = true;
  return command;
}

}  // namespace spate::tools
