// SPDX-License-Identifier: Apache-2.0
// main() of spate-mount, which mount(8) knows as /sbin/mount.spate.
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "assembly/locate.h"
#include "base/open_files.h"
#include "base/printable.h"
#include "fuse/control.h"
#include "fuse/remount.h"
#include "fuse/server.h"
#include "fuse/supervisor.h"
#include "log/log.h"
#include "log/output.h"

namespace {

using namespace spate;

int fail(const Error& error) {
  std::fprintf(stderr, "spate-mount: %s\n", printable_lines(error.message()).c_str());
  return 1;
}

/// The spate.toml in a folder, if `source` is one.
std::string config_file(const std::string& source) {
  std::error_code ignored;
  if (std::filesystem::is_directory(source, ignored)) return source + "/spate.toml";
  return source;
}

/// Places for the log of a background mount if no file was named, the best one first: beside the servers' logs, root's
/// place for logs, this user's data. (On the servers' machines, /var/log/spate belongs to the servers' user.)
std::vector<std::filesystem::path> log_places(const fuse::MountOptions& options) {
  std::vector<std::filesystem::path> places{std::filesystem::path(options.config_file).parent_path() / "log"};
  if (::geteuid() == 0) places.insert(places.end(), {"/var/log/spate", "/var/log/spate-mount"});
  const std::filesystem::path state = assembly::current_file();
  if (!state.empty()) places.push_back(state.parent_path());
  return places;
}

/// Sets options.log_file to the file that is used. It stays empty if the log goes to standard error, or nowhere.
Result<void> open_log(fuse::MountOptions& options) {
  if (!options.log_file.empty()) return log::open_file(options.log_file);
  if (options.foreground) return {};
  const auto places = log_places(options);
  for (const std::filesystem::path& place : places) {
    std::error_code ignored;
    if (place != places.front()) std::filesystem::create_directories(place, ignored);
    const std::string file = (place / "mount.log").string();
    if (!log::open_file_in_own_folder(file)) continue;
    options.log_file = file;
    return {};
  }
  return log::open_file("/dev/null");
}

/// Prints the log's name on the terminal of the mounting user. If the log is beside the servers' logs, `spate logs`
/// shows it, and nothing is printed.
void tell_log(const fuse::MountOptions& options) {
  const auto beside = std::filesystem::path(options.config_file).parent_path() / "log/mount.log";
  if (options.log_file.empty()) {
    fmt::print("spate-mount: {} has no log, no place for one is this user's own; -o log=FILE names one\n",
               options.directory);
  } else if (options.log_file != beside.string()) {
    fmt::print("spate-mount: {} logs to {}\n", options.directory, options.log_file);
  }
  std::fflush(stdout);
}

/// The parent waits until the child is ready or has ended. The child prints its errors, and the server for which it
/// waits, to the same terminal.
int wait_for(pid_t child, int pipe) {
  char ready = 0;
  if (::read(pipe, &ready, 1) == 1) return 0;
  int status = 1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) != 0 ? WEXITSTATUS(status) : 1;
}

int supervise(const fuse::MountOptions& options, const std::vector<std::string>& words, std::function<void()> ready) {
  SystemClock clock;
  fuse::SystemHost host(options, words);
  return fuse::Supervisor(options, words, std::move(ready), host, clock).run();
}

int keep_in_background(const fuse::MountOptions& options, const std::vector<std::string>& words) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail(errno_error(errno, "pipe"));
  const pid_t child = ::fork();
  if (child < 0) return fail(errno_error(errno, "fork"));
  if (child > 0) {
    ::close(ends[1]);
    const int ended = wait_for(child, ends[0]);
    if (ended == 0) tell_log(options);
    return ended;
  }
  ::close(ends[0]);
  return supervise(options, words, [&] {
    ::setsid();  // not earlier: a signal that ends the command before must end the mount, too
    const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null, fd);
    std::ignore = ::chdir("/");
    std::ignore = ::write(ends[1], "r", 1);
    ::close(ends[1]);
  });
}

/// Makes names absolute in both, because a later process of the mount starts in another folder.
void make_absolute(fuse::MountOptions& options, std::vector<std::string>& words) {
  std::error_code ignored;
  const std::array<std::string, 2> given{options.config_file, options.directory};
  const std::string source = fuse::absolute_source(options.config_file);
  options.config_file = config_file(source);
  options.directory = std::filesystem::absolute(options.directory, ignored).string();
  if (options.source.empty()) options.source = source;
  const std::array<std::string, 2> names{source, options.directory};
  std::size_t next = 0;
  for (std::size_t i = 0; i < words.size() && next < names.size(); ++i) {
    if (words[i] == "-o" || words[i] == "-t") {
      ++i;
    } else if (words[i] == given[next]) {
      words[i] = names[next++];
    }
  }
}

/// Answers a supervisor that asks for the version of the program.
bool can_take_over(const std::string& question) {
  for (int version = fuse::kOldestTakeOverVersion; version <= fuse::kTakeOverVersion; ++version)
    if (question == fmt::format("--can-take-over={}", version)) return true;
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  fill_standard_descriptors();
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond the file size limit must fail instead of ending the process
  std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 1 && can_take_over(words[0])) return 0;
  if (words.size() == 2 && words[0] == "--upgrade") {
    const auto upgraded = fuse::request_upgrade(words[1]);
    return upgraded ? 0 : fail(upgraded.error());
  }
  if (words.size() == 2 && words[0] == "--status") {
    const auto printed = fuse::print_status(words[1]);
    return printed ? 0 : fail(printed.error());
  }
  std::optional<fuse::ServerDescriptors> descriptors;
  const bool drains = !words.empty() && words[0].starts_with("--drain=");
  if (drains || (!words.empty() && words[0].starts_with("--serve="))) {
    auto parsed = fuse::parse_server_descriptors(words[0].substr(8));
    if (!parsed) return fail(parsed.error());
    descriptors = *std::move(parsed);
    words.erase(words.begin());
  }
  if (words.size() == 1 && (words.front() == "-h" || words.front() == "--help"))
    return std::fputs(std::string(fuse::usage()).c_str(), stdout) < 0 ? 1 : 0;
  if (const auto remount = fuse::parse_remount(words); !remount) {
    return fail(remount.error());
  } else if (*remount) {
    return fuse::run_remount(**remount);
  }
  auto options = fuse::parse_command_line(words);
  if (!options) {
    std::fprintf(stderr, "spate-mount: %s\n%s", options.error().message().c_str(), std::string(fuse::usage()).c_str());
    return 2;
  }
  make_absolute(*options, words);
  const auto logging = open_log(*options);
  if (!logging) return fail(logging.error());
  if (options->verbose) std::ignore = log::set_level("", log::Level::debug);
  if (drains) return fuse::drain(*options, *std::move(descriptors));
  if (descriptors) return fuse::serve(*options, *std::move(descriptors));
  if (!options->foreground) return keep_in_background(*options, words);
  return supervise(*options, words, [] {});
}
