// SPDX-License-Identifier: Apache-2.0
// FaultDriver: makes faults, at times and at requests that the seed chooses, and mends them again.
#pragma once

#include <functional>
#include <list>
#include <optional>
#include <set>
#include <vector>

#include "tests/cluster/coverage.h"
#include "tests/cluster/scene.h"
#include "tests/cluster/workload.h"

namespace spate::cluster {

/// The functions of the simulation's clients that the driver needs.
class ClientRoster {
 public:
  virtual ~ClientRoster() = default;
  /// Clients that are alive and working.
  virtual std::vector<Workload*> at_work() = 0;
  /// These clients, and those that are ending their sessions.
  virtual std::vector<Workload*> alive() = 0;
  virtual void kill(Workload& workload, bmi::sim::Death death) = 0;
};

/// One for each simulation. One thread, outside of all processes. Life cycle: plan() -> run() after each turn ->
/// mend_all() -> destroyed. Scene and clients outlive it. It gives the world actions that refer to it, so the world
/// must not turn after the driver's destruction; the world's destructor drops such actions.
class FaultDriver {
 public:
  FaultDriver(Scene& scene, ClientRoster& clients, std::uint64_t seed);
  FaultDriver(const FaultDriver&) = delete;
  FaultDriver& operator=(const FaultDriver&) = delete;

  /// Chooses the faults of a run of so many operations: at least one killed process and one crashed machine. The faults
  /// of `aims` come in addition.
  void plan(std::uint64_t operations, const std::vector<Aim>& aims);
  /// Called repeatedly during the run.
  void run(std::uint64_t operations_left);
  /// Kills the meta server's process, if it is up, and restarts it 20 ms later.
  void restart_meta();
  /// Sometimes kills or crashes the new server or the meta server while the new server joins.
  void disturb_newcomer(ServerId newcomer);
  /// Mends all faults. There will be no more.
  void mend_all();

  const Coverage& coverage() const { return coverage_; }
  std::uint64_t crashes() const { return crashes_; }
  /// Files that a crash of the meta server's machine has made non-existent.
  const std::set<std::uint64_t>& forgotten() const { return forgotten_; }

 private:
  struct Planned {
    std::uint64_t operations_left = 0;
    FaultKind kind = FaultKind::kDelay;
    std::optional<wire::Op> aim;  // strikes when such a request is in flight
    std::uint64_t nth = 1;        // strikes at the nth such request from now on
    bool at_once = false;         // without a random delay after the request's arrival
  };
  struct Target {
    ServerId server;
    Workload* client = nullptr;    // null: the other side is the meta server
    std::uint32_t other_node = 0;  // of the client or the meta server
  };
  struct InForce {
    FaultKind kind = FaultKind::kDelay;
    Target target;
    UniqueFunction<void()> mend;
    std::uint64_t number = 0;
  };
  using InForcePlace = std::list<InForce>::iterator;

  void arrived(const WatchedRequest& request);
  std::optional<Target> target_of(const WatchedRequest& request);
  std::optional<Target> any_target();
  Workload* workload_of(ClientId client);
  bool concerns(FaultKind kind, const Target& target, const WatchedRequest& request);
  void count_under_way(FaultKind kind, const Target& target);
  void strike(FaultKind kind, Target target);
  void strike_network(FaultKind kind, const Target& target);
  void strike_server(ServerId server, bmi::sim::Death death) { strike_server(server, death, some_span()); }
  void strike_server(ServerId server, bmi::sim::Death death, Duration span);
  void crash_soon(ServerId server) { crash_soon(server, bmi::sim::Death::kMachine, some_span()); }
  void crash_soon(ServerId server, bmi::sim::Death death, Duration span);
  void strike_client(Workload& client, bmi::sim::Death death);
  void strike_holder(Target target);
  void kill_stuck(std::uint32_t node);
  void strike_storage(FaultKind kind, const Target& target);
  void hurt_disks(FaultKind kind, const Target& target);
  void fail_syncs(const Target& target);
  void hurt_records(FaultKind kind, const Target& target);
  void keep_in_force(FaultKind kind, const Target& target, Duration span, UniqueFunction<void()> mend);
  void mend(InForcePlace place);
  void restart(ServerId server);
  void note_crash_of(ServerId server);
  void mind_servers();
  void note_durable();
  Duration some_span();

  Scene& scene_;
  ClientRoster& clients_;
  SeededRandom random_;
  std::vector<Planned> planned_;  // the soonest is last
  std::vector<Planned> armed_;
  std::list<InForce> in_force_;
  std::set<ServerId> down_;
  Coverage coverage_;
  std::uint64_t crashes_ = 0;
  std::set<std::uint64_t> forgotten_;
  MonoTime meta_healthy_since_;
  bool meta_healthy_ = false;
  int hurt_records_ = 0;  // faults in force at the meta server's store
  bool ending_ = false;   // mend_all() was called
  std::uint64_t last_fault_ = 0;
};

}  // namespace spate::cluster
