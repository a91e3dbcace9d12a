// SPDX-License-Identifier: Apache-2.0
// spate-group-sim: runs of a replicated group under faults, from seeds.
#include <fmt/core.h>

#include <cstdlib>
#include <string>

#include "log/log.h"
#include "tests/group/group_run.h"

int main(int argc, char** argv) {
  using namespace spate;
  std::uint64_t seed = 1;
  std::uint64_t seeds = 1;
  group::GroupRunOptions options;
  std::ignore = log::set_levels("error");
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const std::uint64_t value = std::strtoull(argv[i + 1], nullptr, 10);
    if (name == "--seed") seed = value;
    if (name == "--seeds") seeds = value;
    if (name == "--defect") options.defect = static_cast<Defect>(value);
    if (name == "--log") std::ignore = log::set_levels(argv[i + 1]);
  }
  std::uint64_t operations = 0;
  std::uint64_t epochs = 0;
  std::uint64_t losses = 0;
  std::uint64_t failed = 0;
  for (std::uint64_t i = 0; i < seeds; ++i) {
    options.seed = seed + i;
    const group::GroupRunResult result = group::run_group(options);
    operations += result.operations;
    epochs += result.epochs;
    losses += result.losses;
    if (result.failure.empty()) continue;
    ++failed;
    fmt::print("seed {} FAILED: {}\n", options.seed, result.failure);
  }
  fmt::print("{} runs, {} failed, {} operations, {} take-overs, {} losses of ends\n", seeds, failed, operations, epochs,
             losses);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
