// SPDX-License-Identifier: Apache-2.0
#include "preload/locks.h"

#include <sys/file.h>

#include <set>

#include "job/deadline.h"

namespace spate::preload {
namespace {

/// A wait for a lock is cut into pieces, between which signals are looked at: a program may be waited for that never ends.
constexpr Duration kPiece = std::chrono::milliseconds(50);

/// The files that this process may have record locks on.
struct Locked {
  std::mutex mutex;
  std::set<std::pair<const Mount*, Handle>> files;
};

Locked& locked() {
  static auto& all = *new Locked;
  return all;
}

std::uint64_t own_number() { return static_cast<std::uint64_t>(raw(SYS_getpid)); }

/// One attempt of a lock, which waits for at most a piece.
template <typename Act>
job::Task<Result<void>> attempt(posix::FileSystem& files, posix::OpenFile& file, const Act& act) {
  job::Executor& executor = files.client().cluster().executor();
  job::DeadlineScope piece(executor, executor.now() + kPiece, {});
  auto got = co_await act(file, piece.token());
  co_return got;
}

/// Runs `act(file, stop)` until it ends by itself, or a signal is there that the program does not hold back.
template <typename Act>
Reply wait_for(Description& d, const Act& act) {
  auto open = d.file();
  if (!open) return refuse(open.error());
  posix::OpenFile& file = **open;
  for (;;) {
    const auto got = d.mount().run([&](posix::FileSystem& files) { return attempt(files, file, act); });
    if (got || got.code() != Errc::kTimeout) return done(got);
    if (signal_waits()) return minus(EINTR);
  }
}

}  // namespace

Reply record_lock(Description& d, int command, struct ::flock* lock) {
  if (d.is_place()) return minus(EBADF);
  posix::RecordLock wish;
  wish.range = *lock;
  wish.process = own_number();
  wish.open_file = command == F_OFD_GETLK || command == F_OFD_SETLK || command == F_OFD_SETLKW;
  if (wish.open_file && lock->l_pid != 0) return minus(EINVAL);
  if (command == F_GETLK || command == F_OFD_GETLK) {
    const auto found = d.run([&](posix::OpenFile& file) { return file.get_lock(wish); });
    if (found) *lock = *found;
    return done(found);
  }
  const bool waits = command == F_SETLKW || command == F_OFD_SETLKW;
  {
    Locked& all = locked();
    const std::lock_guard guard(all.mutex);
    all.files.emplace(&d.mount(), d.handle());
  }
  return wait_for(d, [&](posix::OpenFile& file, job::StopToken stop) { return file.set_lock(wish, waits, stop); });
}

Reply whole_lock(Description& d, int operation) {
  if (d.is_place()) return minus(EBADF);
  return wait_for(d, [&](posix::OpenFile& file, job::StopToken stop) { return file.flock(operation, stop); });
}

void drop_record_locks(Description& d) {
  Locked& all = locked();
  {
    const std::lock_guard guard(all.mutex);
    if (!all.files.contains({&d.mount(), d.handle()})) return;
  }
  std::ignore = d.run([](posix::OpenFile& file) { return file.drop_locks_of(own_number()); });
}

}  // namespace spate::preload
