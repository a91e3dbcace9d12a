// SPDX-License-Identifier: Apache-2.0
// Simulation: a run from one seed with a cluster, clients and faults. Reports whether all promises were kept.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/cluster/coverage.h"
#include "tests/cluster/plants.h"

namespace spate::cluster {

struct SimulationOptions {
  std::uint64_t seed = 1;
  std::uint64_t operations = 1000;  // of all clients together
  Plant plant = Plant::kNone;
  bool faults = true;
  std::vector<Aim> aims;  // faults in addition to those of the seed
  bool print = false;     // print every step to standard output
};

struct SimulationReport {
  std::string failure;  // empty: no error was found
  std::vector<std::string> last_lines;
  std::uint64_t digest = 0;  // of all events, network packets included
  std::uint64_t operations = 0;
  std::uint64_t clients = 0;
  std::uint64_t crashes = 0;         // of servers: killed processes and crashed machines
  std::uint64_t bypassed_bytes = 0;  // moved by clients themselves, under leases
  std::uint64_t pages_kept = 0;      // how often pages that an open kept were compared with the file
  double virtual_seconds = 0;
  Coverage coverage;
};

/// The arguments by which spate-sim repeats this run.
std::string replay_arguments(const SimulationOptions& options);

/// Runs the simulation to its end. The result depends on nothing but the options.
SimulationReport simulate(const SimulationOptions& options);

}  // namespace spate::cluster
