// SPDX-License-Identifier: Apache-2.0
// `spate ls`, `spate tree`.
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/commands.h"
#include "tools/name_space.h"
#include "tools/path_arguments.h"

namespace spate::tools {
namespace {

struct LsOptions {
  std::vector<std::string> paths;
  std::string time_style = "long-iso";
  bool all = false;
  bool details = false;
  bool itself = false;
  bool human = false;
  bool recursive = false;
  bool reverse = false;
  bool by_size = false;
  bool by_time = false;
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
                     group_name(a.gid), size_text(options, a.size), time_text(a.mtime, options.time_style), name);
}

/// The results of a listing.
struct Listing {
  nlohmann::json rows = nlohmann::json::array();  // of all directories
  std::string heading;                            // of the present directory
  std::string text;                               // of the present directory or object
  std::vector<std::string> below;                 // sub-directories of the present one
};

/// Leaves out names that begin with a dot, as ls(1) does; --json has all.
bool is_shown(const Context& context, const LsOptions& options, const Listed& entry) {
  return options.all || context.json || !entry.name.starts_with('.');
}

/// Sorts by name, or newest or largest first.
void order(const LsOptions& options, std::vector<Listed>& entries) {
  const auto before = [&](const Listed& a, const Listed& b) {
    const Attributes& x = a.attributes;
    const Attributes& y = b.attributes;
    if (options.by_time && x.mtime.ns != y.mtime.ns) return x.mtime.ns > y.mtime.ns;
    if (options.by_size && x.size != y.size) return x.size > y.size;
    return a.name < b.name;
  };
  std::sort(entries.begin(), entries.end(), before);
  if (options.reverse) std::reverse(entries.begin(), entries.end());
}

/// Lists one directory (or one other object).
Result<void> list_one(Context& context, assembly::ClientProcess& process, const LsOptions& options,
                      const std::string& path, Listing& out) {
  SPATE_TRY(auto object,
            process.run([&](client::Client& c) { return c.stat(client::path_from_root(path, !options.details)); }));
  std::vector<Listed> entries;
  const bool directory = object.attributes.type == FileType::kDirectory && !options.itself;
  if (directory) {
    out.text += out.heading;
    SPATE_TRY(entries, list_directory(process, object.attributes.handle));
    std::erase_if(entries, [&](const Listed& entry) { return !is_shown(context, options, entry); });
    order(options, entries);
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
  if (const std::string wrong = check_time_style(options.time_style); !wrong.empty()) return context.usage(wrong);
  auto process = context.file_system();
  if (!process) return context.fail(process.error());
  std::vector<std::string> paths = options.paths;
  if (paths.empty()) paths.emplace_back("spate:/");
  int code = kExitOk;
  if (!take_remote_paths(context, **process, paths, code)) return code;
  const bool headings = (paths.size() > 1 || options.recursive) && !options.itself;
  Listing listing;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const std::string path = remote_path(paths[i]);
    listing.heading =
        headings && !context.json ? fmt::format("{}spate:{}:\n", i == 0 ? "" : "\n", printable(path)) : "";
    listing.text.clear();
    listing.below.clear();
    auto listed = list_one(context, **process, options, path, listing);
    print(listing.text);
    if (!listed) code = context.fail(listed.error(), "spate:" + path);
    if (options.recursive) {
      for (const std::string& sub : listing.below) paths.push_back("spate:" + sub);
    }
  }
  if (context.json) context.print_json(listing.rows);
  return code;
}

/// A directory that `spate tree` is in. Its path is the branches before its entries.
struct TreeFolder : WalkLevel {
  nlohmann::json rows = nlohmann::json::array();  // --json: its entries
};

/// JSON is printed, and read by others, with a stack for each level.
constexpr std::size_t kMostNested = 400;

/// Walks the tree below a directory.
class TreeWalk {
 public:
  TreeWalk(assembly::ClientProcess& process, bool json) : process_(process), json_(json) {}

  /// Draws the tree, or yields it as nested values.
  Result<nlohmann::json> run(Handle root) {
    SPATE_TRY(std::ignore, enter(root));
    for (;;) {
      TreeFolder& level = levels_.back();
      prefix_.resize(level.path_bytes);
      if (level.next == level.entries.size()) {
        nlohmann::json rows = std::move(level.rows);
        levels_.pop_back();
        if (levels_.empty()) return rows;
        if (json_) levels_.back().rows.back()["entries"] = std::move(rows);
        continue;
      }
      SPATE_TRY(std::ignore, show(level));
    }
  }
  std::uint64_t count() const { return count_; }

 private:
  Result<void> enter(Handle directory) {
    if (json_ && levels_.size() == kMostNested) {
      return Error::told(Errc::kNotSupported, "deeper than " + std::to_string(kMostNested) +
                                                  " levels, too deep for nested JSON: use `spate find --json`");
    }
    SPATE_TRY(auto entries, list_directory(process_, directory));
    levels_.push_back({{std::move(entries), prefix_.size()}});
    return {};
  }
  /// The next entry of `level`, which is gone afterwards if the entry is a directory: it was entered.
  Result<void> show(TreeFolder& level) {
    const Listed& entry = level.entries[level.next++];
    const bool last = level.next == level.entries.size();
    const FileType type = entry.attributes.type;
    ++count_;
    if (json_) {
      level.rows.push_back({{"name", printable(entry.name)}, {"type", type_name(type)}});
    } else {
      print(prefix_ + (last ? "└── " : "├── ") + printable(entry.name) + "\n");
    }
    if (type != FileType::kDirectory) return {};
    prefix_ += last ? "    " : "│   ";
    return enter(entry.attributes.handle);
  }

  assembly::ClientProcess& process_;
  const bool json_;
  std::vector<TreeFolder> levels_;
  std::string prefix_;  // draws the branches of the present directory
  std::uint64_t count_ = 0;
};

int run_tree(Context& context, const LsOptions& options) {
  auto process = context.file_system();
  if (!process) return context.fail(process.error());
  const std::string name = options.paths.empty() ? "spate:/" : options.paths.front();
  if (!is_remote(name)) return context.usage_not_remote(name);
  auto root = (*process)->run([&](client::Client& c) { return c.stat(client::path_from_root(remote_path(name))); });
  if (!root) return context.fail(root.error(), name);
  const bool directory = root->attributes.type == FileType::kDirectory;
  TreeWalk walk(**process, context.json);
  if (!context.json) print(printable(name) + "\n");
  auto below = directory ? walk.run(root->attributes.handle) : nlohmann::json::array();
  if (!below) return context.fail(below.error(), name);
  if (context.json) {
    context.print_json({{"path", printable(name)}, {"type", type_name(root->attributes.type)}, {"entries", *below}});
  } else {
    print(fmt::format("\n{} entries\n", walk.count()));
  }
  return kExitOk;
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
                     {"-a,-A,--all", "also names that begin with a dot (--json has them always)", &options->all},
                     {"-d,--directory", "directories themselves, not what they hold", &options->itself},
                     {"-h,-H,--human", "sizes with units", &options->human},
                     {"-t", "newest first", &options->by_time},
                     {"-S", "largest first", &options->by_size},
                     {"-r,--reverse", "reverse the order", &options->reverse},
                     {"-R,--recursive", "sub-directories too", &options->recursive},
                     time_style_option(&options->time_style, "long-iso")};
  return command;
}

Command make_tree() { return make("tree", "draw a directory tree", std::make_shared<LsOptions>(), run_tree); }

}  // namespace spate::tools
