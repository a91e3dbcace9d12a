// SPDX-License-Identifier: Apache-2.0
// Process: what every simulated process has: its own executor, random numbers and network; and how it dies.
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

/// What processes of one world share. Outlives them.
struct Ether {
  ManualClock& clock;
  bmi::sim::Fabric& fabric;
};

/// The world's time, and a wall clock that somebody sets.
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

/// As servers have them.
bmi::StrangerLimits stranger_limits();

/// One thread drives all of them (World). Life: construct -> stepped -> die() or quit() -> stepped until ended() ->
/// destroyed. A dead process goes on for a while, cut off from network and disks, until its coroutines have ended: no
/// frame is destroyed while it is suspended.
class Process {
 public:
  Process(Ether ether, std::uint32_t node, std::uint64_t seed,
          const bmi::StrangerLimits& strangers = stranger_limits());
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  virtual ~Process() = default;

  std::uint32_t node() const { return node_; }
  job::Executor& executor() { return executor_; }
  Random& random() { return random_; }
  bool alive() const { return alive_; }
  /// Of this process only, as `date -s` does it.
  void step_wall_clock(Duration by) { clock_.step(by); }

  /// Killed at this instant. The world has taken its node off the network.
  virtual void die() = 0;
  /// Nothing of it is left to run.
  virtual bool ended() const = 0;
  /// Of what is neither network nor timer; never() when there is nothing.
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

/// The addresses of a node, on the first network and on the second.
std::vector<std::string> urls_of(std::uint32_t node);

}  // namespace spate::cluster
