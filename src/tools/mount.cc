// SPDX-License-Identifier: Apache-2.0

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tools/commands.h"
#include "tools/mounts.h"
#include "tools/text.h"

namespace spate::tools {
namespace {

namespace fs = std::filesystem;

struct MountArguments {
  std::string directory;
  std::string options;
  bool foreground = false;
  bool create = false;
  bool upgrade = false;
  bool status = false;
};

/// The path of a program in this program's folder.
std::string sibling(const char* name) {
  std::error_code error;
  return (fs::read_symlink("/proc/self/exe", error).parent_path() / name).string();
}

/// Executes spate-mount in place of this process, so that it prints its output itself.
int run_itself(Context& context, const char* what, const std::string& directory) {
  const std::string program = sibling("spate-mount");
  ::execl(program.c_str(), program.c_str(), what, directory.c_str(), nullptr);
  return context.fail(errno_error(errno, "start " + program));
}

/// Converts lines of a name and a value, mostly a number.
std::string as_json(std::istream& lines) {
  auto all = nlohmann::ordered_json::object();
  for (std::string name, value; lines >> name && std::getline(lines >> std::noskipws, value); lines >> std::skipws) {
    value.erase(0, 1);
    const bool number = !value.empty() && value.find_first_not_of("0123456789") == std::string::npos;
    all[name] = number ? nlohmann::ordered_json(std::stoull(value)) : nlohmann::ordered_json(value);
  }
  return all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

/// Prints the state of the mount's processes, without a request to the file system.
int run_status(Context& context, const std::string& directory) {
  if (!context.json) return run_itself(context, "--status", directory);
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return context.fail(errno_error(errno, "pipe"));
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    ::_exit(run_itself(context, "--status", directory));
  }
  ::close(ends[1]);
  std::string text;
  std::array<char, 4096> part{};
  for (ssize_t n = 0; (n = ::read(ends[0], part.data(), part.size())) > 0;)
    text.append(part.data(), static_cast<std::size_t>(n));
  ::close(ends[0]);
  int status = 0;
  // spate-mount has printed the reason.
  if (child < 0 || ::waitpid(child, &status, 0) != child || status != 0) return kExitFailed;
  std::istringstream lines(text);
  print(as_json(lines));
  return kExitOk;
}

/// Whether "remount" is among the options.
bool remounts(const std::string& options) { return ("," + options + ",").find(",remount,") != std::string::npos; }

/// Does not look into a live mount: that would wait for its servers, which may be down.
Result<void> check_not_mounted(const std::string& directory) {
  const std::string word = shell_word(directory);
  const MountPoint there = mounted_at(directory);
  if (there.type == "fuse.spate" && has_ended(there))
    return Error::told(Errc::kBusy, "a mount that has ended is left at " + directory + "; `spate umount " + word + "`");
  if (there.type == "fuse.spate")
    return Error::told(Errc::kBusy, directory + " is mounted already; `spate mount --status " + word + "` tells more");
  return {};
}

Result<void> prepare_directory(const std::string& directory, bool create) {
  std::error_code error;
  const fs::file_status status = fs::status(directory, error);
  if (fs::is_directory(status)) return {};
  if (fs::exists(status)) return Error::told(Errc::kNotDirectory, directory + " is a file: name a directory");
  if (!create) return Error::told(Errc::kNotFound, "there is no directory " + directory + "; -p makes it");
  if (!fs::create_directories(directory, error)) return errno_error(error.value(), "make " + directory);
  return {};
}

int run_mount(Context& context, const MountArguments& arguments) {
  if (arguments.upgrade) return run_itself(context, "--upgrade", arguments.directory);
  if (arguments.status) return run_status(context, arguments.directory);
  auto config = context.config_file();
  if (!config) return context.fail(config.error());
  if (!remounts(arguments.options)) {
    const auto free = check_not_mounted(arguments.directory);
    if (!free) return context.fail(free.error());
    const auto running = context.check_running();
    if (!running) return context.fail(running.error());
    const auto prepared = prepare_directory(arguments.directory, arguments.create);
    if (!prepared) return context.fail(prepared.error());
  }
  const std::string program = sibling("spate-mount");
  if (::access(program.c_str(), X_OK) != 0) {
    return context.fail(program + " is not there: this build was made without libfuse3 (Debian: libfuse3-dev)");
  }
  std::vector<const char*> words{program.c_str(), config->c_str(), arguments.directory.c_str()};
  if (!arguments.options.empty()) words.insert(words.end(), {"-o", arguments.options.c_str()});
  if (arguments.foreground) words.push_back("-f");
  words.push_back(nullptr);
  ::execv(program.c_str(), const_cast<char**>(words.data()));
  return context.fail(errno_error(errno, "start " + program));
}

/// Runs `fusermount3 -u` for a user other than root.
int run_fusermount(const std::string& directory, bool lazy) {
  const pid_t child = ::fork();
  if (child < 0) return errno;
  if (child == 0) {
    ::execlp("fusermount3", "fusermount3", "-u", "-q", lazy ? "-z" : "--", directory.c_str(), nullptr);
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return 0;
  return WIFEXITED(status) && WEXITSTATUS(status) == 127 ? ENOENT : EBUSY;
}

int run_umount(Context& context, const std::string& directory, bool lazy) {
  if (::umount2(directory.c_str(), UMOUNT_NOFOLLOW | (lazy ? MNT_DETACH : 0)) == 0) return kExitOk;
  int error = errno;
  // For such a user the kernel fails with EPERM before it looks whether anything is mounted there.
  if (error == EPERM) error = !mounted_at(directory).type.empty() ? run_fusermount(directory, lazy) : EINVAL;
  switch (error) {
    case 0: return kExitOk;
    case EBUSY:
      return context.fail(directory + " is in use (`fuser -vm " + shell_word(directory) +
                          "` says by whom); -z detaches it all the same");
    case EINVAL: return context.fail("nothing is mounted at " + directory);
    default: return context.fail(errno_error(error, "unmount " + directory));
  }
}

std::vector<std::string> mount_points() {
  std::vector<std::string> all;
  for (const MountPoint& mount : spate_mounts()) all.push_back(mount.directory);
  return all;
}

/// For completion; fuse/options.cc parses them.
std::vector<std::string> mount_options() {
  return {"acl",         "allow_other",  "attr_cache=",     "atime",    "busy_poll=",
          "cache=auto",  "cache=none",   "cache=writeback", "delegate", "dev",
          "exec",        "fsname=",      "gather",          "hard",     "leases",
          "log=",        "memory=",      "noacl",           "noatime",  "nodelegate",
          "nodev",       "noexec",       "nogather",        "noleases", "nosuid",
          "readahead=",  "readdirplus=", "relatime",        "ro",       "soft",
          "strictatime", "suid",         "threads="};
}

}  // namespace

Command make_mount() {
  auto arguments = std::make_shared<MountArguments>();
  Command command;
  command.name = "mount";
  command.group = "Unchanged programs";
  command.summary = "mount the file system in a directory, by FUSE";
  command.details =
      "Options (-o): ro, allow_other, cache=none|auto|writeback, soft, threads=N, log=FILE; docs/mount.md.\n"
      "For fstab: /path/to/spate.toml  /mnt/data  spate  _netdev  0  0";
  command.positionals = {{"DIRECTORY", "where to mount", &arguments->directory, true}};
  command.positionals.front().offers = mount_points;
  command.options = {
      {"-o", "mount options, separated by commas", &arguments->options, false, mount_options(), true},
      {"-f,--foreground", "stay in the foreground and log to the terminal", &arguments->foreground},
      {"-p,--parents", "make the directory if it does not exist", &arguments->create},
      {"--upgrade", "replace the program of an existing mount by this one; files stay open", &arguments->upgrade},
      {"--status", "show the options and processes of an existing mount, and what leases have saved",
       &arguments->status}};
  command.run = [arguments](Context& context) { return run_mount(context, *arguments); };
  return command;
}

Command make_umount() {
  auto arguments = std::make_shared<MountArguments>();
  Command command;
  command.name = "umount";
  command.group = "Unchanged programs";
  command.summary = "unmount a directory";
  command.positionals = {{"DIRECTORY", "where it is mounted", &arguments->directory, true}};
  command.positionals.front().offers = mount_points;
  command.options = {{"-z,--lazy", "detach now, end when nobody uses it any more", &arguments->create}};
  command.run = [arguments](Context& context) { return run_umount(context, arguments->directory, arguments->create); };
  return command;
}

}  // namespace spate::tools
