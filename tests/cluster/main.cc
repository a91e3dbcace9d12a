// SPDX-License-Identifier: Apache-2.0
// spate-sim: runs any number of simulations.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "log/log.h"
#include "tests/cluster/meta_group_run.h"
#include "tests/cluster/simulation.h"

namespace spate::cluster {
namespace {

constexpr std::uint64_t kMostSeeds = 1'000'000'000;
constexpr std::uint64_t kMostOperations = 1'000'000;
constexpr std::uint64_t kMostJobs = 256;
constexpr std::size_t kLinesShown = 25;

constexpr const char* kUsage =
    "usage: spate-sim [--seed S | --seeds N] [--ops N] [--plant NAME] [--no-faults] [--aim FAULT:REQUEST:N] "
    "[--coverage] [--verbose] [--jobs N]\n"
    "       spate-sim --meta N [--seed S | --seeds N] [--plant NAME] [--jobs N] [--verbose]\n"
    "       spate-sim --list-plants\n"
    "  --seed S       runs this seed only       --seeds N     seeds 1 to N, or N seeds from --seed on\n"
    "  --ops N        operations of all clients together, 1 to 1000000 (1000)\n"
    "  --plant NAME   plants this bug           --list-plants the names of the bugs and what each breaks\n"
    "  --no-faults    injects no faults         --coverage    prints a table of faults and the requests in which they "
    "occurred\n"
    "  --aim F:R:N    also injects the fault F when the Nth request R begins, as in killed_client:end_session:1; may "
    "be\n"
    "                 repeated\n"
    "  --meta N       several meta servers, 2 to 5, under clients that use names, and faults of those servers\n"
    "  --verbose      prints every step         --jobs N      number of processes, each with its share of the seeds\n"
    "Exit codes: 0 all seeds passed, 1 some failed, 2 wrong arguments.\n";

struct Orders {
  SimulationOptions options;
  std::uint64_t seeds = 1;
  std::uint64_t jobs = 1;
  std::uint32_t metas = 0;  // 0: one meta server, and the workload with all requests
  bool coverage = false;
  bool list_plants = false;
};

std::optional<std::uint64_t> number(std::string_view text, std::uint64_t least, std::uint64_t most) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) return std::nullopt;
  return value;
}

/// Sets an option. False: there is no such option, or its value is invalid.
bool take_value(Orders& orders, std::string_view name, std::string_view value) {
  if (name == "--plant") {
    const auto plant = plant_by_name(value);
    if (plant) orders.options.plant = *plant;
    return plant.has_value();
  }
  if (name == "--aim") {
    const auto aim = parse_aim(value);
    if (aim) orders.options.aims.push_back(*aim);
    return aim.has_value();
  }
  std::optional<std::uint64_t> n;
  if (name == "--seeds" && (n = number(value, 1, kMostSeeds))) orders.seeds = *n;
  if (name == "--seed" && (n = number(value, 0, UINT64_MAX - kMostSeeds))) orders.options.seed = *n;
  if (name == "--ops" && (n = number(value, 1, kMostOperations))) orders.options.operations = *n;
  if (name == "--meta" && (n = number(value, 2, 5))) orders.metas = static_cast<std::uint32_t>(*n);
  if (name == "--jobs" && (n = number(value, 1, kMostJobs))) orders.jobs = *n;
  return n.has_value();
}

std::optional<Orders> parse(int argc, char** argv) {
  Orders orders;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--no-faults") {
      orders.options.faults = false;
    } else if (name == "--list-plants") {
      orders.list_plants = true;
    } else if (name == "--coverage") {
      orders.coverage = true;
    } else if (name == "--verbose") {
      orders.options.print = true;
    } else if (i + 1 >= argc || !take_value(orders, name, argv[++i])) {
      std::fprintf(stderr, "spate-sim: %s is no option, or has no value that makes sense\n%s", argv[i], kUsage);
      return std::nullopt;
    }
  }
  return orders;
}

void list_plants() {
  for (const Plant plant : all_plants()) {
    std::printf("%-18s%s\n", std::string(name(plant)).c_str(), std::string(what_breaks(plant)).c_str());
  }
}

void show(const SimulationOptions& options, const SimulationReport& report) {
  std::printf("seed %llu FAILED: %s\n", static_cast<unsigned long long>(options.seed), report.failure.c_str());
  const std::size_t n = report.last_lines.size();
  for (std::size_t i = n - std::min(n, kLinesShown); i < n; ++i) std::printf("  | %s\n", report.last_lines[i].c_str());
  std::printf("  again: spate-sim %s\n", replay_arguments(options).c_str());
  std::fflush(stdout);
}

int run_metas(const Orders& orders, std::uint64_t first, std::uint64_t step) {
  std::uint64_t failures = 0;
  std::uint64_t runs = 0;
  for (std::uint64_t i = first; i < orders.seeds; i += step, ++runs) {
    const std::uint64_t seed = orders.options.seed + i;
    const MetaGroupReport report = run_meta_group({seed, orders.options.plant, orders.metas, orders.options.print});
    const auto number = static_cast<unsigned long long>(seed);
    if (orders.options.print) {
      std::printf("seed %llu, %llu calls, %llu times another one led, %.3f s of virtual time\n", number,
                  static_cast<unsigned long long>(report.calls), static_cast<unsigned long long>(report.epochs),
                  report.virtual_seconds);
    }
    if (report.failure.empty()) continue;
    ++failures;
    std::printf("seed %llu FAILED: %s\n  again: spate-sim --meta %u --seed %llu --plant %s --verbose\n", number,
                report.failure.c_str(), orders.metas, number, std::string(name(orders.options.plant)).c_str());
  }
  std::printf("%llu seeds, %llu failed\n", static_cast<unsigned long long>(runs),
              static_cast<unsigned long long>(failures));
  std::fflush(stdout);
  return failures == 0 ? 0 : 1;
}

int run(const Orders& orders, std::uint64_t first, std::uint64_t step) {
  if (orders.metas != 0) return run_metas(orders, first, step);
  std::uint64_t failures = 0;
  std::uint64_t runs = 0;
  Coverage coverage;
  for (std::uint64_t i = first; i < orders.seeds; i += step, ++runs) {
    SimulationOptions options = orders.options;
    options.seed += i;
    const SimulationReport report = simulate(options);
    coverage.add(report.coverage);
    if (options.print) {
      std::printf(
          "seed %llu digest %016llx, %llu operations, %llu crashes, %llu bytes past servers, "
          "%.3f s of virtual time\n",
          static_cast<unsigned long long>(options.seed), static_cast<unsigned long long>(report.digest),
          static_cast<unsigned long long>(report.operations), static_cast<unsigned long long>(report.crashes),
          static_cast<unsigned long long>(report.bypassed_bytes), report.virtual_seconds);
    }
    if (report.failure.empty()) continue;
    ++failures;
    show(options, report);
  }
  if (orders.coverage) std::printf("%s%zu cells are missing\n", coverage.table().c_str(), coverage.missing().size());
  std::printf("%llu seeds, %llu failed\n", static_cast<unsigned long long>(runs),
              static_cast<unsigned long long>(failures));
  std::fflush(stdout);
  return failures == 0 ? 0 : 1;
}

/// Runs the seeds in `jobs` processes. Each process has every `jobs`-th seed.
int run_in_processes(const Orders& orders) {
  for (std::uint64_t job = 0; job < orders.jobs; ++job) {
    const pid_t pid = ::fork();
    if (pid == 0) ::_exit(run(orders, job, orders.jobs));
    if (pid < 0) {
      std::perror("spate-sim: fork");
      return 1;
    }
  }
  int worst = 0;
  for (int status = 0; ::wait(&status) > 0;) {
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) worst = 1;
  }
  return worst;
}

}  // namespace
}  // namespace spate::cluster

int main(int argc, char** argv) {
  const auto orders = spate::cluster::parse(argc, argv);
  if (!orders) return 2;
  if (orders->list_plants) {
    spate::cluster::list_plants();
    return 0;
  }
  std::ignore = spate::log::set_level("", spate::log::Level::off);
  return orders->jobs == 1 ? spate::cluster::run(*orders, 0, 1) : spate::cluster::run_in_processes(*orders);
}
