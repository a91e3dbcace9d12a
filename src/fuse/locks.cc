// SPDX-License-Identifier: Apache-2.0
// Requests on locks: fcntl's record locks, flock, and what closing a file releases.
#include <fcntl.h>
#include <sys/file.h>

#include "fuse/gathering.h"
#include "fuse/mount.h"
#include "fuse/queueing.h"
#include "log/log.h"

namespace spate::fuse {
namespace {

LockMode mode_of(short type) {
  switch (type) {
    case F_RDLCK: return LockMode::kShared;
    case F_WRLCK: return LockMode::kExclusive;
    default: return LockMode::kNone;
  }
}

/// The kernel's owner stands for a process (F_SETLK) or an open file (F_OFD_SETLK). The kernel does not tell which.
wire::LockSpec record_lock(fuse_ino_t inode, const fuse_file_info& info, const struct flock& lock) {
  wire::LockSpec spec;
  spec.handle = Handle(inode);
  spec.kind = LockKind::kProcess;
  spec.owner = info.lock_owner;
  spec.pid = static_cast<std::uint32_t>(lock.l_pid);
  spec.mode = mode_of(lock.l_type);
  spec.first = static_cast<std::uint64_t>(lock.l_start);
  spec.last = lock.l_len == 0 ? LockRange::kToEnd : spec.first + static_cast<std::uint64_t>(lock.l_len) - 1;
  return spec;
}

void set(fuse_req_t request, const fuse_file_info& info, const wire::LockSpec& lock, bool wait) {
  Mount& mount = this_mount();
  send_all_gathered(mount);
  if (lock.mode != LockMode::kNone) mount.locks.note(info.fh, lock.handle, {lock.kind, lock.owner});
  if (wait && lock.mode != LockMode::kNone) return mount.locks.wait(request, lock);
  const auto done = run(request, [&](client::Client& c) { return c.cluster().locks().set(lock, false); });
  if (done && lock.mode != LockMode::kNone) drop_pages_for_lock(mount, lock.handle);
  reply_done(request, done);
}

void setlk(fuse_req_t request, fuse_ino_t inode, fuse_file_info* info, struct flock* lock, int sleep) {
  set(request, *info, record_lock(inode, *info, *lock), sleep != 0);
}

void getlk(fuse_req_t request, fuse_ino_t inode, fuse_file_info* info, struct flock* lock) {
  const wire::LockSpec spec = record_lock(inode, *info, *lock);
  const auto found = run(request, [&](client::Client& c) { return c.cluster().locks().test(spec); });
  if (!found) return reply_error(request, found.error());
  struct flock out{};
  out.l_type = F_UNLCK;
  if (*found) {
    const wire::LockSpec& other = **found;
    out.l_type = other.mode == LockMode::kExclusive ? F_WRLCK : F_RDLCK;
    out.l_start = static_cast<off_t>(other.first);
    out.l_len = other.last == LockRange::kToEnd ? 0 : static_cast<off_t>(other.last - other.first + 1);
    out.l_pid = static_cast<pid_t>(other.pid);
  }
  answer([&] { return fuse_reply_lock(request, &out); });
}

void flock(fuse_req_t request, fuse_ino_t inode, fuse_file_info* info, int operation) {
  wire::LockSpec spec;
  spec.handle = Handle(inode);
  spec.kind = LockKind::kFlock;
  spec.owner = info->lock_owner;
  spec.pid = static_cast<std::uint32_t>(CurrentRequest::of_this_thread().caller().pid);
  const int what = operation & ~LOCK_NB;
  if (what == LOCK_SH) spec.mode = LockMode::kShared;
  if (what == LOCK_EX) spec.mode = LockMode::kExclusive;
  set(request, *info, spec, (operation & LOCK_NB) == 0);
}

/// close(2) reports whether a write is lost, as far as this process knows. This returns at once while no server has
/// restarted and nothing is gathered.
Result<void> lost_write(fuse_req_t request, Handle object, std::uint64_t number) {
  const Mount& mount = this_mount();
  const bool restarted = mount.process.client().session().servers().any_restarted();
  SPATE_TRY(std::ignore, queued_failure(request, object));
  if (!restarted && !mount.gathers) return {};
  const auto open = mount.files.find(number);
  // An earlier process has opened the file, and it has not been used since.
  if (open == nullptr || !open->is_opened()) return {};
  if (mount.gathers) {
    SPATE_TRY(std::ignore, send_gathered(request, *open->file));
  }
  if (!restarted) return {};
  return run(request, [&](client::Client&) { return open->file->check_lost_file(); });
}

/// A process closes a descriptor: releases its record locks on the file, through whichever they were made.
void flush(fuse_req_t request, fuse_ino_t inode, fuse_file_info* info) {
  const client::LockHolder holder{LockKind::kProcess, info->lock_owner};
  Result<void> done = lost_write(request, Handle(inode), info->fh);
  if (this_mount().locks.take(Handle(inode), holder)) {
    send_all_gathered(this_mount());
    auto released = run(request, [&](client::Client& c) { return c.cluster().locks().release(Handle(inode), holder); });
    if (done) done = std::move(released);
  }
  reply_done(request, done);
}

}  // namespace

void release_locks(Mount& mount, std::uint64_t open, Handle handle) {
  for (const client::LockHolder& holder : mount.locks.take_all(open, handle)) {
    send_all_gathered(mount);
    const auto released =
        mount.process.run([&](client::Client& c) { return c.cluster().locks().release(handle, holder); });
    if (!released)
      SPATE_LOG("fuse", error, "locks of a closed file are not released error={}", released.error().message());
  }
}

/// A program that takes a lock must read the data that the last holder wrote, also if it wrote through another mount.
void drop_pages_for_lock(Mount& mount, Handle handle) {
  if (mount.options.cache == CacheMode::kWriteback) return;
  mount.order.dropping(handle, true);
  std::ignore = fuse_lowlevel_notify_inval_inode(mount.session, handle.value, 0, 0);
}

void add_lock_operations(fuse_lowlevel_ops& operations) {
  operations.getlk = getlk;
  operations.setlk = setlk;
  operations.flock = flock;
  operations.flush = flush;
}

}  // namespace spate::fuse
