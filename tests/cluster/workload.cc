// SPDX-License-Identifier: Apache-2.0
#include "tests/cluster/workload.h"

#include <fmt/format.h>

namespace spate::cluster {

Workload::Workload(Scene& scene, ClientProcess& process, int index, std::uint64_t seed)
    : scene_(scene), process_(process), index_(index), node_(process.node()), random_(seed) {}

job::Task<void> Workload::statfs() {
  const MonoTime begun = process_.executor().now();
  auto space = co_await process_.client().statfs();
  if (!dead() && !space) note_failure("statfs", space.code(), begun);
}

/// Asks for all rights on the root directory. The answer must be about the root.
job::Task<void> Workload::access_root() {
  constexpr std::uint8_t kAll = 7;
  const MonoTime begun = process_.executor().now();
  auto may = co_await process_.client().access(client::path_from_root(""), kAll);
  if (dead()) co_return;
  if (!may) {
    note_failure("access", may.code(), begun);
  } else if (may->attributes.handle != kRootHandle) {
    scene_.fail("access of the root tells of another object");
  }
}

job::Task<void> Workload::run() {
  while (!dead() && scene_.operations_left > 0 && scene_.failure.empty()) {
    --scene_.operations_left;
    co_await one();
    if (dead()) break;
    if (random_.chance(1, 200)) break;  // this client ends, and another one takes its place
    if (random_.chance(1, 100)) step_wall_clock();
    const Duration pause = scene_.pause();
    const std::uint64_t most = pause.count() > 0       ? static_cast<std::uint64_t>(pause.count())
                               : random_.chance(1, 10) ? 3'000'000
                                                       : 1;
    std::ignore = co_await process_.executor().sleep(Duration(random_.below(most)));
  }
  finished_ = true;
}

/// By at most five minutes, since io servers do not accept times that are further away.
void Workload::step_wall_clock() {
  constexpr std::int64_t kMostMs = 300'000;
  const auto by = std::chrono::milliseconds(static_cast<std::int64_t>(random_.below(2 * kMostMs)) - kMostMs);
  scene_.journal.note(fmt::format("c{} sets its clock by {} ms", index_, by.count()));
  process_.step_wall_clock(by);
}

job::Task<void> Workload::one() {
  if (!doubts_.empty() && random_.chance(1, 2)) {
    co_await settle_doubts();
    if (dead()) co_return;
  }
  if (process_.executor().now() < scene_.guard_wanted_until && random_.chance(1, 2)) {
    co_await use_under_lock();
    co_return;
  }
  if (process_.executor().now() < scene_.growth_wanted_until && scratch_file() != nullptr) {
    co_await grow_guarded();
    co_return;
  }
  if (process_.executor().now() < scene_.shared_loss.synced && random_.chance(4, 5)) {
    co_await share_a_loss();
    co_return;
  }
  if (scene_.late && process_.executor().now() < scene_.late->until && random_.chance(1, 2)) {
    co_await write_where_late();
    co_return;
  }
  const std::uint64_t dice = random_.below(100);
  if (dice < 38) {
    NameOp op = choose_change();
    co_await do_name(std::move(op));
  } else if (dice < 55) {
    NameOp op = choose_look();
    co_await do_name(std::move(op));
  } else {
    co_await use_a_file();
  }
}

job::Task<void> Workload::use_a_file() {
  const std::uint64_t dice = random_.below(100);
  if (open_.empty() || dice < 8) {
    co_await open_something(random_.chance(1, 4));
  } else if (dice < 13) {
    const OpenFilePtr open = open_[random_.below(open_.size())];
    constexpr std::size_t kMany = 4;
    if (open_.size() >= kMany) {
      co_await close_all();
    } else {
      co_await close(open);
    }
  } else if (dice < 17) {
    co_await truncate_by_handle();
  } else if (dice < 18) {
    // Not one await of either: g++ 12 destroys such a task twice.
    if (random_.chance(1, 2)) {
      co_await access_root();
    } else {
      co_await statfs();
    }
  } else if (dice < 26) {
    const OpenFilePtr open = open_[random_.below(open_.size())];
    co_await lock(open);
  } else if (dice < 28) {
    co_await use_under_lock();
  } else if (dice < 36) {
    co_await use_a_log();
  } else if (dice < 44) {
    co_await use_pages();
  } else if (dice < 48) {
    const OpenFilePtr open = some_open(Rights::kRead);
    if (open == nullptr) co_return;
    if (random_.chance(1, 3)) {
      co_await map_data(open);
    } else {
      co_await copy(open);
    }
  } else if (dice < 50) {
    const MonoTime begun = process_.executor().now();
    auto synced = co_await process_.client().sync();
    if (dead()) co_return;
    if (synced) scene_.history.durable(begun);
    if (!synced) note_failure("sync", synced.code(), begun);
  } else {
    co_await batch();
  }
}

ClientId Workload::session() {
  if (!left_ && !killed_) session_ = process_.client().session().identity().client;
  return session_;
}

void Workload::leave() {
  std::ignore = session();
  scene_.locks.leaves(index_);
  left_ = true;
  process_.quit();
}

void Workload::killed() {
  std::ignore = session();
  killed_ = true;
  if (under_way_ != 0) scene_.history.give_up(under_way_);
  under_way_ = 0;
}

void Workload::fenced() {
  fenced_ = true;
  scene_.journal.note(fmt::format("c{} is fenced", index_));
  scene_.history.settled(index_);
  for (const WriteId id : writing_) scene_.data.over(id);
  for (const Doubt& doubt : doubts_) {
    if (!doubt.truncation) scene_.data.over(doubt.id);  // the meta server may finish a truncation without the client
  }
}

void Workload::everything_over() {
  for (const Doubt& doubt : doubts_) scene_.data.over(doubt.id);
  doubts_.clear();
}

void Workload::note_failure(std::string_view what, Errc code, MonoTime begun) {
  scene_.journal.note(fmt::format("c{} {} failed: {}", index_, what, name(code)));
  // Only this client could end its requests, and it has not done so.
  const bool ended = (code == Errc::kCancelled || code == Errc::kTryAgain) && what != "lock";
  if (!is_transient(code) || ended) {
    scene_.fail(fmt::format("client {}: {} failed with {}", index_, what, name(code)));
    return;
  }
  scene_.expect_excuse(what, code, begun);
}

}  // namespace spate::cluster
