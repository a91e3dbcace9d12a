// SPDX-License-Identifier: Apache-2.0
// `spate mkdir`, `spate rm`, `spate mv`, `spate ln`.
#include <fmt/core.h>

#include "tools/commands.h"
#include "tools/destination.h"
#include "tools/name_space.h"
#include "tools/path_arguments.h"
#include "tools/remove.h"

namespace spate::tools {
namespace {

struct ChangeOptions {
  std::vector<std::string> paths;
  bool parents = false;
  bool recursive = false;
  bool force = false;
  bool symbolic = false;
  bool no_clobber = false;
  bool exchange = false;
};

Result<void> make_directory(assembly::ClientProcess& process, const std::string& path, bool parents) {
  wire::NewAttributes attributes;
  attributes.mode = 0777U & ~own_umask();
  auto made = process.run([&](client::Client& c) { return c.mkdir(client::path_from_root(path), attributes); });
  if (made) return {};
  if (!parents) return made.error();
  if (made.code() == Errc::kExists) {
    SPATE_TRY(auto there, process.run([&](client::Client& c) { return c.stat(client::path_from_root(path)); }));
    if (there.attributes.type == FileType::kDirectory) return {};
    return Errc::kExists;
  }
  if (made.code() != Errc::kNotFound || path == "/") return made.error();
  SPATE_TRY(std::ignore, make_directory(process, split_path(path).first, true));
  return make_directory(process, path, true);
}

int run_mkdir(Context& context, const ChangeOptions& options) {
  auto process = context.file_system();
  if (!process) return context.fail(process.error());
  int code = kExitOk;
  for (const std::string& name : options.paths) {
    if (!is_remote(name)) return context.usage_not_remote(name);
    auto made = make_directory(**process, remote_path(name), options.parents);
    if (!made) code = context.fail(made.error(), name);
  }
  return code;
}

/// Refuses names that rm(1) refuses, before anything is removed. Otherwise everything below the name would be gone
/// already.
Result<void> check_removable(const std::string& name) {
  if (name.empty()) return Error::told(Errc::kNotPermitted, "the root directory cannot be removed");
  if (name == "." || name == "..")
    return Error::told(Errc::kInvalidArgument, "\".\" and \"..\" are not removed: name the directory itself");
  return {};
}

Result<void> remove_one(assembly::ClientProcess& process, const std::string& named, const ChangeOptions& options) {
  const auto [folder, name] = split_path(named);
  SPATE_TRY(std::ignore, check_removable(name));
  // Without a slash at the end, which would follow a link.
  const std::string path = join_path(folder, name);
  auto object = process.run([&](client::Client& c) { return c.lookup(client::path_from_root(path, false)); });
  if (!object) {
    if (options.force && object.code() == Errc::kNotFound) return {};
    return object.error();
  }
  if (object->attributes.type != FileType::kDirectory) {
    if (named.ends_with('/')) return Errc::kNotDirectory;
    return process.run([&](client::Client& c) { return c.unlink(client::path_from_root(path, false)); });
  }
  if (!options.recursive) return Error::told(Errc::kIsDirectory, "use -r to remove it with everything below");
  SPATE_TRY(auto parent,
            process.run([&, f = folder](client::Client& c) { return c.lookup(client::path_from_root(f)); }));
  return process.run([&, n = name](client::Client& c) {
    return remove_tree(c, parent.attributes.handle, n, object->attributes.handle);
  });
}

int run_rm(Context& context, const ChangeOptions& options) {
  return for_each_remote_path(context, options.paths,
                              [&](assembly::ClientProcess& process, const std::string&, const std::string& path) {
                                return remove_one(process, path, options);
                              });
}

int run_rmdir(Context& context, const ChangeOptions& options) {
  return for_each_remote_path(
      context, options.paths, [](assembly::ClientProcess& process, const std::string&, const std::string& path) {
        return process.run([&](client::Client& c) { return c.rmdir(client::path_from_root(path, false)); });
      });
}

/// `target`, or if that is a directory, the name of `source` in it.
std::string destination(assembly::ClientProcess& process, const std::string& source, const std::string& target) {
  auto there = process.run([&](client::Client& c) { return c.stat(client::path_from_root(target)); });
  if (there && there->attributes.type == FileType::kDirectory) return join_path(target, split_path(source).second);
  return target;
}

/// A rename or a further name of an object: paths from the root.
struct Renaming {
  std::string from;
  std::string to;
};

/// The error of a rename or link, reported for the path that caused it.
Error blame(assembly::ClientProcess& process, Error error, const Renaming& names) {
  const Destination destination{{}, "spate:" + names.from, names.to};
  if (error.code() == Errc::kExists || error.code() == Errc::kNotEmpty)
    return cannot_make(std::move(error), destination);
  const bool by_name =
      error.code() == Errc::kNotFound || error.code() == Errc::kNotDirectory || error.code() == Errc::kIsDirectory;
  if (!by_name) return std::move(error).within("spate:" + names.from + " to spate:" + names.to);
  const auto source =
      process.run([&](client::Client& c) { return c.lookup(client::path_from_root(names.from, false)); });
  if (!source) return Error(source.error()).within("spate:" + names.from);
  if (error.code() == Errc::kNotDirectory && source->attributes.type == FileType::kDirectory) {
    return std::move(error).within("cannot overwrite non-directory spate:" + names.to +
                                   " with directory spate:" + names.from);
  }
  return cannot_make(std::move(error), destination);
}

Result<void> move_one(assembly::ClientProcess& process, const Renaming& names, std::uint8_t flags) {
  auto moved = process.run([&](client::Client& c) {
    return c.rename(client::path_from_root(names.from, false), client::path_from_root(names.to, false), flags);
  });
  if (moved) return {};
  if (moved.code() == Errc::kInvalidArgument && names.to.starts_with(join_path(names.from, ""))) {
    return Error::told(moved.code(), "spate:" + names.from + " cannot be moved into itself, to spate:" + names.to);
  }
  return blame(process, std::move(moved).error(), names);
}

int run_mv(Context& context, const ChangeOptions& options) {
  if (options.paths.size() < 2) return context.usage("mv takes a source and a destination");
  for (const std::string& name : options.paths) {
    if (!is_remote(name))
      return context.usage(name + ": mv moves inside the file system only (spate:/...); use cp and rm");
  }
  if (options.exchange && options.no_clobber) return context.usage("--exchange and -n exclude each other");
  auto process = context.file_system();
  if (!process) return context.fail(process.error());
  const std::string target = remote_path(options.paths.back());
  std::uint8_t flags = 0;
  if (options.no_clobber) flags = wire::kRenameNoReplace;
  if (options.exchange) flags = wire::kRenameExchange;
  const auto sources = expand_patterns(**process, {options.paths.begin(), options.paths.end() - 1});
  if (!sources) return context.fail(sources.error());
  int code = kExitOk;
  for (const std::string& named : *sources) {
    const std::string source = remote_path(named);
    const Renaming names{source, options.exchange ? target : destination(**process, source, target)};
    auto moved = move_one(**process, names, flags);
    if (!moved) code = context.fail(moved.error());
  }
  return code;
}

Result<void> link_one(assembly::ClientProcess& process, const Renaming& names) {
  auto made = process.run([&](client::Client& c) {
    return c.link(client::path_from_root(names.from, false), client::path_from_root(names.to, false));
  });
  if (made) return {};
  Error why = blame(process, made.error(), names);
  if (made.code() != Errc::kNotPermitted) return why;
  const auto source =
      process.run([&](client::Client& c) { return c.lookup(client::path_from_root(names.from, false)); });
  if (!source || source->attributes.type != FileType::kDirectory) return why;
  return Error::told(made.code(),
                     "spate:" + names.from + ": a directory has no hard links; `spate ln -s` makes a symbolic one");
}

Result<void> symlink_one(assembly::ClientProcess& process, const std::string& target, const std::string& where) {
  auto made = process.run([&](client::Client& c) { return c.symlink(client::path_from_root(where, false), target); });
  if (made) return {};
  return cannot_make(made.error(), Destination{{}, target, where});
}

int run_ln(Context& context, const ChangeOptions& options) {
  if (options.paths.size() != 2) return context.usage("ln takes a target and a name");
  const std::string& name = options.paths[1];
  if (!is_remote(name)) return context.usage(name + ": the new name begins with spate:");
  const std::string& existing = options.paths[0];
  if (!options.symbolic && !is_remote(existing))
    return context.usage(existing + ": hard links stay inside the file system (spate:/...)");
  auto process = context.file_system();
  if (!process) return context.fail(process.error());
  const std::string target = is_remote(existing) ? remote_path(existing) : existing;
  const std::string where = destination(**process, target, remote_path(name));
  const Result<void> made =
      options.symbolic ? symlink_one(**process, target, where) : link_one(**process, {target, where});
  return made ? kExitOk : context.fail(made.error());
}

Command make(std::string name, std::string summary, const std::shared_ptr<ChangeOptions>& options,
             int (*run)(Context&, const ChangeOptions&)) {
  Command command;
  command.name = std::move(name);
  command.group = "Change";
  command.summary = std::move(summary);
  command.positionals = {{"PATH", "spate:/...", &options->paths, true}};
  command.run = [options, run](Context& context) { return run(context, *options); };
  return command;
}

}  // namespace

Command make_mkdir() {
  auto options = std::make_shared<ChangeOptions>();
  Command command = make("mkdir", "make directories", options, run_mkdir);
  command.options = {
      {"-p,--parents", "also make the directories above; an existing directory is not an error", &options->parents}};
  return command;
}

Command make_rm() {
  auto options = std::make_shared<ChangeOptions>();
  Command command = make("rm", "remove files and trees", options, run_rm);
  command.options = {{"-r,--recursive", "directories with everything below", &options->recursive},
                     {"-f,--force", "a PATH that does not exist is not an error", &options->force}};
  return command;
}

Command make_rmdir() { return make("rmdir", "remove empty directories", std::make_shared<ChangeOptions>(), run_rmdir); }

Command make_mv() {
  auto options = std::make_shared<ChangeOptions>();
  Command command = make("mv", "rename, or move into a directory", options, run_mv);
  command.options = {{"-n,--no-clobber", "never replace an object that exists", &options->no_clobber},
                     {"-x,--exchange", "swap the two, in one step", &options->exchange}};
  return command;
}

Command make_ln() {
  auto options = std::make_shared<ChangeOptions>();
  Command command = make("ln", "make a hard link, or with -s a symbolic one", options, run_ln);
  command.options = {{"-s,--symbolic", "a symbolic link", &options->symbolic}};
  return command;
}

}  // namespace spate::tools
