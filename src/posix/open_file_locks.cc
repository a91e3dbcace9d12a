// SPDX-License-Identifier: Apache-2.0
#include "posix/open_file_locks.h"

#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <utility>

namespace spate::posix {
namespace {

constexpr auto kLongest = static_cast<std::int64_t>(LockRange::kToEnd);

Result<LockMode> mode_of(short type) {
  switch (type) {
    case F_RDLCK: return LockMode::kShared;
    case F_WRLCK: return LockMode::kExclusive;
    case F_UNLCK: return LockMode::kNone;
    default: return Errc::kInvalidArgument;
  }
}

/// `start` and `size` as in struct flock: a negative size is the range before the start, and 0 extends to the end.
Result<LockRange> range_of(std::int64_t base, std::int64_t start, std::int64_t size) {
  std::int64_t first = 0;
  if (__builtin_add_overflow(base, start, &first)) return Errc::kOutOfRange;
  if (first < 0) return Errc::kInvalidArgument;
  if (size == 0) return LockRange{static_cast<std::uint64_t>(first), LockRange::kToEnd};
  std::int64_t last = 0;
  if (size > 0 && __builtin_add_overflow(first, size - 1, &last)) return Errc::kOutOfRange;
  if (size < 0) {
    last = first - 1;
    if (__builtin_add_overflow(first, size, &first)) return Errc::kInvalidArgument;
  }
  if (first < 0 || last < first || last > kLongest) return Errc::kInvalidArgument;
  return LockRange{static_cast<std::uint64_t>(first), static_cast<std::uint64_t>(last)};
}

/// A number that identifies an open file as an owner of locks; never 0.
std::uint64_t next_number() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

}  // namespace

OpenFileLocks::OpenFileLocks(client::Client& client, Handle handle)
    : client_(client), handle_(handle), number_(next_number()) {}

Result<wire::LockSpec> OpenFileLocks::record_lock_spec(const RecordLock& lock, std::int64_t base) const {
  wire::LockSpec spec;
  SPATE_TRY(spec.mode, mode_of(lock.range.l_type));
  SPATE_TRY(const LockRange range, range_of(base, lock.range.l_start, lock.range.l_len));
  spec.handle = handle_;
  spec.kind = lock.open_file ? LockKind::kOpenFile : LockKind::kProcess;
  spec.owner = lock.open_file ? number_ : lock.process;
  spec.pid = static_cast<std::uint32_t>(::getpid());
  spec.first = range.first;
  spec.last = range.last;
  return spec;
}

Result<wire::LockSpec> OpenFileLocks::flock_spec(int operation) const {
  wire::LockSpec spec;
  switch (operation & ~LOCK_NB) {
    case LOCK_SH: spec.mode = LockMode::kShared; break;
    case LOCK_EX: spec.mode = LockMode::kExclusive; break;
    case LOCK_UN: break;
    default: return Errc::kInvalidArgument;
  }
  spec.handle = handle_;
  spec.kind = LockKind::kFlock;
  spec.owner = number_;
  spec.pid = static_cast<std::uint32_t>(::getpid());
  return spec;
}

job::Task<Result<void>> OpenFileLocks::set(wire::LockSpec spec, bool wait, job::StopToken stop) {
  holders_.insert({spec.kind, spec.owner});
  auto set = co_await client_.cluster().locks().set(spec, wait && spec.mode != LockMode::kNone, stop);
  co_return set;
}

job::Task<Result<std::optional<wire::LockSpec>>> OpenFileLocks::test(wire::LockSpec spec) {
  auto found = co_await client_.cluster().locks().test(spec);
  co_return found;
}

job::Task<Result<void>> OpenFileLocks::release_all() {
  Result<void> all;
  for (const client::LockHolder& holder : std::exchange(holders_, {})) {
    auto released = co_await client_.cluster().locks().release(handle_, holder);
    if (!released) all = std::move(released);
  }
  co_return all;
}

struct ::flock as_flock(const struct ::flock& asked, const std::optional<wire::LockSpec>& found) {
  struct ::flock out = asked;
  out.l_type = F_UNLCK;
  if (!found) return out;
  out.l_type = found->mode == LockMode::kExclusive ? F_WRLCK : F_RDLCK;
  out.l_whence = SEEK_SET;
  out.l_start = static_cast<off_t>(found->first);
  out.l_len = found->last == LockRange::kToEnd ? 0 : static_cast<off_t>(found->last - found->first + 1);
  out.l_pid = found->kind == LockKind::kOpenFile ? -1 : static_cast<pid_t>(found->pid);
  return out;
}

}  // namespace spate::posix
