// SPDX-License-Identifier: Apache-2.0
#include "tests/cluster/simulation.h"

#include <fmt/format.h>

#include "tests/cluster/verify.h"
#include "tests/cluster/workload.h"

namespace spate::cluster {
namespace {

constexpr int kClients = 3;
/// Much more than any run needs: a task that never ends is found by it.
constexpr Duration kLongest = std::chrono::hours(1);

WorldOptions world_options(const SimulationOptions& options) {
  SeededRandom random(options.seed * 7919);
  WorldOptions world;
  world.seed = options.seed;
  world.plant = options.plant;
  world.io_servers = static_cast<std::uint32_t>(2 + random.below(3));
  world.meta_sync = random.chance(1, 3) ? Duration(0) : Duration(std::chrono::milliseconds(100));
  world.fabric.link.jitter = random.chance(1, 2) ? Duration(std::chrono::microseconds(300)) : Duration(0);
  world.fabric.link.slow_per_mille = static_cast<std::uint32_t>(random.below(4) * 10);
  world.fabric.chunk_bytes = 4096;
  world.fabric.cancel_drops_per_mille = 200;
  return world;
}

class Simulation {
 public:
  explicit Simulation(const SimulationOptions& options)
      : options_(options), scene_(world_options(options), options.print), random_(options.seed * 104729) {
    scene_.operations_left = options.operations;
  }

  SimulationReport run() {
    for (int i = 0; i < kClients; ++i) start_client();
    work();
    if (scene_.failure.empty()) finish();
    SimulationReport report;
    report.failure = scene_.failure;
    report.last_lines.assign(scene_.journal.last_lines().begin(), scene_.journal.last_lines().end());
    report.digest = scene_.journal.digest() ^ scene_.world.fabric().digest();
    report.operations = options_.operations - scene_.operations_left;
    report.virtual_seconds = static_cast<double>(scene_.world.now().since_start.count()) / 1e9;
    return report;
  }

 private:
  void start_client() {
    ClientProcess& process = scene_.world.start_client();
    const int index = static_cast<int>(workloads_.size());
    workloads_.push_back(std::make_unique<Workload>(scene_, process, index, random_.next()));
    job::spawn(process.gate(), workloads_.back()->run());
  }

  bool all_finished() const {
    for (const auto& workload : workloads_) {
      if (workload->process().alive() && !workload->finished()) return false;
    }
    return true;
  }

  void work() {
    const MonoTime limit = scene_.world.now() + kLongest;
    while (!all_finished() && scene_.failure.empty()) {
      if (!scene_.world.turn(limit)) scene_.fail("the clients have not finished: something hangs");
    }
  }

  void finish() {
    for (const auto& workload : workloads_) workload->process().quit();
    verify(scene_, {});
  }

  const SimulationOptions options_;
  std::vector<std::unique_ptr<Workload>> workloads_;  // outlive the world: its processes run them
  Scene scene_;
  SeededRandom random_;
};

}  // namespace

SimulationReport simulate(const SimulationOptions& options) { return Simulation(options).run(); }

}  // namespace spate::cluster
