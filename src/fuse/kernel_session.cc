// SPDX-License-Identifier: Apache-2.0
#include "fuse/kernel_session.h"

#include <fmt/core.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mount.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>

#include "base/thread.h"
#include "fuse/control.h"
#include "fuse/gathering.h"
#include "fuse/queueing.h"
#include "log/log.h"

namespace spate::fuse {
namespace {

constexpr auto kEndGrace = std::chrono::seconds(5);
/// How long a hard mount waits for servers that are away, when it was unmounted and has acknowledged what they lack.
constexpr auto kOutageGrace = std::chrono::seconds(60);
constexpr auto kInterruptPause = std::chrono::milliseconds(1);
constexpr Duration kLeaseTimeout = std::chrono::seconds(2);

/// Ends a read(2) of /dev/fuse without a request.
void make_interruptible() {
  struct sigaction action{};
  action.sa_handler = [](int) {};
  ::sigaction(SIGUSR1, &action, nullptr);
}

/// Whether the handler waits only for the client's executor, or calls need_reader() before another wait. Locks and
/// copies may also wait until the kernel has dropped pages that others are reading; other cases are rare.
bool waits_for_executor_only(std::uint32_t opcode) {
  switch (opcode) {
    case FUSE_LOOKUP:
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_GETATTR:
    case FUSE_SETATTR:
    case FUSE_MKDIR:
    case FUSE_UNLINK:
    case FUSE_RMDIR:
    case FUSE_OPEN:
    case FUSE_CREATE:
    case FUSE_READ:
    case FUSE_WRITE:
    case FUSE_FLUSH:
    case FUSE_RELEASE:
    case FUSE_STATFS:
    case FUSE_ACCESS:
    case FUSE_GETXATTR:
    case FUSE_OPENDIR:
    case FUSE_READDIR:
    case FUSE_RELEASEDIR: return true;
    default: return false;
  }
}

/// Whether the kernel leaves it to the mount to clear set-uid and set-gid.
bool kills_rights(const fuse_buf& buffer, const fuse_in_header& header) {
  const auto* const body = static_cast<const std::byte*>(buffer.mem) + sizeof(header);
  const std::size_t size = buffer.size - sizeof(header);
  if (header.opcode == FUSE_WRITE) {
    fuse_write_in write{};
    if (size < sizeof(write)) return false;
    std::memcpy(&write, body, sizeof(write));
    return (write.write_flags & FUSE_WRITE_KILL_SUIDGID) != 0;
  }
  fuse_setattr_in set{};
  if (size < sizeof(set)) return false;
  std::memcpy(&set, body, sizeof(set));
  return (set.valid & FATTR_KILL_SUIDGID) != 0;
}

/// Turns a request into one that libfuse 3.14 knows, and returns the parts that libfuse would not have passed on.
CurrentRequest::Hints take_hints(fuse_buf& buffer, fuse_in_header& header, bool tells_of_setgid) {
  CurrentRequest::Hints hints;
  auto* const bytes = static_cast<std::byte*>(buffer.mem);
  if (header.opcode == FUSE_WRITE || header.opcode == FUSE_SETATTR) {
    hints.kills_rights = kills_rights(buffer, header);
    return hints;
  }
  if (header.opcode == FUSE_TMPFILE) {
    hints.temporary = true;
    header.opcode = FUSE_CREATE;  // the request and its answer have the same form
  } else if (header.opcode == FUSE_SETXATTR && tells_of_setgid) {
    fuse_setxattr_in set{};
    constexpr std::size_t kMore = sizeof(set) - FUSE_COMPAT_SETXATTR_IN_SIZE;
    if (buffer.size < sizeof(header) + sizeof(set)) return hints;
    std::memcpy(&set, bytes + sizeof(header), sizeof(set));
    hints.kills_setgid = (set.setxattr_flags & FUSE_SETXATTR_ACL_KILL_SGID) != 0;
    std::byte* const name = bytes + sizeof(header) + sizeof(set);
    std::memmove(name - kMore, name, buffer.size - sizeof(header) - sizeof(set));
    buffer.size -= kMore;
    header.len -= static_cast<std::uint32_t>(kMore);
  } else {
    return hints;
  }
  std::memcpy(bytes, &header, sizeof(header));
  return hints;
}

}  // namespace

namespace {

/// The servers that take longer than a second to answer. Shorter waits are not worth a message.
job::Task<std::vector<rpc::ServerWait>> servers_waited_for(client::Client& client) {
  co_return client.session().servers().waits(std::chrono::seconds(1));
}

/// Resumes the session at once. Programs may send no request for a long time, and other clients wait for objects that
/// the previous process kept.
job::Task<Unit> resume_client(client::Client& client) {
  client.session().resume();
  co_return Unit();
}

}  // namespace

KernelSession::KernelSession(Mount& mount, SessionPtr session)
    : mount_(mount),
      session_(std::move(session)),
      ended_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      grace_(kEndGrace),
      workers_(
          {fuse_session_fd(session_.get()), mount.options.threads, worker_limit(mount.options), mount.options.busy_poll,
           [&mount](const std::function<bool()>& over) { mount.process.driver().drive_until(over); }},
          [this](bool reads) { return start_worker(reads); }) {
  make_interruptible();
  mount_.workers = &workers_;
  mount_.process.run([this](client::Client&) { return let_executor_call(true); });
  mount_.process.run([](client::Client& c) { return resume_client(c); });
  close_left(mount_);
  mount_.locks.on_grant([&its = mount_](Handle handle) { drop_pages_for_lock(its, handle); });
}

KernelSession::~KernelSession() {
  fuse_session_exit(session_.get());
  draining_ = true;
  const bool no_waits = mount_.locks.stop();
  const bool no_workers = wait_for_workers();
  const bool all_made = send_all_queued(mount_, grace_);
  const bool all_sent = (!mount_.gathers || send_all_gathered(mount_, all_made ? grace_ : kEndGrace)) && all_made;
  if (!all_sent) lose_all_gathered(mount_);
  if (!all_made) lose_all_queued(mount_);
  if (!no_workers || !no_waits || !all_sent) {
    SPATE_LOG("fuse", warn, "ended while operations wait for a server");
    std::_Exit(0);  // everything that was acknowledged is on the servers, except what the log says
  }
  if (mount_.copies != nullptr) mount_.copies->end();
  if (mount_.brief_copies != nullptr) mount_.brief_copies->end();
  mount_.process.run([this](client::Client&) { return let_executor_call(false); });
  mount_.workers = nullptr;
}

/// Lets the executor check that some worker reads the kernel's requests.
job::Task<void> KernelSession::let_executor_call(bool on) {
  if (on) {
    mount_.process.executor().add_source(workers_);
  } else {
    mount_.process.executor().remove_source(workers_);
  }
  co_return;
}

/// Waits until no worker is left, but not for ever.
bool KernelSession::wait_for_workers() {
  const auto limit = std::chrono::steady_clock::now() + kEndGrace;
  workers_.stop();
  bool none = workers_.wait_for_end(std::chrono::milliseconds(0));
  while (!none && std::chrono::steady_clock::now() < limit) {
    workers_.interrupt();
    none = workers_.wait_for_end(kInterruptPause);
  }
  return mount_.releases.drain(limit) && none;
}

WorkerPool::Next KernelSession::handle(fuse_buf& buffer) {
  fuse_in_header header{};
  if (buffer.size >= sizeof(header)) std::memcpy(&header, buffer.mem, sizeof(header));
  requests_.fetch_add(1, std::memory_order_relaxed);
  workers_.request_begins(waits_for_executor_only(header.opcode));
  const bool tells_of_setgid = kernel_init_of(mount_.handover).has(kTellsOfSetgid);
  CurrentRequest::Hints hints = take_hints(buffer, header, tells_of_setgid);
  const std::uint64_t request_id = header.unique & ~kSentAgain;
  hints.sent_again = request_id != header.unique;
  if (request_id != header.unique) mount_.handover.asked_again(request_id);
  const CurrentRequest::Caller caller{header.uid, header.gid, static_cast<pid_t>(header.pid)};
  CurrentRequest::of_this_thread().begin(mount_, request_id, caller, hints);
  fuse_session_process_buf(session_.get(), &buffer);
  mount_.handover.call_answered(request_id);
  if (mount_.delegates) mount_.process.client().cluster().queued().log().call_answered(request_id);
  if (request_id != header.unique) mount_.handover.end_append(request_id);  // in any case the append has ended
  return workers_.request_ends();
}

bool KernelSession::start_worker(bool reads) {
  std::thread worker;
  if (!start_thread(worker, [this, reads] { work(reads); })) return false;
  worker.detach();
  return true;
}

void KernelSession::work(bool reads) {
  fuse_buf buffer{};
  bool over = false;  // the directory was unmounted
  WorkerPool::Next next = reads ? WorkerPool::Next::kRead : WorkerPool::Next::kKeep;
  workers_.work_begins(reads);
  while (!over && !draining_ && next != WorkerPool::Next::kEnd && fuse_session_exited(session_.get()) == 0) {
    if (next == WorkerPool::Next::kKeep) {
      if (!workers_.wait_until_called()) break;
      next = WorkerPool::Next::kRead;
    }
    workers_.wait_for_request();
    const int size = fuse_session_receive_buf(session_.get(), &buffer);
    if (size == -EINTR) continue;
    over = size <= 0;
    if (!over) next = handle(buffer);
  }
  std::free(buffer.mem);
  const std::uint64_t one = 1;
  if (over && !draining_) std::ignore = ::write(ended_.get(), &one, sizeof(one));
  workers_.work_ends(next);
}

Result<void> KernelSession::resume() {
  draining_ = false;
  workers_.resume();
  if (workers_.start()) return {};
  return Error::told(Errc::kNoMemory, "the system gives the mount no thread (see `ulimit -u` and pids.max)");
}

/// Leaves requests that cannot be answered in time to the next process, if the kernel can repeat them. False: this
/// process continues.
bool KernelSession::hand_over() {
  SPATE_LOG("fuse", info, "handing over");
  draining_ = true;
  const bool drained = wait_for_workers();
  if (!drained && !can_resend(mount_)) return false;
  std::ignore = send_all_queued(mount_, kEndGrace);                        // the next process sends what is left
  if (mount_.gathers) std::ignore = send_all_gathered(mount_, kEndGrace);  // the next process sends what is left
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
      client::Limits limits = c.session().limits();
      limits.deadline = std::min(limits.deadline, c.cluster().executor().now() + kLeaseTimeout);
      return open->file->hand_over(limits);
    });
  }
  return true;
}

std::string KernelSession::gathered_text() const {
  const client::GatheredWrites& gathered = mount_.process.client().cluster().gathered();
  const client::GatherMemory* const memory = gathered.memory();
  if (memory == nullptr) return {};
  const client::GatheredWrites::Counters& counters = gathered.counters();
  const client::GatherMemory::Losses losses = memory->losses();
  return fmt::format(
      "gathered_writes {}\ngathered_requests {}\ngathered_requests_lost {}\ngathered_bytes_lost {}\n"
      "gather_memory_bytes {}\ngather_memory_at_most_bytes {}\nkept_tails_bytes {}\nkept_tails_at_most_bytes {}\n",
      counters.writes.load(), counters.sent.load(), losses.requests, losses.bytes,
      memory->used() * client::GatherMemory::kPieceBytes, memory->pieces() * client::GatherMemory::kPieceBytes,
      mount_.tails->bytes(), mount_.tails->most_bytes());
}

std::string KernelSession::queued_text() const {
  const client::QueuedChanges& queued = mount_.process.client().cluster().queued();
  if (!queued.on()) return {};
  const client::QueuedChanges::Counters counters = queued.counters();
  return fmt::format("queued_changes {}\nqueued_requests {}\nqueued_now {}\nqueued_changes_lost {}\n", counters.queued,
                     counters.batches, counters.waiting, counters.lost);
}

/// The status, as lines "name value".
std::string KernelSession::status() const {
  const auto kept = mount_.process.client().cluster().attributes().counters();
  const client::CachedOpens& opens = mount_.process.client().cluster().cached_opens();
  const unsigned workers = workers_.workers();
  std::string text = fmt::format(
      "file_system {}\nname {}\nopen_files {}\nclosing {}\nrequests {}\nworkers {}\nworkers_with_request "
      "{}\nworkers_at_most {}\n"
      "worker_memory_at_most_bytes {}\nanswered_from_leases {}\nasked {}\nrecalled {}\ncopied "
      "{}\nopened_without_asking {}\n"
      "kept_opens {}\n",
      mount_.options.config_file, mount_.process.config().fs.name, mount_.files.size(), mount_.releases.under_way(),
      requests_.load(std::memory_order_relaxed), workers, workers_.at_work(), worker_limit(mount_.options),
      workers * kWorkerBytes, kept.hits, kept.misses, kept.recalls, kept.copied, opens.taken(), opens.size());
  text += gathered_text();
  text += queued_text();
  for (const rpc::ServerWait& wait : mount_.process.run([](client::Client& c) { return servers_waited_for(c); }))
    text += fmt::format("waits_for {}\n", rpc::text_of(wait));
  return text;
}

std::optional<KernelSession::End> KernelSession::on_message(int control) {
  const auto message = receive_message(control);
  if (!message) {
    SPATE_LOG("fuse", warn,
              "the supervisor of the mount has gone; it is served until it is unmounted, and cannot be upgraded");
    alone_ = true;
    end_queueing(mount_);
    std::ignore = send_all_queued(mount_, kEndGrace);
    end_gathering(mount_, kEndGrace);
    return std::nullopt;
  }
  if (message->word == MessageKind::kStop) return End::kStopped;
  if (message->word == MessageKind::kStatus) std::ignore = send_message(control, MessageKind::kTold, status());
  if (message->word != MessageKind::kUpgrade) return std::nullopt;
  if (hand_over()) return End::kHandedOver;
  if (const auto again = resume(); !again) {
    SPATE_LOG("fuse", error, "cannot go on error={}", again.error().message());
    std::_Exit(1);  // the supervisor starts another process
  }
  std::ignore = send_message(control, MessageKind::kFailed,
                             "calls are under way that wait for a server; the old program continues to serve");
  return std::nullopt;
}

/// Asks the supervisor to unmount. If the supervisor is gone, this process unmounts.
void KernelSession::on_signal(int signals, int control) {
  signalfd_siginfo signal{};
  if (::read(signals, &signal, sizeof(signal)) != sizeof(signal)) return;
  if (!alone_) {
    std::ignore = send_message(control, MessageKind::kStop);
  } else if (::umount2(mount_.options.directory.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) != 0) {
    SPATE_LOG("fuse", error, "cannot unmount directory={} error={}", mount_.options.directory, std::strerror(errno));
  }
}

Result<KernelSession::End> KernelSession::run(int signals, int control) {
  if (!ended_) return errno_error(errno, "eventfd");
  SPATE_TRY(std::ignore, resume());
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
    if (*end == End::kUnmounted && !mount_.options.soft) grace_ = kOutageGrace;
    const char* const reason = *end == End::kUnmounted ? "unmounted" : *end == End::kStopped ? "stopped" : "upgrade";
    const auto kept = mount_.process.client().cluster().attributes().counters();
    SPATE_LOG("fuse", info,
              "ending reason={} open_files={} answered_from_leases={} asked={} recalled={} copied={} listed={}", reason,
              mount_.files.size(), kept.hits, kept.misses, kept.recalls, kept.copied, kept.listed);
    return *end;
  }
}

}  // namespace spate::fuse
