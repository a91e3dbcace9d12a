// SPDX-License-Identifier: Apache-2.0
#include "fuse/session.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>

#include <fmt/core.h>

#include "fuse/readahead.h"
#include "log/log.h"

namespace spate::fuse {
namespace {

constexpr unsigned kMaxWriteBytes = 1U << 20U;  // the kernel's own limit with 256 pages
constexpr unsigned kMaxBackground = 64;
constexpr std::size_t kMaxWorkers = 256;  // more requests than that wait in the kernel
constexpr auto kEndGrace = std::chrono::seconds(5);

void init(void* user, fuse_conn_info* connection) {
  const auto& mount = *static_cast<const Mount*>(user);
  const auto want = [&](unsigned capability, bool on) {
    connection->want &= ~capability;
    if (on) connection->want |= connection->capable & capability;
  };
  want(FUSE_CAP_ASYNC_READ, true);
  want(FUSE_CAP_ASYNC_DIO, true);
  want(FUSE_CAP_ATOMIC_O_TRUNC, true);
  want(FUSE_CAP_PARALLEL_DIROPS, true);
  want(FUSE_CAP_EXPORT_SUPPORT, true);
  // The kernel asks for the list of what it checks for somebody who is not the owner, and leaves the umask to us.
  want(FUSE_CAP_POSIX_ACL, mount.options.acl);
  want(FUSE_CAP_DONT_MASK, mount.options.acl);
  want(FUSE_CAP_WRITEBACK_CACHE, mount.options.cache == CacheMode::kWriteback);
  // Pages are dropped at open; asking for attributes before each read would cost a round trip a read.
  want(FUSE_CAP_AUTO_INVAL_DATA, false);
  want(FUSE_CAP_EXPLICIT_INVAL_DATA, true);
  // With attributes that the kernel may not keep, readdirplus only adds work.
  want(FUSE_CAP_READDIRPLUS, false);
  want(FUSE_CAP_SPLICE_READ, false);   // requests are small or copied once either way
  want(FUSE_CAP_SPLICE_WRITE, false);  // replies come from memory that is used again
  connection->max_write = std::min(connection->max_write, kMaxWriteBytes);
  connection->max_background = kMaxBackground;
  connection->congestion_threshold = kMaxBackground * 3 / 4;
  SPATE_LOG("fuse", info, "connected to the kernel protocol={}.{} capable={:#x} want={:#x} max_write={} readahead={}",
            connection->proto_major, connection->proto_minor, connection->capable, connection->want, connection->max_write,
            connection->max_readahead);
}

std::string option_text(const Mount& mount) {
  const MountOptions& options = mount.options;
  std::string text = "fsname=" + mount.process.config().fs.name + ",subtype=spate,default_permissions";
  if (options.read_only) text += ",ro";
  if (options.allow_other) text += ",allow_other";
  text += options.no_dev ? ",nodev" : ",dev";
  text += options.no_suid ? ",nosuid" : ",suid";
  if (options.no_exec) text += ",noexec";
  return text;
}

fuse_session* make_session(Mount& mount) {
  fuse_lowlevel_ops handlers = operations();
  handlers.init = init;
  // The kernel alone knows of its dirty pages: it takes everything for data then.
  if (mount.options.cache == CacheMode::kWriteback) handlers.lseek = nullptr;
  const std::string text = option_text(mount);
  std::array<const char*, 3> words{"spate", "-o", text.c_str()};
  fuse_args args = FUSE_ARGS_INIT(static_cast<int>(words.size()), const_cast<char**>(words.data()));
  fuse_session* session = fuse_session_new(&args, &handlers, sizeof(handlers), &mount);
  fuse_opt_free_args(&args);
  return session;
}

Error mount_error(const MountOptions& options) {
  if (::access("/dev/fuse", R_OK | W_OK) != 0) {
    return Error(Errc::kNotSupported, fmt::format("mount {}: /dev/fuse cannot be opened ({}); is the kernel module fuse loaded, "
                                                  "and may this container use it?", options.directory,
                                                  errno == ENOENT ? "it is not there" : "no permission"));
  }
  if (options.allow_other && ::geteuid() != 0) {
    return Error(Errc::kNotPermitted, fmt::format("mount {}: allow_other needs the line user_allow_other in /etc/fuse.conf",
                                                  options.directory));
  }
  return Error(Errc::kNotPermitted,
               fmt::format("mount {}: refused, see above; without root it needs fusermount3 (Debian: fuse3) and a directory "
                           "of your own", options.directory));
}

}  // namespace

Session::Session(Mount& mount, std::unique_ptr<fuse_session, Deleter> session, UniqueFd ended)
    : mount_(mount), session_(std::move(session)), ended_(std::move(ended)) {}

Result<std::unique_ptr<Session>> Session::mount(Mount& mount) {
  UniqueFd ended(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!ended) return errno_error(errno, "eventfd");
  std::unique_ptr<fuse_session, Deleter> session(make_session(mount));
  if (session == nullptr) return Error(Errc::kInvalidArgument, "libfuse refuses the mount options");
  if (fuse_session_mount(session.get(), mount.options.directory.c_str()) != 0) return mount_error(mount.options);
  mount.session = session.get();
  mount.locks.on_grant([&mount](Handle handle) { drop_pages_for_lock(mount, handle); });
  return std::unique_ptr<Session>(new Session(mount, std::move(session), std::move(ended)));
}

Session::~Session() {
  fuse_session_exit(session_.get());
  if (mounted_) fuse_session_unmount(session_.get());  // readers see the end of the connection
  const bool no_waits = mount_.locks.stop();
  if (!wait_for_workers() || !no_waits) {
    SPATE_LOG("fuse", warn, "ended while operations wait for a server");
    std::_Exit(0);  // what was acknowledged is on the servers; nothing is buffered here
  }
}

bool Session::wait_for_workers() {
  std::unique_lock lock(mutex_);
  return one_less_.wait_for(lock, kEndGrace, [this] { return workers_ == 0; });
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
    another = --waiting_ == 0 && workers_ < kMaxWorkers;
  }
  if (another) start_worker();
  Pending::of_this_thread().reset();
  fuse_session_process_buf(session_.get(), &buffer);
  // Not before: the answer to the kernel's first request sets what it reads ahead.
  std::call_once(greeted_, [this] { set_readahead(mount_.options.directory, mount_.options.readahead); });
  const std::lock_guard lock(mutex_);
  ++waiting_;
}

void Session::work() {
  fuse_buf buffer{};
  bool needed = true;
  while (needed && fuse_session_exited(session_.get()) == 0) {
    const int size = fuse_session_receive_buf(session_.get(), &buffer);
    if (size == -EINTR) continue;
    if (size <= 0) break;  // unmounted
    handle(buffer);
    const std::lock_guard lock(mutex_);
    needed = waiting_ <= mount_.options.threads;
  }
  std::free(buffer.mem);
  const std::uint64_t one = 1;
  if (needed) std::ignore = ::write(ended_.get(), &one, sizeof(one));
  const std::lock_guard lock(mutex_);
  --workers_;
  --waiting_;
  one_less_.notify_all();
}

Result<void> Session::run(int signals) {
  for (unsigned i = 0; i < mount_.options.threads; ++i) start_worker();
  std::array<pollfd, 2> waits{pollfd{signals, POLLIN, 0}, pollfd{ended_.get(), POLLIN, 0}};
  while (::poll(waits.data(), waits.size(), -1) < 0) {
    if (errno != EINTR) return errno_error(errno, "poll");
  }
  if ((waits[1].revents & POLLIN) != 0) mounted_ = false;
  SPATE_LOG("fuse", info, "ending reason={} open_files={}", mounted_ ? "signal" : "unmounted", mount_.files.size());
  return {};
}

}  // namespace spate::fuse
