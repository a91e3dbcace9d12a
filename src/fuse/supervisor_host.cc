// SPDX-License-Identifier: Apache-2.0
#include "fuse/supervisor_host.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>

#include "client/session/gather_memory.h"
#include "client/session/queue_memory.h"
#include "fuse/control.h"

namespace spate::fuse {
namespace {

constexpr unsigned kCheckSeconds = 10;

sigset_t signals_of_interest() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&set, number);
  return set;
}

void let_signals_through() {
  sigset_t none;
  sigemptyset(&none);
  ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
}

Error mount_error(const MountOptions& options) {
  if (::access("/dev/fuse", R_OK | W_OK) != 0) {
    return Error::told(Errc::kNotSupported,
                       fmt::format("mount {}: /dev/fuse cannot be opened ({}); is the kernel module fuse loaded, "
                                   "and may this container use it?",
                                   options.directory, errno == ENOENT ? "it is not there" : "no permission"));
  }
  if (options.allow_other && ::geteuid() != 0) {
    return Error(
        Errc::kNotPermitted,
        fmt::format("mount {}: allow_other needs the line user_allow_other in /etc/fuse.conf", options.directory));
  }
  return Error(
      Errc::kNotPermitted,
      fmt::format("mount {}: refused, see above; without root it needs fusermount3 (Debian: fuse3) and a directory "
                  "of your own",
                  options.directory));
}

}  // namespace

Result<void> SystemHost::prepare() {
  const sigset_t set = signals_of_interest();
  if (::pthread_sigmask(SIG_BLOCK, &set, nullptr) != 0) return errno_error(errno, "block signals");
  signals_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) return errno_error(errno, "signalfd");
  handover_.reset(::memfd_create("spate-mount", MFD_CLOEXEC));
  if (!handover_) return errno_error(errno, "memory for the mount's handover");
  // The queue's descriptor comes behind that of gathered writes, even if there are none.
  if (gather_pieces(options_) > 0 || delegates(options_))
    gather_.reset(::memfd_create("spate-gather", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (delegates(options_)) queue_.reset(::memfd_create("spate-queue", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  return {};
}

int SystemHost::next_signal() {
  signalfd_siginfo signal{};
  if (::read(signals_.get(), &signal, sizeof(signal)) != sizeof(signal)) return 0;
  return static_cast<int>(signal.ssi_signo);
}

std::optional<SupervisorHost::Ended> SystemHost::next_ended() {
  int status = 0;
  const pid_t ended = ::waitpid(-1, &status, WNOHANG);
  if (ended <= 0) return std::nullopt;
  return Ended{ended, status};
}

/// Runs in the child between fork and exec.
void SystemHost::become_server(const std::string& program, int control, bool drains) {
  let_signals_through();
  std::string descriptors = fmt::format("{}={},{}", drains ? "--drain" : "--serve", control, handover_.get());
  if (gather_) descriptors += fmt::format(",{}", gather_.get());
  if (gather_ && queue_) descriptors += fmt::format(",{}", queue_.get());
  for (const int fd : {control, handover_.get(), gather_.get(), queue_.get()}) ::fcntl(fd, F_SETFD, 0);
  std::vector<std::string> words{"spate-mount", descriptors};
  words.insert(words.end(), words_.begin(), words_.end());
  if (const std::string decided = decided_options(options_); !decided.empty())
    words.insert(words.end(), {"-o", decided});
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execv(program.c_str(), pointers.data());
  ::_exit(127);
}

Result<pid_t> SystemHost::start_server(const std::string& program, UniqueFd control, bool drains) {
  const pid_t server = ::fork();
  if (server < 0) return errno_error(errno, "fork");
  if (server == 0) become_server(program, control.get(), drains);
  return server;
}

std::vector<std::string> SystemHost::left_gathered() {
  std::vector<std::string> left;
  if (queue_) {
    const auto queue = client::QueueMemory::open(queue_.get());
    const auto texts = queue ? (*queue)->texts() : std::vector<std::string>();
    for (const std::string& text : texts) left.push_back("a queued change is lost " + text);
  }
  if (!gather_ || gather_pieces(options_) == 0) return left;
  const auto memory = client::GatherMemory::open(gather_.get(), 0);
  if (!memory) return left;
  for (const client::GatherMemory::Piece* const piece : (*memory)->inherited())
    left.push_back("gathered writes are lost " + client::GatherMemory::text(*piece));
  return left;
}

void SystemHost::kill_server(pid_t server) { ::kill(server, SIGKILL); }

/// Tests in advance whether the program starts on this machine and can read the handover state.
Result<void> SystemHost::check_program(const std::string& program) {
  const pid_t child = ::fork();
  if (child < 0) return errno_error(errno, "fork");
  if (child == 0) {
    let_signals_through();
    ::alarm(kCheckSeconds);  // the alarm survives exec
    const std::string question = fmt::format("--can-take-over={}", kTakeOverVersion);
    ::execl(program.c_str(), "spate-mount", question.c_str(), nullptr);
    ::_exit(127);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return Error::told(Errc::kVersionMismatch, fmt::format("{} cannot take this mount over ({}); unmount and mount again",
                                                         program, described(status)));
}

Result<UniqueFd> SystemHost::mount(const std::string& mount_options) {
  struct stat st{};
  if (::stat(options_.directory.c_str(), &st) == 0 && !S_ISDIR(st.st_mode))
    return Error::told(Errc::kNotDirectory, "mount " + options_.directory + ": it is a file");
  const fuse_lowlevel_ops nothing{};
  const std::string all = mount_options + "," + source_option(options_);
  std::array<const char*, 3> words{"spate", "-o", all.c_str()};
  fuse_args args = FUSE_ARGS_INIT(static_cast<int>(words.size()), const_cast<char**>(words.data()));
  session_.reset(fuse_session_new(&args, &nothing, sizeof(nothing), nullptr));
  fuse_opt_free_args(&args);
  if (session_ == nullptr) return Error::told(Errc::kInvalidArgument, "libfuse refuses the mount options");
  std::array<char, PATH_MAX> real{};
  directory_ = ::realpath(options_.directory.c_str(), real.data()) == nullptr ? options_.directory : real.data();
  if (fuse_session_mount(session_.get(), options_.directory.c_str()) != 0) return mount_error(options_);
  UniqueFd device(::fcntl(fuse_session_fd(session_.get()), F_DUPFD_CLOEXEC, 3));
  if (!device) return errno_error(errno, "/dev/fuse");
  return device;
}

bool SystemHost::is_over(int device) {
  pollfd state{device, 0, 0};
  return ::poll(&state, 1, 0) == 1 && (state.revents & POLLERR) != 0;
}

pid_t SystemHost::start_unmount(UniqueFd device) {
  const pid_t child = ::fork();
  if (child == 0) {
    let_signals_through();
    device.reset();
    fuse_session_unmount(session_.get());
    ::_exit(0);
  }
  // The kernel must learn when the server ends. The session closes this number when it ends.
  device.reset();
  ::dup2(signals_.get(), fuse_session_fd(session_.get()));
  return child;
}

std::optional<UniqueFd> SystemHost::listen() {
  auto device = device_at(directory_);
  if (!device) return std::nullopt;
  auto listener = listen_for(device->number);
  if (!listener) return std::nullopt;
  device_number_ = device->number;
  return *std::move(listener);
}

void SystemHost::stop_listening() {
  if (!device_number_.empty()) remove_listener(device_number_);
  device_number_.clear();
}

}  // namespace spate::fuse
