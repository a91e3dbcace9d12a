// SPDX-License-Identifier: Apache-2.0
// spate-sim: runs simulations, as many as one likes.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>

#include "log/log.h"
#include "tests/cluster/simulation.h"

namespace spate::cluster {
namespace {

int run(SimulationOptions options, std::uint64_t seeds) {
  int failures = 0;
  for (std::uint64_t i = 0; i < seeds; ++i, ++options.seed) {
    const SimulationReport report = simulate(options);
    if (options.print) std::printf("seed %llu digest %016llx virtual %.3f s\n", static_cast<unsigned long long>(options.seed), static_cast<unsigned long long>(report.digest), report.virtual_seconds);
    if (report.failure.empty()) continue;
    ++failures;
    std::printf("seed %llu FAILED: %s\n", static_cast<unsigned long long>(options.seed), report.failure.c_str());
  }
  std::printf("%llu seeds, %d failed\n", static_cast<unsigned long long>(seeds), failures);
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace spate::cluster

int main(int argc, char** argv) {
  spate::cluster::SimulationOptions options;
  std::uint64_t seeds = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--seeds") seeds = std::stoull(argv[i + 1]);
    if (name == "--seed") options.seed = std::stoull(argv[i + 1]);
    if (name == "--ops") options.operations = std::stoull(argv[i + 1]);
    if (name == "--verbose") options.print = std::stoull(argv[i + 1]) != 0;
  }
  std::ignore = spate::log::set_level("", spate::log::Level::off);
  return spate::cluster::run(options, seeds);
}
