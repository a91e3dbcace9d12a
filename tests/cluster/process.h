// SPDX-License-Identifier: Apache-2.0
// Process: the parts of every simulated process (executor, random numbers, network), and its death.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "bmi/sim/fabric.h"
#include "job/gate.h"
#include "job/network.h"

namespace spate::cluster {

/// How long a connection may take.
struct ConnectTimes {
  std::uint32_t timeout_ms = 300;                    // bmi::NetworkOptions::connect_timeout_ms
  std::uint32_t unauthenticated_deadline_ms = 5000;  // bmi::UnauthenticatedPeerLimits::deadline_ms, as servers have it
};

/// Objects that all processes of a world share. Outlives the processes.
struct Ether {
  ManualClock& clock;
  bmi::sim::Fabric& fabric;
  ConnectTimes connect = {};
};

/// The world's monotonic time, and a wall clock that tests can set.
class SteppedClock final : public Clock {
 public:
  explicit SteppedClock(const Clock& world) : world_(world) {}
  MonoTime now() const override { return world_.now(); }
  WallTime wall() const override { return WallTime{world_.wall().ns + stepped_.count()}; }
  void step(Duration by) { stepped_ += by; }

 private:
  const Clock& world_;
  Duration stepped_{0};
};

/// The limits that servers have.
bmi::UnauthenticatedPeerLimits unauthenticated_limits();

/// One thread drives all processes (World). Life cycle: construct -> stepped -> die() or quit() -> stepped until
/// ended() -> destroyed. A dead process runs on, cut off from network and disks, until its coroutines have ended, since
/// a suspended frame must not be destroyed.
class Process {
 public:
  Process(Ether ether, std::uint32_t node, std::uint64_t seed,
          const bmi::UnauthenticatedPeerLimits& unauthenticated_peers = unauthenticated_limits());
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  virtual ~Process() = default;

  std::uint32_t node() const { return node_; }
  job::Executor& executor() { return executor_; }
  Random& random() { return random_; }
  bool alive() const { return alive_; }
  /// Changes the wall clock of this process only, as `date -s` would.
  void step_wall_clock(Duration by) { clock_.step(by); }

  /// Kills the process now. The world has already taken its node off the network.
  virtual void die() = 0;
  /// Whether nothing of the process is left to run.
  virtual bool ended() const = 0;
  /// The next event that is neither of the network nor of a timer; never(): none.
  virtual MonoTime next_event_time() const { return MonoTime::never(); }
  virtual void run_until(MonoTime /*when*/) {}

 protected:
  Ether ether_;
  const std::uint32_t node_;
  SeededRandom random_;
  bool alive_ = true;
  SteppedClock clock_;
  job::Executor executor_;
  std::unique_ptr<bmi::Network> network_;
  std::unique_ptr<job::NetworkContext> context_;
};

/// The addresses of a node on the first and on the second network.
std::vector<std::string> urls_of(std::uint32_t node);

}  // namespace spate::cluster
