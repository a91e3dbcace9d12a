// SPDX-License-Identifier: Apache-2.0
// The workload's data under a lock: whoever has a file's exclusive lock is alone with what it protects.
#include <fmt/format.h>

#include <algorithm>

#include "job/deadline.h"
#include "tests/cluster/workload.h"

namespace spate::cluster {
namespace {

/// Of the file that takes copies: behind everybody's place for those.
constexpr std::uint64_t kGuardedAt = 128ULL << 20U;
constexpr std::uint64_t kGuardedBytes = 12'000;
constexpr std::uint64_t kGuardOwner = 9;
constexpr Duration kPatience = std::chrono::seconds(6);

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
  job::DeadlineScope scope(process_.executor(), begun + kPatience, {});
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

/// Empty: it could not be read.
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

/// Of a write that failed for another reason than a lost lock something may come later.
job::Task<bool> Workload::write_guarded(OpenFilePtr file, std::uint64_t offset, ByteView data) {
  const MonoTime begun = process_.executor().now();
  auto written = co_await file->file->write(kGuardedAt + offset, data);
  if (dead()) co_return false;
  scene_.journal.note(
      fmt::format("c{} writes under lock {}+{}: {}", index_, offset, data.size(), name(written.code())));
  if (written) co_return true;
  if (written.code() == Errc::kStaleHandle && scene_.history.may_be_gone(file->handle)) co_return false;
  note_failure("guarded write", written.code(), begun);
  if (written.code() != Errc::kLostLock) ++scene_.guard_doubts;  // for the rest of the run
  co_return false;
}

job::Task<void> Workload::work_under_lock(OpenFilePtr file, LockClaim claim) {
  const std::uint64_t crashes = scene_.appends.crashes();
  Bytes known = co_await read_guarded(file);
  if (dead() || known.empty()) co_return;
  // Long enough for its session to expire and for others to get the lock; then it writes on.
  if (random_.chance(1, 3)) {
    const Duration span = scene_.world.settings().session_lease * (3 + random_.below(4)) / 2;
    scene_.cut_off(node_, span);
    scene_.guard_wanted_until = process_.executor().now() + span;
  }
  const std::uint64_t rounds = 2 + random_.below(5);
  for (std::uint64_t round = 0; round < rounds && scene_.failure.empty(); ++round) {
    std::ignore = co_await process_.executor().sleep(Duration(random_.below(1'800'000'000)));
    if (dead()) co_return;
    const std::uint64_t size = 1 + random_.below(5000);
    const std::uint64_t offset = random_.below(kGuardedBytes - size);
    const Bytes data(size, static_cast<std::byte>(1 + random_.below(255)));
    const bool written = co_await write_guarded(file, offset, data);
    if (!written) co_return;
    std::copy(data.begin(), data.end(), known.begin() + static_cast<std::ptrdiff_t>(offset));
    const Bytes found = co_await read_guarded(file);
    if (dead() || found.empty()) co_return;
    const bool alone =
        scene_.guard_doubts == 0 && scene_.appends.crashes() == crashes && scene_.locks.certain(file->handle, claim);
    if (!alone) co_return;
    if (found == known) continue;
    const auto at = std::mismatch(found.begin(), found.end(), known.begin()).first - found.begin();
    scene_.fail(
        fmt::format("client {} has file {} locked, and byte {} was changed by another", index_, file->handle, at));
  }
}

}  // namespace spate::cluster
