// SPDX-License-Identifier: Apache-2.0
#include "fuse/supervisor.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>

#include "base/printable.h"
#include "log/log.h"

namespace spate::fuse {
namespace {

constexpr std::size_t kMostCrashes = 5;  // the most crashes that a mount survives within this time:
constexpr Duration kCrashSpan = std::chrono::seconds(60);
/// How long to wait for the server's end. After an orderly unmount the server ends by itself; see KernelSession.
constexpr Duration kEndTimeout = std::chrono::seconds(12);
/// How long a server may take to send what was gathered, before the mount is given up.
constexpr Duration kDrainTimeout = std::chrono::seconds(30);
constexpr const char* kOwnProgram = "/proc/self/exe";

}  // namespace

std::string described(int status) {
  if (WIFSIGNALED(status)) return fmt::format("killed by signal {}", WTERMSIG(status));
  return fmt::format("ended with status {}", WEXITSTATUS(status));
}

Supervisor::Supervisor(MountOptions options, std::vector<std::string> words, std::function<void()> ready,
                       SupervisorHost& host, Clock& clock)
    : options_(std::move(options)), words_(std::move(words)), ready_(std::move(ready)), host_(host), clock_(clock) {}

Supervisor::~Supervisor() { stop_listening(); }

void Supervisor::stop_listening() {
  if (listener_) host_.stop_listening();  // before the socket closes; afterwards another mount may have the name
  listener_.reset();
}

Result<void> Supervisor::begin() {
  SPATE_TRY(std::ignore, host_.prepare());
  return start(program_);
}

int Supervisor::run() {
  const auto begun = begin();
  if (!begun) {
    std::fprintf(stderr, "spate-mount: %s\n", printable_lines(begun.error().message()).c_str());
    return 1;
  }
  while (!ended_) look(-1);
  return status_;
}

Result<void> Supervisor::start(const std::string& program) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return errno_error(errno, "socketpair");
  control_.reset(ends[0]);
  UniqueFd theirs(ends[1]);
  serving_ = false;
  const bool drains = !given_up_why_.empty();
  SPATE_TRY(server_, host_.start_server(program, std::move(theirs), drains));
  if (device_ && !drains) return send_message(control_.get(), MessageKind::kDevice, "", device_.get());
  return {};
}

void Supervisor::kill_server() {
  if (server_ > 0) host_.kill_server(server_);
}

void Supervisor::look(int most_ms) {
  std::array<pollfd, 4> waits{pollfd{host_.signals(), POLLIN, 0}, pollfd{control_.get(), POLLIN, 0},
                              pollfd{listener_.get(), POLLIN, 0}, pollfd{caller_.get(), POLLIN, 0}};
  int timeout = most_ms;
  if (timeout < 0 && kill_at_ != MonoTime::never() && server_ > 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(kill_at_ - clock_.now()).count();
    timeout = left < 0 ? 0 : static_cast<int>(left) + 1;
  }
  const int ready = ::poll(waits.data(), waits.size(), timeout);
  if (ready < 0) return;
  if (ready == 0 && server_ > 0 && clock_.now() >= kill_at_) {
    SPATE_LOG("fuse", warn, "the server of the mount does not end, it is killed");
    kill_server();
    kill_at_ = clock_.now() + kEndTimeout;
  }
  // Handles the server's messages before its end.
  if ((waits[1].revents & (POLLIN | POLLHUP)) != 0) on_server();
  if ((waits[0].revents & POLLIN) != 0) on_signals();
  if (caller_ && (waits[3].revents & (POLLIN | POLLHUP)) != 0) on_request();
  if (listener_ && (waits[2].revents & POLLIN) != 0) on_caller();
}

void Supervisor::on_signals() {
  for (int signal = host_.next_signal(); signal != 0; signal = host_.next_signal()) {
    if (signal != SIGCHLD) stop();
  }
  while (const auto ended = host_.next_ended()) {
    if (ended->child == unmounter_) {
      unmounter_ = -1;
      if (server_ > 0 && control_) std::ignore = send_message(control_.get(), MessageKind::kStop);
      if (server_ < 0) end(status_);
    } else if (ended->child == server_) {
      server_ = -1;
      on_server_end(ended->status);
    }
  }
}

void Supervisor::on_server() {
  auto message = receive_message(control_.get());
  if (!message) {
    control_.reset();  // SIGCHLD reports the server's end
    return;
  }
  on_server_message(*std::move(message));
}

void Supervisor::on_server_message(Message message) {
  if (message.word == MessageKind::kConnected && !mounted_) {
    const auto mounted = mount(message.text);
    if (mounted) return;
    std::fprintf(stderr, "spate-mount: %s\n", printable_lines(mounted.error().message()).c_str());
    kill_server();  // the server holds nothing yet
    end(1);
  } else if (message.word == MessageKind::kServing && mounted_) {
    serving_ = true;
    can_resend_ = message.text == "resend";
    if (!std::exchange(served_, true)) ready_();
    if (!next_program_.empty()) {
      SPATE_LOG("fuse", info, "upgraded directory={} program={} server={}", options_.directory, next_program_, server_);
      program_ = std::exchange(next_program_, {});
      answer(MessageKind::kDone, "");
    }
  } else if (message.word == MessageKind::kFailed) {
    next_program_.clear();
    answer(MessageKind::kFailed, message.text);
  } else if (message.word == MessageKind::kTold) {
    tell_status(message.text);
  } else if (message.word == MessageKind::kStop) {
    stop();
  }
}

Result<void> Supervisor::mount(const std::string& mount_options) {
  SPATE_TRY(device_, host_.mount(mount_options));
  mounted_ = true;
  if (auto listener = host_.listen()) listener_ = *std::move(listener);
  if (!listener_)
    SPATE_LOG("fuse", warn, "the mount cannot be upgraded: nobody can call its supervisor directory={}",
              options_.directory);
  return send_message(control_.get(), MessageKind::kDevice, "", device_.get());
}

void Supervisor::on_server_end(int status) {
  control_.reset();
  tell_status("");
  const bool done = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (stopping_) {
    device_.reset();
    if (unmounter_ < 0) end(status_);
    return;
  }
  if (!given_up_why_.empty()) {
    SPATE_LOG("fuse", info, "gathered writes of the mount {} directory={} how=\"{}\"",
              done ? "were drained" : "were not all drained", options_.directory, described(status));
    return give_up(given_up_why_);
  }
  if (done || (device_ && host_.is_over(device_.get()))) return end(0);
  if (!served_) return end(WIFEXITED(status) ? WEXITSTATUS(status) : 1);  // the server has printed why
  if (serving_ && WIFEXITED(status) && WEXITSTATUS(status) == kHandedOver) {
    return start_successor();
  }
  on_crash(described(status));
}

void Supervisor::on_crash(const std::string& how) {
  const MonoTime now = clock_.now();
  crashes_.push_back(now);
  while (!crashes_.empty() && now - crashes_.front() > kCrashSpan) crashes_.pop_front();
  SPATE_LOG("fuse", error, "the server of the mount has gone directory={} how=\"{}\" crashes={}", options_.directory,
            how, crashes_.size());
  const bool never_began = !serving_ && !next_program_.empty();
  if (never_began) {
    answer(MessageKind::kFailed, fmt::format("{} {}; the old program continues to serve", next_program_, how));
    next_program_.clear();
    program_ = kOwnProgram;
  } else if (!can_resend_) {
    return give_up("this kernel cannot repeat the calls that were under way (Linux 6.9 can)");
  }
  if (crashes_.size() >= kMostCrashes) {
    const auto span = std::chrono::duration_cast<std::chrono::seconds>(kCrashSpan);
    return drain(fmt::format("it crashed {} times in {} s", crashes_.size(), span.count()));
  }
  start_successor();
}

/// Another process sends what the servers have gathered. It reads no request of the kernel, so it does not meet the one
/// that may have killed them.
void Supervisor::drain(std::string why) {
  if (!host_.gathers()) return give_up(why);
  given_up_why_ = std::move(why);
  kill_at_ = clock_.now() + kDrainTimeout;
  const auto started = start(kOwnProgram);
  if (!started) give_up(given_up_why_);
}

/// Starts another server after the serving one has handed over or was killed. An upgrade continues.
void Supervisor::start_successor() {
  const std::string program = next_program_.empty() ? program_ : next_program_;
  const auto started = start(program);
  if (!started) give_up(started.error().message());
}

/// Gives up the mount. From then on programs get ENOTCONN.
void Supervisor::give_up(const std::string& why) {
  SPATE_LOG("fuse", error, "the mount is given up directory={} why=\"{}\"", options_.directory, why);
  const auto left_over = server_ < 0 ? host_.left_gathered() : std::vector<std::string>();
  for (const std::string& left : left_over) SPATE_LOG("fuse", error, "{} error=\"the mount is given up\"", left);
  if (options_.foreground)
    std::fprintf(stderr, "spate-mount: the mount %s is given up: %s\n", options_.directory.c_str(), why.c_str());
  answer(MessageKind::kFailed, why);
  status_ = 1;
  stop();
}

void Supervisor::on_caller() {
  UniqueFd caller(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!caller) return;
  if (!is_friend(caller.get())) {
    std::ignore = send_message(caller.get(), MessageKind::kFailed, "it is another user's mount");
  } else if (!next_program_.empty()) {
    std::ignore = send_message(caller.get(), MessageKind::kFailed, "an upgrade is under way");
  } else {
    caller_ = std::move(caller);  // replaces a connection that has sent nothing
  }
}

void Supervisor::on_request() {
  auto request = receive_message(caller_.get());
  if (request && request->word == MessageKind::kOptions) return answer(MessageKind::kDone, given_options(words_));
  if (request && request->word == MessageKind::kStatus) return ask_server();
  if (!request || request->word != MessageKind::kUpgrade) return caller_.reset();
  if (!next_program_.empty()) return;
  if (stopping_ || !serving_ || !control_)
    return answer(MessageKind::kFailed, "it is being started or ended; try again");
  auto can = check_program(request->text);
  if (!can) return answer(MessageKind::kFailed, can.error().message());
  next_program_ = request->text;
  const auto told = send_message(control_.get(), MessageKind::kUpgrade);
  if (told) return;
  next_program_.clear();
  answer(MessageKind::kFailed, told.error().message());
}

/// Asks the server for its status. If the server is starting or ending, the answer does not wait for its part.
void Supervisor::ask_server() {
  status_waiters_.push_back(std::move(caller_));
  const bool asked = serving_ && !stopping_ && control_ && send_message(control_.get(), MessageKind::kStatus);
  if (!asked) tell_status("");
}

void Supervisor::tell_status(const std::string& of_server) {
  const std::string text = fmt::format("options {}\nsupervisor {}\nserver {}\ncrashes {}\nlog {}\n{}",
                                       given_options(words_), ::getpid(), std::max(server_, 0), crashes_.size(),
                                       options_.log_file.empty() ? "none" : options_.log_file, of_server);
  for (const UniqueFd& caller : std::exchange(status_waiters_, {}))
    std::ignore = send_message(caller.get(), MessageKind::kDone, text);
}

Result<void> Supervisor::check_program(const std::string& program) {
  if (program.empty() || program.front() != '/')
    return Error::told(Errc::kInvalidArgument, "the path of the program must be absolute");
  return host_.check_program(program);
}

void Supervisor::answer(MessageKind word, const std::string& text) {
  if (caller_) std::ignore = send_message(caller_.get(), word, text);
  caller_.reset();
}

void Supervisor::stop() {
  if (std::exchange(stopping_, true)) return;
  stop_listening();
  answer(MessageKind::kFailed, "it is being unmounted");
  kill_at_ = clock_.now() + kEndTimeout;
  if (!mounted_) {
    kill_server();
    return end(1);
  }
  if (server_ < 0) device_.reset();  // no server answers any more, and the kernel must learn that
  unmounter_ = host_.start_unmount(std::move(device_));
  if (unmounter_ < 0) end(1);
}

void Supervisor::end(int status) {
  status_ = status;
  ended_ = true;
}

}  // namespace spate::fuse
