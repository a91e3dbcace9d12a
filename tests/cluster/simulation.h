// SPDX-License-Identifier: Apache-2.0
// Simulation: one run from one seed: a cluster, its clients, what befalls them, and whether all was as promised.
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
  std::vector<Aim> aims;  // faults beside those of the seed
  bool print = false;     // every step to standard output
};

struct SimulationReport {
  std::string failure;  // empty: all was well
  std::vector<std::string> last_lines;
  std::uint64_t digest = 0;  // of everything that happened, network packets included
  std::uint64_t operations = 0;
  std::uint64_t clients = 0;
  std::uint64_t crashes = 0;         // of servers: killed processes and crashed machines
  std::uint64_t bypassed_bytes = 0;  // moved by clients themselves, under leases
  std::uint64_t pages_kept = 0;      // opens that kept pages, which were compared with the file then
  double virtual_seconds = 0;
  Coverage coverage;
};

/// The arguments of spate-sim that run this again.
std::string replay_arguments(const SimulationOptions& options);

/// Runs to the end. Nothing in it depends on anything but the options.
SimulationReport simulate(const SimulationOptions& options);

}  // namespace spate::cluster
