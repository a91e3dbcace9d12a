// SPDX-License-Identifier: Apache-2.0
// OpenFile: flock, record locks.
#include <sys/file.h>
#include <unistd.h>

#include "posix/open_file.h"

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

}  // namespace

/// Fails unless this is a file or a directory.
Result<void> OpenFile::check_lockable() const {
  const bool directory = type_ == FileType::kDirectory && (flags_ & O_PATH) == 0;
  return directory ? Result<void>() : check_file(true);
}

job::Task<Result<wire::LockSpec>> OpenFile::record_lock_spec(RecordLock lock, bool sets) {
  SPATE_CO_TRY(std::ignore, check_lockable());
  std::int64_t base = 0;
  if (lock.range.l_whence == SEEK_CUR) {
    base = static_cast<std::int64_t>(position_->load());
  } else if (lock.range.l_whence == SEEK_END) {
    SPATE_CO_TRY(const Attributes now, co_await stat());
    base = static_cast<std::int64_t>(now.size);
  } else if (lock.range.l_whence != SEEK_SET) {
    co_return Errc::kInvalidArgument;
  }
  wire::LockSpec spec;
  SPATE_CO_TRY(spec.mode, mode_of(lock.range.l_type));
  SPATE_CO_TRY(const LockRange range, range_of(base, lock.range.l_start, lock.range.l_len));
  spec.handle = handle_;
  spec.kind = lock.open_file ? LockKind::kOpenFile : LockKind::kProcess;
  spec.owner = lock.open_file ? number_ : lock.process;
  spec.pid = static_cast<std::uint32_t>(::getpid());
  spec.first = range.first;
  spec.last = range.last;
  const Rights needed = spec.mode == LockMode::kExclusive ? Rights::kWrite : Rights::kRead;
  const Rights has = file_ == nullptr ? Rights::kRead : file_->rights();  // a directory is never open for writing
  if (sets && spec.mode != LockMode::kNone && !allows(has, needed)) co_return Errc::kBadDescriptor;
  co_return spec;
}

Result<wire::LockSpec> OpenFile::flock_spec(int operation) const {
  SPATE_TRY(std::ignore, check_lockable());
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

job::Task<Result<void>> OpenFile::flock(int operation, job::StopToken stop) {
  SPATE_CO_TRY(const wire::LockSpec spec, flock_spec(operation));
  locks_.insert({spec.kind, spec.owner});
  auto set =
      co_await client_.cluster().locks().set(spec, (operation & LOCK_NB) == 0 && spec.mode != LockMode::kNone, stop);
  co_return set;
}

job::Task<Result<void>> OpenFile::set_lock(RecordLock lock, bool wait, job::StopToken stop) {
  SPATE_CO_TRY(const wire::LockSpec spec, co_await record_lock_spec(lock, true));
  locks_.insert({spec.kind, spec.owner});
  auto set = co_await client_.cluster().locks().set(spec, wait && spec.mode != LockMode::kNone, stop);
  co_return set;
}

job::Task<Result<struct ::flock>> OpenFile::get_lock(RecordLock lock) {
  SPATE_CO_TRY(const wire::LockSpec spec, co_await record_lock_spec(lock, false));
  SPATE_CO_TRY(const auto found, co_await client_.cluster().locks().test(spec));
  co_return as_flock(lock.range, found);
}

struct ::flock OpenFile::as_flock(const struct ::flock& asked, const std::optional<wire::LockSpec>& found) {
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

/// The last descriptor was closed: releases the locks of this open file, and those that processes made through it.
job::Task<Result<void>> OpenFile::release_locks() {
  Result<void> all;
  for (const client::LockHolder& holder : std::exchange(locks_, {})) {
    auto released = co_await client_.cluster().locks().release(handle_, holder);
    if (!released) all = std::move(released);
  }
  co_return all;
}

}  // namespace spate::posix
