// SPDX-License-Identifier: Apache-2.0
// GroupProcess: a process of a group member, with a small service on its store.
#pragma once

#include <memory>
#include <optional>

#include "coord/sim/sim_coordinator.h"
#include "group/member.h"
#include "trove/kvsim/sim_keyval.h"

namespace spate::group {

/// A clock that runs faster or slower than the world's time, from the beginning of the process.
class RateClock final : public Clock {
 public:
  RateClock(const Clock& world, double rate) : world_(world), begin_(world.now()), rate_(rate) {}
  MonoTime now() const override { return begin_ + scale(world_.now() - begin_, rate_); }
  WallTime wall() const override { return world_.wall(); }
  /// The world's time when this clock shows `local`.
  MonoTime world_time(MonoTime local) const {
    if (local == MonoTime::never()) return local;
    return begin_ + scale(local - begin_, 1 / rate_) + Duration(1);
  }

 private:
  static Duration scale(Duration span, double by) {
    return Duration(static_cast<std::int64_t>(static_cast<double>(span.count()) * by));
  }
  const Clock& world_;
  const MonoTime begin_;
  const double rate_;
};

/// A client's request. A repeated increment with the same number is not carried out again.
struct CountRequest {
  std::uint32_t client = 0;
  std::uint64_t number = 0;
  std::uint32_t counter = 0;
  bool increments = false;
  bool durable = false;  // answer only after all members have synced it
};

/// The parts of a machine that survive its processes.
struct GroupMachine {
  std::unique_ptr<trove::SimKeyvalDisk> disk = std::make_unique<trove::SimKeyvalDisk>();
  std::uint64_t boot = 1;
};

struct GroupProcessOptions {
  MemberOptions member;
  double clock_rate = 1;
  std::uint64_t kept_entries = 60;
};

/// Whether the disk has the answer to this increment, or to a later one of the same client.
bool holds(const trove::SimKeyvalDisk& disk, const CountRequest& request);

/// One thread drives it by repeated step(). Life cycle: construct -> stepped -> die() -> stepped until ended() ->
/// destroyed.
class GroupProcess {
 public:
  GroupProcess(ManualClock& world, GroupMachine& machine, coord::SimService& service, Link& link, Random& random,
               GroupProcessOptions options);
  GroupProcess(const GroupProcess&) = delete;
  GroupProcess& operator=(const GroupProcess&) = delete;

  job::Executor& executor() { return executor_; }
  Member& member() { return *member_; }
  bool alive() const { return alive_; }
  bool short_of_space() const { return keyval_.short_of_space(); }
  /// The number of messages and requests in flight.
  std::size_t under_way() const { return gate_.count(); }
  bool ended() const { return ended_ && gate_.count() == 0; }
  bool step() { return executor_.step(); }
  /// In the world's time.
  MonoTime next_event_time() const {
    return std::min(clock_.world_time(executor_.next_timer()), store_.next_event_time());
  }
  void run_store_until(MonoTime when) { store_.run_until(when); }
  void die();

  using AnswerAction = UniqueFunction<void(Answer)>;
  void take(std::shared_ptr<const Message> message, AnswerAction action);
  /// Called with the counter's value, or with nothing if this process cannot answer.
  using CountAction = UniqueFunction<void(std::optional<std::uint64_t>)>;
  void count(CountRequest request, CountAction action);
  void hand_over();

 private:
  job::Task<void> run();
  job::Task<void> end();
  job::Task<void> answer(std::shared_ptr<const Message> message, AnswerAction action);
  job::Task<void> count_and_tell(CountRequest request, CountAction action);
  job::Task<Result<std::uint64_t>> count_once(CountRequest request);
  job::Task<void> hand_over_now();

  RateClock clock_;
  job::Executor executor_;
  trove::SimKeyval store_;
  trove::ReplicatedKeyval keyval_;
  std::unique_ptr<job::KeyvalContext> records_;
  coord::SimCoordinator coordinator_;
  std::unique_ptr<Member> member_;
  job::Gate gate_;
  job::Event started_;
  job::StopSource stopping_;
  bool alive_ = true;
  bool ended_ = false;
};

}  // namespace spate::group
