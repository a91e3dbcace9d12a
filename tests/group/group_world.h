// SPDX-License-Identifier: Apache-2.0
// GroupWorld: the machines of a group, their network and the coordinator, in virtual time.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "model/defect.h"
#include "tests/group/group_process.h"

namespace spate::group {

struct GroupWorldOptions {
  std::uint64_t seed = 1;
  std::uint32_t members = 2;
  double clock_spread = 0.1;  // clocks run faster or slower by up to this share
  Defect defect = Defect::kNone;
  std::uint32_t min = 1;  // as many members must hold a change when it is answered
};

/// One thread. The same options and calls give the same run.
class GroupWorld {
 public:
  explicit GroupWorld(const GroupWorldOptions& options);
  ~GroupWorld();
  GroupWorld(const GroupWorld&) = delete;
  GroupWorld& operator=(const GroupWorld&) = delete;

  MonoTime now() const { return clock_.now(); }
  Random& random() { return random_; }
  coord::SimService& service() { return service_; }
  std::uint32_t members() const { return static_cast<std::uint32_t>(machines_.size()); }
  Duration some(Duration most) { return service_.draw(most); }

  /// Does the next step. False: no step is left before `limit`, and the clock shows `limit`.
  bool turn(MonoTime limit);
  void at(MonoTime when, UniqueFunction<void()> action) { actions_.emplace(std::max(when, now()), std::move(action)); }
  void after(Duration span, UniqueFunction<void()> action) { at(now() + span, std::move(action)); }

  // Machines, numbered from 0.
  /// The running process; null: it is down.
  GroupProcess* process(std::uint32_t number) { return machines_[number].running; }
  GroupMachine& machine(std::uint32_t number) { return machines_[number].machine; }
  void kill(std::uint32_t number);
  /// Crashes the machine, which may lose unsynced changes.
  void crash(std::uint32_t number);
  /// Gives the machine a new, empty disk. The old one is destroyed after its operations in flight have ended.
  void wipe(std::uint32_t number);
  void start(std::uint32_t number);
  /// From now on, each process that resigns is restarted after its pause.
  void supervise();
  /// A paused machine does nothing, although time passes.
  void pause(std::uint32_t number, bool is) { machines_[number].paused = is; }
  bool paused(std::uint32_t number) const { return machines_[number].paused; }
  void cut(std::uint32_t from, std::uint32_t to, bool is);
  void slow(Duration latency) { latency_ = latency; }
  /// How many of a hundred messages get lost, arrive twice, or arrive late.
  void trouble(std::uint32_t percent) { trouble_percent_ = percent; }
  /// The coordinator's record of the group; nothing: there is none.
  std::optional<GroupRecord> record();
  MonoTime latency_from_now();

 private:
  struct Machine {
    GroupMachine machine;
    GroupProcess* running = nullptr;
    bool paused = false;
    bool is_to_restart = false;
    double rate = 1;
  };
  class SimLink;
  bool step_all();
  void restart(std::uint32_t number);
  bool runs(const GroupProcess& process) const;

  ManualClock clock_;
  SeededRandom random_;
  coord::SimService service_;
  std::vector<Machine> machines_;
  std::vector<std::unique_ptr<SimLink>> links_;
  std::vector<std::unique_ptr<GroupProcess>> processes_;
  std::multimap<MonoTime, UniqueFunction<void()>> actions_;
  std::vector<std::unique_ptr<trove::SimKeyvalDisk>> wiped_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> cuts_;
  Duration latency_ = std::chrono::microseconds(500);
  std::uint32_t trouble_percent_ = 0;
};

}  // namespace spate::group
