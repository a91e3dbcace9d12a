// SPDX-License-Identifier: Apache-2.0
// The workload's changes under a lock: the holder of a file's exclusive lock is the only client that changes the data
// protected by it.
#include "tests/cluster/workload_guard.h"

#include <fmt/format.h>

#include <algorithm>

#include "job/deadline.h"
#include "tests/cluster/workload.h"

namespace spate::cluster {
namespace {

constexpr std::uint64_t kGuardOwner = 9;
constexpr Duration kTimeout = std::chrono::seconds(6);

wire::LockSpec guard_lock(const std::uint64_t handle, LockMode mode) {
  wire::LockSpec lock;
  lock.handle = Handle(handle);
  lock.kind = LockKind::kFlock;
  lock.owner = kGuardOwner;
  lock.mode = mode;
  return lock;
}

}  // namespace

Workload::OpenFilePtr Workload::scratch_file() {
  for (const OpenFilePtr& open : open_) {
    if (open->use == Use::kScratch && allows(open->rights, Rights::kReadWrite)) return open;
  }
  return nullptr;
}

job::Task<void> Workload::make_scratch_file() {
  NameOp op;
  op.kind = NameOpKind::kCreate;
  op.path.parts = {scene_.names.id("scratch")};
  op.mode = 0777;
  co_await do_name(std::move(op));
}

job::Task<void> Workload::use_under_lock() {
  const OpenFilePtr file = scratch_file();
  if (file == nullptr) {
    co_await make_scratch_file();
    co_return;
  }
  wire::LockSpec lock = guard_lock(file->handle, LockMode::kExclusive);
  lock.pid = static_cast<std::uint32_t>(index_);
  const MonoTime begun = process_.executor().now();
  scene_.locks.begin(claim_of(lock), lock);
  job::DeadlineScope scope(process_.executor(), begun + kTimeout, {});
  auto set = co_await process_.client().cluster().locks().set(lock, true, scope.token());
  if (dead()) co_return;
  scene_.journal.note(fmt::format("c{} guards {}: {}", index_, file->handle, name(set.code())));
  if (set) {
    const LockClaim claim = claim_of(lock);
    const std::string wrong = scene_.locks.granted(claim, lock, process_.executor().now());
    if (!wrong.empty()) scene_.fail(fmt::format("client {}: {}", index_, wrong));
    co_await work_under_lock(file, claim);
    if (dead()) co_return;
  } else if (set.code() != Errc::kTimeout && set.code() != Errc::kLostLock) {
    note_failure("lock", set.code(), begun);
  }
  co_await release_guard(file->handle);
}

job::Task<void> Workload::release_guard(std::uint64_t handle) {
  const wire::LockSpec none = guard_lock(handle, LockMode::kNone);
  scene_.locks.begin(claim_of(none), none);
  std::ignore = co_await process_.client().cluster().locks().release(none.handle, {none.kind, none.owner});
}

/// Reads the protected range. Empty: it could not be read.
job::Task<Bytes> Workload::read_guarded(OpenFilePtr file) {
  const MonoTime begun = process_.executor().now();
  Bytes memory(kGuardedBytes);
  auto got = co_await file->file->read(kGuardedAt, memory);
  if (dead()) co_return Bytes();
  if (!got) {
    if (got.code() != Errc::kStaleHandle || !scene_.history.may_be_gone(file->handle))
      note_failure("guarded read", got.code(), begun);
    co_return Bytes();
  }
  std::fill(memory.begin() + static_cast<std::ptrdiff_t>(*got), memory.end(), std::byte{0});
  co_return memory;
}

/// Whether nothing of a failed change can take effect any more.
job::Task<bool> Workload::is_over(OpenFilePtr file, bool cut) {
  if (!cut) {
    const bool over = co_await barrier(file->handle, file->file->layout());
    co_return over;
  }
  client::NamePath where;
  where.start = Handle(file->handle);
  auto opened = co_await process_.client().open(where, wire::kOpenRead);  // waits for truncations
  if (!opened || dead()) co_return false;
  auto closed = co_await (*opened)->close();
  if (closed.code() == Errc::kLostWrite) unsynced_[file->handle].clear();  // it is reported only once
  co_return true;
}

/// Returns false. A change that failed under the lock may still take effect while the lock is held, so this waits for
/// it. A change that failed because the lock was lost cannot take effect once others have the lock.
job::Task<bool> Workload::failed_guarded(OpenFilePtr file, LockClaim claim, Errc code, bool cut) {
  if (code == Errc::kLostLock) co_return false;
  for (int tries = 0; tries < 5 && scene_.locks.certain(file->handle, claim); ++tries) {
    const bool over = co_await is_over(file, cut);
    if (dead() || over) co_return false;
    std::ignore = co_await process_.executor().sleep(std::chrono::milliseconds(500));
    if (dead()) co_return false;
  }
  if (scene_.locks.certain(file->handle, claim)) ++scene_.guard_doubts;  // for the rest of the run
  co_return false;
}

job::Task<bool> Workload::write_guarded(OpenFilePtr file, LockClaim claim, Bytes& known, Extent where) {
  const MonoTime begun = process_.executor().now();
  const Bytes data(where.size, static_cast<std::byte>(1 + random_.below(255)));
  auto written = co_await file->file->write(kGuardedAt + where.offset, data);
  if (dead()) co_return false;
  scene_.journal.note(
      fmt::format("c{} writes under lock {}+{}: {}", index_, where.offset, where.size, name(written.code())));
  if (written) {
    std::copy(data.begin(), data.end(), known.begin() + static_cast<std::ptrdiff_t>(where.offset));
    co_return true;
  }
  if (written.code() == Errc::kStaleHandle && scene_.history.may_be_gone(file->handle)) co_return false;
  note_failure("guarded write", written.code(), begun);
  co_return co_await failed_guarded(file, claim, written.code(), false);
}

/// A truncation by handle works even if this client has lost its lock. So it is used only by clients that stay silent
/// until it has failed.
job::Task<bool> Workload::cut_guarded(OpenFilePtr file, LockClaim claim, Bytes& known, bool by_handle) {
  const MonoTime begun = process_.executor().now();
  const std::uint64_t size = 1 + random_.below(kGuardedBytes - 1);
  Errc code = Errc::kOk;
  if (by_handle) {
    client::NamePath where;
    where.start = Handle(file->handle);
    auto done = co_await process_.client().truncate(where, kGuardedAt + size);
    code = done.code();
  } else {
    auto done = co_await file->file->truncate(kGuardedAt + size);
    code = done.code();
  }
  if (dead()) co_return false;
  scene_.journal.note(fmt::format("c{} cuts under lock at {}: {}", index_, size, name(code)));
  if (code == Errc::kOk) {
    std::fill(known.begin() + static_cast<std::ptrdiff_t>(size), known.end(), std::byte{0});
    co_return true;
  }
  if (code == Errc::kStaleHandle && scene_.history.may_be_gone(file->handle)) co_return false;
  if (code == Errc::kLostWrite && scene_.history.may_be_gone(file->handle)) co_return false;
  note_failure("guarded cut", code, begun);
  co_return co_await failed_guarded(file, claim, code, true);
}

job::Task<bool> Workload::change_guarded(OpenFilePtr file, LockClaim claim, Bytes& known) {
  if (random_.chance(1, 6)) co_return co_await cut_guarded(file, claim, known, false);
  if (random_.chance(1, 3)) co_return co_await write_and_cut_guarded(file, claim, known);
  const std::uint64_t size = 1 + random_.below(5000);
  co_return co_await write_guarded(file, claim, known, {random_.below(kGuardedBytes - size), size});
}

/// Truncates the file to a size beyond the protected range, which needs no lock.
job::Task<void> Workload::grow_guarded() {
  const OpenFilePtr file = scratch_file();
  const MonoTime begun = process_.executor().now();
  client::NamePath where;
  where.start = Handle(file->handle);
  ++scene_.growths;
  auto done = co_await process_.client().truncate(where, kGuardedAt + kGuardedBytes + 1 + random_.below(1000));
  if (dead()) co_return;
  scene_.journal.note(fmt::format("c{} grows {}: {}", index_, file->handle, name(done.code())));
  if (done || (done.code() == Errc::kStaleHandle && scene_.history.may_be_gone(file->handle))) co_return;
  note_failure("growth", done.code(), begun);
}

}  // namespace spate::cluster
