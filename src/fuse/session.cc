// SPDX-License-Identifier: Apache-2.0
#include "fuse/session.h"

#include <fmt/core.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mount.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "fuse/control.h"
#include "fuse/readahead.h"
#include "log/log.h"

namespace spate::fuse {
namespace {

constexpr std::size_t kMaxWorkers = 256;  // more requests than that wait in the kernel
constexpr auto kEndGrace = std::chrono::seconds(5);
constexpr auto kInterruptPause = std::chrono::milliseconds(1);
constexpr Duration kLeasePatience = std::chrono::seconds(2);

/// Ends a read(2) of /dev/fuse without a request.
void make_interruptible() {
  struct sigaction action{};
  action.sa_handler = [](int) {};
  ::sigaction(SIGUSR1, &action, nullptr);
}

pid_t own_number() {
  thread_local const auto number = static_cast<pid_t>(::syscall(SYS_gettid));
  return number;
}

}  // namespace

Session::Session(Mount& mount, SessionPtr session)
    : mount_(mount), session_(std::move(session)), ended_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  make_interruptible();
  mount_.locks.on_grant([&its = mount_](Handle handle) { drop_pages_for_lock(its, handle); });
}

Session::~Session() {
  fuse_session_exit(session_.get());
  draining_ = true;
  const bool no_waits = mount_.locks.stop();
  if (!wait_for_workers(true) || !no_waits) {
    SPATE_LOG("fuse", warn, "ended while operations wait for a server");
    std::_Exit(0);  // what was acknowledged is on the servers; nothing is buffered here
  }
  if (mount_.copies != nullptr) mount_.copies->end();
}

/// Until none is left, not for ever.
bool Session::wait_for_workers(bool interrupt) {
  const auto limit = std::chrono::steady_clock::now() + kEndGrace;
  std::unique_lock lock(mutex_);
  while (workers_ > 0 && std::chrono::steady_clock::now() < limit) {
    if (interrupt) interrupt_readers();
    one_less_.wait_for(lock, kInterruptPause);
  }
  const bool none = workers_ == 0;
  lock.unlock();
  return mount_.closes.drain(limit) && none;
}

/// With the lock held. One that is about to read misses it, and is told again.
void Session::interrupt_readers() {
  for (const pid_t reader : readers_) ::syscall(SYS_tgkill, ::getpid(), reader, SIGUSR1);
}

void Session::start_worker() {
  const std::lock_guard lock(mutex_);
  ++workers_;
  ++waiting_;
  std::thread([this] { work(); }).detach();
}

/// One more reader when all are at work: each may be waiting for a server, and the kernel's interrupts must be read.
void Session::handle(fuse_buf& buffer) {
  bool another = false;
  {
    const std::lock_guard lock(mutex_);
    readers_.erase(own_number());
    another = --waiting_ == 0 && workers_ < kMaxWorkers && !draining_;
  }
  if (another) start_worker();
  fuse_in_header header{};
  if (buffer.size >= sizeof(header)) std::memcpy(&header, buffer.mem, sizeof(header));
  // libfuse 3.14 does not know it; the request and its answer have the shape of a create's.
  const bool temporary = header.opcode == FUSE_TMPFILE;
  if (temporary) {
    header.opcode = FUSE_CREATE;
    std::memcpy(buffer.mem, &header, sizeof(header));
  }
  const std::uint64_t cause = header.unique & ~kSentAgain;
  if (cause != header.unique) mount_.ledger.asked_again(cause);
  Pending::of_this_thread().begin(cause, temporary);
  fuse_session_process_buf(session_.get(), &buffer);
  if (cause != header.unique) mount_.ledger.end_append(cause);  // it is answered, whatever became of it
  const std::lock_guard lock(mutex_);
  readers_.insert(own_number());
  ++waiting_;
}

void Session::work() {
  fuse_buf buffer{};
  bool needed = true;
  {
    const std::lock_guard lock(mutex_);
    readers_.insert(own_number());
  }
  while (needed && !draining_ && fuse_session_exited(session_.get()) == 0) {
    const int size = fuse_session_receive_buf(session_.get(), &buffer);
    if (size == -EINTR) continue;
    if (size <= 0) break;  // unmounted
    handle(buffer);
    const std::lock_guard lock(mutex_);
    needed = waiting_ <= mount_.options.threads;
  }
  std::free(buffer.mem);
  const std::uint64_t one = 1;
  if (needed && !draining_) std::ignore = ::write(ended_.get(), &one, sizeof(one));
  const std::lock_guard lock(mutex_);
  readers_.erase(own_number());
  --workers_;
  --waiting_;
  one_less_.notify_all();
}

void Session::resume() {
  draining_ = false;
  for (unsigned i = 0; i < mount_.options.threads; ++i) start_worker();
}

/// What cannot be answered in time is answered by the next process, if the kernel can ask again. False: this one goes
/// on.
bool Session::hand_over() {
  draining_ = true;
  const bool drained = wait_for_workers(true);
  if (!drained && !can_resend(mount_)) return false;
  if (!drained) SPATE_LOG("fuse", warn, "hands over while operations wait for a server");
  if (can_resend(mount_)) {
    std::ignore = mount_.locks.hand_over();
  } else {
    std::ignore = mount_.locks.stop();
  }
  if (!drained) return true;
  for (const auto& open : mount_.files.all()) {
    const std::lock_guard lock(open->opening);
    if (open->file == nullptr) continue;
    mount_.process.run([&](client::Client& c) {
      client::Limits limits = c.cluster().limits();
      limits.deadline = std::min(limits.deadline, c.cluster().executor().now() + kLeasePatience);
      return open->file->hand_over(limits);
    });
  }
  return true;
}

/// "name value" a line.
std::string Session::status() const {
  const auto kept = mount_.process.client().cluster().attributes().counters();
  return fmt::format("open_files {}\nanswered_from_leases {}\nasked {}\nrecalled {}\ncopied {}\n", mount_.files.size(),
                     kept.hits, kept.misses, kept.recalls, kept.copied);
}

std::optional<Session::End> Session::on_message(int control) {
  const auto message = receive_message(control);
  if (!message) {
    SPATE_LOG("fuse", warn,
              "the keeper of the mount has gone; it is served until it is unmounted, and cannot be upgraded");
    alone_ = true;
    return std::nullopt;
  }
  if (message->word == Word::kStop) return End::kStopped;
  if (message->word == Word::kStatus) std::ignore = send_message(control, Word::kTold, status());
  if (message->word != Word::kUpgrade) return std::nullopt;
  if (hand_over()) return End::kHandedOver;
  resume();
  std::ignore =
      send_message(control, Word::kFailed, "calls are under way that wait for a server; the old program goes on");
  return std::nullopt;
}

/// The keeper unmounts; without one this process does.
void Session::on_signal(int signals, int control) {
  signalfd_siginfo signal{};
  if (::read(signals, &signal, sizeof(signal)) != sizeof(signal)) return;
  if (!alone_) {
    std::ignore = send_message(control, Word::kStop);
  } else if (::umount2(mount_.options.directory.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) != 0) {
    SPATE_LOG("fuse", error, "cannot unmount directory={} error={}", mount_.options.directory, std::strerror(errno));
  }
}

Result<Session::End> Session::run(int signals, int control) {
  if (!ended_) return errno_error(errno, "eventfd");
  resume();
  // Not before: the answer to the kernel's first request sets what it reads ahead.
  if (!mount_.ledger.inherited()) set_readahead(mount_.options.directory, mount_.options.readahead);
  for (;;) {
    std::array<pollfd, 3> waits{pollfd{signals, POLLIN, 0}, pollfd{ended_.get(), POLLIN, 0},
                                pollfd{alone_ ? -1 : control, POLLIN, 0}};
    if (::poll(waits.data(), waits.size(), -1) < 0) {
      if (errno == EINTR) continue;
      return errno_error(errno, "poll");
    }
    std::optional<End> end;
    if ((waits[0].revents & POLLIN) != 0) on_signal(signals, control);
    if ((waits[2].revents & (POLLIN | POLLHUP)) != 0) end = on_message(control);
    if ((waits[1].revents & POLLIN) != 0) end = End::kUnmounted;
    if (!end) continue;
    const char* const reason = *end == End::kUnmounted ? "unmounted" : *end == End::kStopped ? "stopped" : "upgrade";
    const auto kept = mount_.process.client().cluster().attributes().counters();
    SPATE_LOG("fuse", info,
              "ending reason={} open_files={} answered_from_leases={} asked={} recalled={} copied={} listed={}", reason,
              mount_.files.size(), kept.hits, kept.misses, kept.recalls, kept.copied, kept.listed);
    return *end;
  }
}

}  // namespace spate::fuse
