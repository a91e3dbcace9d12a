// SPDX-License-Identifier: Apache-2.0
// main() of spate-mount, which mount(8) knows as /sbin/mount.spate.
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <fcntl.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "fuse/session.h"
#include "log/log.h"
#include "log/output.h"

namespace {

using namespace spate;

int fail(const Error& error) {
  std::fprintf(stderr, "spate-mount: %s\n", error.message().c_str());
  return 1;
}

/// What a folder means: the spate.toml in it.
std::string config_file(const std::string& source) {
  std::error_code ignored;
  if (std::filesystem::is_directory(source, ignored)) return source + "/spate.toml";
  return source;
}

/// Lines of a mount in the background go to a file: the one asked for, or one beside the servers' if it can be written.
Result<void> open_log(const fuse::MountOptions& options) {
  if (!options.log_file.empty()) return log::open_file(options.log_file);
  if (options.foreground) return {};
  const std::filesystem::path folder = std::filesystem::path(options.config_file).parent_path() / "log";
  if (!log::open_file((folder / "mount.log").string())) return log::open_file("/dev/null");
  return {};
}

/// What a hard mount's operations wait for a server: no machine runs so long without a restart.
constexpr Duration kForEver = std::chrono::hours(24) * 36500;

/// Serves in this process; `ready` hears of success once the directory is mounted.
template <typename Ready>
Result<void> serve(const fuse::MountOptions& options, Ready ready) {
  sigset_t ends;
  sigemptyset(&ends);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&ends, number);
  if (::pthread_sigmask(SIG_BLOCK, &ends, nullptr) != 0) return errno_error(errno, "block signals");
  const UniqueFd signals(::signalfd(-1, &ends, SFD_CLOEXEC));
  if (!signals) return errno_error(errno, "signalfd");

  assembly::ClientSettings settings;
  settings.config_file = options.config_file;
  settings.program = "mount";
  settings.credential = assembly::own_credential();
  if (!options.soft) settings.deadline = kForEver;
  if (!options.atime.empty()) {
    SPATE_TRY(auto policy, config::override_from_argument("client.atime=" + options.atime));
    settings.overrides.push_back(std::move(policy));
  }
  SPATE_TRY(auto process, assembly::ClientProcess::open(settings));
  SPATE_TRY(std::ignore, process->run([](client::Client& c) { return c.connect(); }));
  fuse::Mount mount{options, *process, settings.credential, {}, {}};
  SPATE_TRY(auto session, fuse::Session::mount(mount));
  ready();
  return session->run(signals.get());
}

/// The parent: waits until the child says that it is ready or has ended. The child's errors went to the same terminal.
int wait_for(pid_t child, int pipe) {
  char ready = 0;
  if (::read(pipe, &ready, 1) == 1) return 0;
  int status = 1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) != 0 ? WEXITSTATUS(status) : 1;
}

int serve_in_background(const fuse::MountOptions& options) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail(errno_error(errno, "pipe"));
  const pid_t child = ::fork();
  if (child < 0) return fail(errno_error(errno, "fork"));
  if (child > 0) {
    ::close(ends[1]);
    return wait_for(child, ends[0]);
  }
  ::setsid();
  ::close(ends[0]);
  const auto served = serve(options, [&] {
    const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null, fd);
    std::ignore = ::chdir("/");
    std::ignore = ::write(ends[1], "r", 1);
    ::close(ends[1]);
  });
  return served ? 0 : fail(served.error());
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  auto options = fuse::parse_command_line(std::vector<std::string>(argv + 1, argv + argc));
  if (!options) {
    std::fprintf(stderr, "spate-mount: %s\n%s", options.error().message().c_str(), std::string(fuse::usage()).c_str());
    return 2;
  }
  std::error_code ignored;
  options->config_file = std::filesystem::absolute(config_file(options->config_file), ignored).string();
  options->directory = std::filesystem::absolute(options->directory, ignored).string();
  const auto logging = open_log(*options);
  if (!logging) return fail(logging.error());
  if (options->verbose) std::ignore = log::set_level("", log::Level::debug);
  if (!options->foreground) return serve_in_background(*options);
  const auto served = serve(*options, [] {});
  return served ? 0 : fail(served.error());
}
