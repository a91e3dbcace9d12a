// SPDX-License-Identifier: Apache-2.0
// The workload's locks and appends, and its reports to their models.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "job/deadline.h"
#include "tests/cluster/workload.h"

namespace spate::cluster {
namespace {

constexpr std::uint64_t kMostLogBytes = 200 * 1024;
constexpr std::array kKinds = {LockKind::kProcess, LockKind::kOpenFile, LockKind::kFlock};
constexpr std::uint64_t kOwners = 2;  // of each kind, for each client

}  // namespace

wire::LockSpec Workload::some_lock(std::uint64_t handle) {
  wire::LockSpec lock;
  lock.handle = Handle(handle);
  lock.kind = kKinds[random_.below(kKinds.size())];
  lock.owner = 1 + random_.below(kOwners);
  lock.pid = static_cast<std::uint32_t>(index_);
  lock.mode = static_cast<LockMode>(random_.below(3));
  if (lock.kind == LockKind::kFlock) return lock;
  lock.first = random_.below(6) * 1000;
  if (!random_.chance(1, 4)) lock.last = lock.first + random_.below(3000);
  return lock;
}

LockClaim Workload::claim_of(const wire::LockSpec& lock) {
  const rpc::Identity& identity = process_.client().session().identity();
  return {index_, identity.client, identity.epoch, lock.kind, lock.owner};
}

job::Task<void> Workload::lock(OpenFilePtr open) {
  // Often the root, so that clients compete for it.
  const wire::LockSpec lock = some_lock(random_.chance(1, 2) ? kRootHandle.value : open->handle);
  if (lock.mode != LockMode::kNone && random_.chance(1, 5)) {
    co_await test_lock(lock);
    co_return;
  }
  co_await set_lock(lock, lock.mode != LockMode::kNone && random_.chance(1, 2));
}

job::Task<void> Workload::set_lock(wire::LockSpec lock, bool waits) {
  const MonoTime begun = process_.executor().now();
  const Duration timeout = std::chrono::milliseconds(1 + random_.below(300));
  job::DeadlineScope scope(process_.executor(), waits ? begun + timeout : MonoTime::never(), {});
  scene_.locks.begin(claim_of(lock), lock);
  auto set = co_await process_.client().cluster().locks().set(lock, waits, scope.token());
  if (dead()) co_return;
  scene_.journal.note(fmt::format("c{} {} {} kind={} owner={} mode={} {}..{}: {}", index_,
                                  waits ? "waits for lock" : "lock", lock.handle.value, static_cast<int>(lock.kind),
                                  lock.owner, static_cast<int>(lock.mode), lock.first, lock.last, name(set.code())));
  if (set && lock.mode != LockMode::kNone) {
    const std::string wrong = scene_.locks.granted(claim_of(lock), lock, process_.executor().now());
    if (!wrong.empty()) scene_.fail(fmt::format("client {}: {}", index_, wrong));
    co_return;
  }
  const Errc code = set.code();
  if (set || code == Errc::kTryAgain || code == Errc::kDeadlock || (waits && code == Errc::kTimeout)) co_return;
  if (code != Errc::kLostLock) note_failure("lock", code, begun);
  co_await release_locks(lock.handle.value);  // it may have the lock or not
}

job::Task<void> Workload::test_lock(wire::LockSpec lock) {
  const MonoTime begun = process_.executor().now();
  auto found = co_await process_.client().cluster().locks().test(lock);
  if (dead()) co_return;
  scene_.journal.note(fmt::format("c{} tests lock {}: {} {}", index_, lock.handle.value, name(found.code()),
                                  found && *found ? "conflict" : ""));
  if (!found) {
    note_failure("lock test", found.code(), begun);
  } else if (!*found) {
    const std::string wrong = scene_.locks.found_free(claim_of(lock), lock, begun);
    if (!wrong.empty()) scene_.fail(fmt::format("client {}: {}", index_, wrong));
  }
}

job::Task<void> Workload::release_locks(std::uint64_t handle) {
  for (const LockKind kind : kKinds) {
    for (std::uint64_t owner = 1; owner <= kOwners && !dead(); ++owner) {
      wire::LockSpec all;
      all.handle = Handle(handle);
      all.kind = kind;
      all.owner = owner;
      scene_.locks.begin(claim_of(all), all);
      std::ignore = co_await process_.client().cluster().locks().release(all.handle, {kind, owner});
    }
  }
}

job::Task<void> Workload::use_a_log() {
  std::vector<OpenFilePtr> logs;
  std::copy_if(open_.begin(), open_.end(), std::back_inserter(logs),
               [](const OpenFilePtr& open) { return open->use == Use::kLog; });
  if (logs.empty()) {
    NameOp op;
    op.kind = NameOpKind::kCreate;
    op.path.parts = {scene_.names.id(random_.chance(1, 2) ? "log0" : "log1")};
    op.mode = 0777;
    co_await do_name(std::move(op));
    co_return;
  }
  const OpenFilePtr log = logs[random_.below(logs.size())];
  const std::uint64_t dice = random_.below(10);
  if (dice < 6 && allows(log->rights, Rights::kWrite)) {
    co_await append(log);
  } else if (dice < 7 && allows(log->rights, Rights::kWrite)) {
    co_await sync_log(log);
  } else if (allows(log->rights, Rights::kRead)) {
    co_await read_log(log);
  } else {
    co_await close(log);  // the next append has other rights
  }
}

job::Task<void> Workload::append(OpenFilePtr log) {
  const std::uint64_t size = 1 + random_.below(random_.chance(1, 6) ? 20'000 : 3000);
  const MonoTime begun = process_.executor().now();
  const AppendId id = scene_.appends.begin(log->handle, size);
  const Bytes memory = scene_.appends.content(id);
  const std::array<ByteView, 1> views{memory};
  auto at = co_await log->file->append(views);
  if (dead()) co_return;
  scene_.journal.note(fmt::format("c{} append {} of {}: {} at {} (append {})", index_, log->handle, size,
                                  name(at.code()), at ? *at : 0, id));
  if (at) {
    log->appended.push_back(id);
    const std::string wrong = scene_.appends.succeeded(id, *at);
    if (!wrong.empty()) scene_.fail(fmt::format("client {}: file {}: {}", index_, log->handle, wrong));
    if (*at > kMostLogBytes) co_await close(log);
    co_return;
  }
  if (at.code() == Errc::kStaleHandle && scene_.history.may_be_gone(log->handle)) co_return;
  note_failure("append", at.code(), begun);
}

job::Task<void> Workload::sync_log(OpenFilePtr log) {
  const MonoTime begun = process_.executor().now();
  const std::vector<AppendId> covered = log->appended;
  auto done = co_await log->file->sync();
  if (dead()) co_return;
  scene_.journal.note(fmt::format("c{} fsync {}: {}", index_, log->handle, name(done.code())));
  // The loss covers all appends answered until now. A later fsync does not cover them.
  if (done.code() == Errc::kLostWrite) log->appended.clear();
  if (done) {
    scene_.appends.synced(covered);
    scene_.history.durable(begun);
  } else if (done.code() != Errc::kLostWrite &&
             (done.code() != Errc::kStaleHandle || !scene_.history.may_be_gone(log->handle))) {
    note_failure("fsync", done.code(), begun);
  }
}

job::Task<void> Workload::read_log(OpenFilePtr log) {
  const MonoTime begun = process_.executor().now();
  Bytes memory(2 * kMostLogBytes);
  const std::uint64_t id = scene_.appends.begin_read();
  auto got = co_await log->file->read(0, memory);
  if (dead()) co_return;
  scene_.journal.note(fmt::format("c{} reads log {}: {} {}", index_, log->handle, name(got.code()), got ? *got : 0));
  if (!got) {
    if (got.code() == Errc::kStaleHandle && scene_.history.may_be_gone(log->handle)) co_return;
    note_failure("read", got.code(), begun);
    co_return;
  }
  const std::string wrong = scene_.appends.end_read(log->handle, id, ByteView(memory).first(*got));
  if (!wrong.empty()) scene_.fail(fmt::format("client {}: read of file {}: {}", index_, log->handle, wrong));
}

}  // namespace spate::cluster
