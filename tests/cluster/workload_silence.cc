// SPDX-License-Identifier: Apache-2.0
// A lock's holder is silent until its session has expired, while one of its changes is held up. The change must take
// effect before another client gets the lock, or never.
#include <fmt/format.h>

#include <algorithm>

#include "tests/cluster/workload.h"
#include "tests/cluster/workload_guard.h"

namespace spate::cluster {
namespace {

/// Longer than a client waits for an answer (small_client_options). So the change has failed when the client is heard
/// again.
constexpr Duration kLongSilence = std::chrono::seconds(9);
constexpr Duration kOnItsWay = std::chrono::milliseconds(20);

ServerId first_server(const Layout& layout) {
  return ServerId(layout.slots.front().targets.front().value / kMaxTargetsPerServer);
}

ServerId server_at(const Layout& layout, std::uint64_t offset) {
  const Slot& slot = layout.slots[offset / layout.strip_bytes % layout.slots.size()];
  return ServerId(slot.targets.front().value / kMaxTargetsPerServer);
}

}  // namespace

void Workload::be_silent_for(Duration span) {
  scene_.part(kMetaServer.value, node_, span);
  scene_.guard_wanted_until = scene_.world.now() + span;  // for others, even if this process ends
}

job::Task<bool> Workload::fall_silent(OpenFilePtr file, LockClaim claim, Bytes& known) {
  switch (random_.below(8)) {
    case 0:
    case 1: co_return co_await cut_behind_a_refusal(file, claim, known);
    case 2:
    case 3: co_return co_await cut_behind_another(file, claim, known);
    case 4: co_return co_await write_in_grace(file, claim, known);
    case 5: co_return co_await come_back_before_the_cut(file, claim, known);
    default: be_silent_for(scene_.world.settings().session_lease * (3 + random_.below(4)) / 2); co_return true;
  }
}

/// The client's truncation is an intent at the meta server, which an io server refuses to carry out for a while.
job::Task<bool> Workload::cut_behind_a_refusal(OpenFilePtr file, LockClaim claim, Bytes& known) {
  scene_.refuse_cuts(first_server(file->file->layout()), std::chrono::milliseconds(4500 + random_.below(4500)));
  const Duration span = scene_.world.settings().session_lease * (3 + random_.below(4)) / 2;
  scene_.world.at(scene_.world.now() + kOnItsWay, [this, span] {
    if (!dead()) be_silent_for(span);
  });
  co_return co_await cut_guarded(file, claim, known, false);
}

/// The client's truncation waits at the meta server for the truncation of another client.
job::Task<bool> Workload::cut_behind_another(OpenFilePtr file, LockClaim claim, Bytes& known) {
  scene_.refuse_cuts(first_server(file->file->layout()), std::chrono::milliseconds(4500 + random_.below(2000)));
  scene_.growth_wanted_until = process_.executor().now() + std::chrono::milliseconds(400);
  const std::uint64_t before = scene_.growths;
  for (int i = 0; i < 20 && scene_.growths == before; ++i) {
    std::ignore = co_await process_.executor().sleep(kOnItsWay);
    if (dead()) co_return false;
  }
  std::ignore = co_await process_.executor().sleep(kOnItsWay);
  if (dead()) co_return false;
  scene_.world.at(scene_.world.now() + kOnItsWay, [this] {
    if (!dead()) be_silent_for(kLongSilence);
  });
  co_return co_await cut_guarded(file, claim, known, true);
}

/// The meta server restarts and knows the lock only from its store. The holder returns in a later epoch. An io server
/// that cannot learn of that may still carry out the holder's write.
job::Task<bool> Workload::write_in_grace(OpenFilePtr file, LockClaim claim, Bytes& known) {
  const std::uint32_t server = server_at(file->file->layout(), kGuardedAt).value;
  scene_.part(kMetaServer.value, server, std::chrono::seconds(11));
  scene_.part(server, node_, std::chrono::milliseconds(7200));
  be_silent_for(std::chrono::milliseconds(4500));
  scene_.guard_wanted_until = process_.executor().now() + std::chrono::seconds(11);
  scene_.restart_meta();
  co_return co_await write_guarded(file, claim, known, {0, kGuardedBytes});
}

/// The client returns in a later epoch and takes another lock, while its truncation is held up. Then the meta server
/// restarts. It knows the locks of both epochs only from its store.
job::Task<bool> Workload::come_back_before_the_cut(OpenFilePtr file, LockClaim claim, Bytes& known) {
  scene_.refuse_cuts(first_server(file->file->layout()), std::chrono::milliseconds(6500 + random_.below(2000)));
  scene_.world.at(scene_.world.now() + kOnItsWay, [this] {
    if (!dead()) be_silent_for(scene_.world.settings().session_lease * 5 / 4);
  });
  const bool done = co_await cut_guarded(file, claim, known, false);
  if (done || dead()) co_return done;
  wire::LockSpec lock;
  lock.handle = kRootHandle;
  lock.kind = LockKind::kProcess;
  lock.owner = claim.number;
  lock.pid = static_cast<std::uint32_t>(index_);
  lock.mode = LockMode::kShared;
  co_await set_lock(lock, false);
  if (dead()) co_return false;
  scene_.guard_wanted_until = process_.executor().now() + std::chrono::seconds(4);
  scene_.restart_meta();
  co_return false;
}

job::Task<void> Workload::work_under_lock(OpenFilePtr file, LockClaim claim) {
  const std::uint64_t crashes = scene_.appends.crashes();
  Bytes known = co_await read_guarded(file);
  if (dead() || known.empty()) co_return;
  // Its session expires, and others get the lock. Then it goes on writing.
  if (random_.chance(1, 2)) {
    const bool done = co_await fall_silent(file, claim, known);
    if (!done) co_return;
  }
  const std::uint64_t rounds = 2 + random_.below(5);
  for (std::uint64_t round = 0; round < rounds && scene_.failure.empty(); ++round) {
    std::ignore = co_await process_.executor().sleep(Duration(random_.below(1'800'000'000)));
    if (dead()) co_return;
    const bool changed = co_await change_guarded(file, claim, known);
    if (!changed) co_return;
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
