// SPDX-License-Identifier: Apache-2.0
// Measures the cost of seals: the same work, sealed and bare, in turns. bench/run starts it; see README.md.
#include <fmt/core.h>
#include <getopt.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <optional>
#include <sstream>

#include "measure/cpu.h"
#include "measure/summary.h"
#include "seals/operations.h"
#include "seals/rounds.h"

namespace spate::bench {
namespace {

struct Settings {
  std::vector<std::string> configs;         // of two file systems, sealed and bare; empty: round trips of this process
  std::vector<std::vector<pid_t>> servers;  // by file system
  std::string only;                         // measure only figures whose names contain this
  std::string mode;                         // "sealed" or "bare": run only that, once, for a profiler
  int turns = 31;
  std::uint64_t count = 4000;  // in one turn of one mode
  int cpu = 0;                 // everything runs on it; < 0: anywhere
};

/// One mode (sealed or bare) of a figure.
struct Side {
  std::function<Result<void>(std::uint64_t count)> work;
  std::function<Result<double>()> cpu_seconds;
};

Result<double> microseconds_each(const Side& side, std::uint64_t count) {
  SPATE_TRY(const double before, side.cpu_seconds());
  SPATE_TRY(std::ignore, side.work(count));
  SPATE_TRY(const double after, side.cpu_seconds());
  return (after - before) * 1e6 / static_cast<double>(count);
}

/// Uses the median of the differences within a turn. It is steadier than the difference of the medians, since a slow
/// moment slows both modes of a turn.
Result<void> compare(const std::string& name, const Settings& settings, const Side& sealed, const Side& bare) {
  if (name.find(settings.only) == std::string::npos) return {};
  if (!settings.mode.empty()) return (settings.mode == "sealed" ? sealed : bare).work(settings.count);
  std::array<std::vector<double>, 3> all;
  for (int turn = -1; turn < settings.turns; ++turn) {
    std::array<double, 2> now{};
    const bool first = turn % 2 == 0;
    SPATE_TRY(now[first ? 0 : 1], microseconds_each(first ? sealed : bare, settings.count));
    SPATE_TRY(now[first ? 1 : 0], microseconds_each(first ? bare : sealed, settings.count));
    if (turn < 0) continue;  // warms up
    all[0].push_back(now[0]);
    all[1].push_back(now[1]);
    all[2].push_back(now[0] - now[1]);
  }
  const auto own = measure::Summary::of(all[0]);
  const auto other = measure::Summary::of(all[1]);
  const auto more = measure::Summary::of(all[2]);
  fmt::print(R"({{"name": "{}", "sealed_us": {:.3f}, "bare_us": {:.3f}, "more_us": {:.3f}, "turns": {}}})"
             "\n",
             name, own.median, other.median, more.median, settings.turns);
  std::fflush(stdout);
  return {};
}

Result<void> run_rounds(const Settings& settings) {
  Rounds sealed(true);
  Rounds bare(false);
  struct Sizes {
    std::string name;
    std::size_t request;
    std::size_t reply;
  };
  const std::array<Sizes, 4> all{
      {{"24 B", 24, 24}, {"160 B", 160, 160}, {"reply of 4 KiB", 64, 4096}, {"request of 4 KiB", 4096, 24}}};
  for (const Sizes& sizes : all) {
    const auto side = [&sizes](Rounds& rounds) {
      return Side{[&rounds, &sizes](std::uint64_t count) { return rounds.run(count, sizes.request, sizes.reply); },
                  [] { return measure::cpu_seconds(0); }};
    };
    SPATE_TRY(std::ignore, compare("round trip, " + sizes.name, settings, side(sealed), side(bare)));
  }
  return {};
}

Result<void> run_operations(const Settings& settings) {
  std::array<std::unique_ptr<Operations>, 2> clients;
  for (std::size_t i = 0; i < clients.size(); ++i) {
    SPATE_TRY(clients[i], Operations::open(settings.configs[i], settings.servers[i]));
    for (const pid_t server : settings.servers[i]) {
      SPATE_TRY(std::ignore, measure::pin(server, settings.cpu));
    }
  }
  struct Row {
    const char* name;
    std::uint64_t divisor;  // divides Settings::count, since large transfers take longer
    std::function<Result<void>(Operations&, std::uint64_t)> run;
  };
  constexpr std::size_t kSmall = 4096;
  // The messages of bulk data are not sealed. The file and the memory must stay in the processor's second-level cache
  // (1 to 2 MiB usually). With 1 MiB each, their addresses decide whether they do, and one run may take three times as
  // long as another.
  constexpr std::size_t kLarge = std::size_t{256} << 10U;
  const std::array<Row, 6> all{
      {{"stat", 1, [](Operations& o, std::uint64_t n) { return o.stat(n); }},
       {"read 4 KiB", 1, [](Operations& o, std::uint64_t n) { return o.read(n, kSmall); }},
       {"write 4 KiB", 1, [](Operations& o, std::uint64_t n) { return o.write(n, kSmall); }},
       {"create and unlink", 1, [](Operations& o, std::uint64_t n) { return o.create(n); }},
       {"read 256 KiB", 4, [](Operations& o, std::uint64_t n) { return o.read(n, kLarge); }},
       {"write 256 KiB", 4, [](Operations& o, std::uint64_t n) { return o.write(n, kLarge); }}}};
  for (const Row& row : all) {
    const auto side = [&row](Operations& client) {
      return Side{[&client, &row](std::uint64_t count) { return row.run(client, count); },
                  [&client] { return client.cpu_seconds(); }};
    };
    Settings own = settings;
    own.count = std::max<std::uint64_t>(1, settings.count / row.divisor);
    SPATE_TRY(std::ignore, compare(row.name, own, side(*clients[0]), side(*clients[1])));
  }
  return {};
}

/// On a virtual machine, two processes that take turns are several times as fast on one processor as on two. So the
/// kernel must not choose their processors.
Result<void> run(const Settings& settings) {
  SPATE_TRY(std::ignore, measure::pin(0, settings.cpu));
  return settings.configs.empty() ? run_rounds(settings) : run_operations(settings);
}

std::vector<pid_t> numbers(const std::string& text) {
  std::vector<pid_t> out;
  std::istringstream in(text);
  for (std::string one; std::getline(in, one, ',');) out.push_back(std::atoi(one.c_str()));
  return out;
}

int usage() {
  fmt::print(stderr,
             "usage: seals_program [--turns 31] [--count 4000] [--only PART-OF-NAME] [--mode sealed|bare] [--cpu 0]\n"
             "         [--config SEALED --servers PIDS --config BARE --servers PIDS]\n"
             "Without --config: round trips, with both ends in this process. --mode: one turn of that mode alone.\n");
  return 2;
}

std::optional<Settings> parse(int argc, char** argv) {
  Settings settings;
  const std::array<option, 8> options{{{"config", required_argument, nullptr, 'c'},
                                       {"servers", required_argument, nullptr, 's'},
                                       {"only", required_argument, nullptr, 'o'},
                                       {"mode", required_argument, nullptr, 'm'},
                                       {"turns", required_argument, nullptr, 't'},
                                       {"count", required_argument, nullptr, 'n'},
                                       {"cpu", required_argument, nullptr, 'p'},
                                       {nullptr, 0, nullptr, 0}}};
  for (int key = 0; (key = getopt_long(argc, argv, "", options.data(), nullptr)) >= 0;) {
    switch (key) {
      case 'c': settings.configs.emplace_back(optarg); break;
      case 's': settings.servers.push_back(numbers(optarg)); break;
      case 'o': settings.only = optarg; break;
      case 'm': settings.mode = optarg; break;
      case 't': settings.turns = std::atoi(optarg); break;
      case 'n': settings.count = std::strtoull(optarg, nullptr, 10); break;
      case 'p': settings.cpu = std::atoi(optarg); break;
      default: return std::nullopt;
    }
  }
  const bool both = settings.configs.size() == 2 && settings.servers.size() == 2;
  const bool known = settings.mode.empty() || settings.mode == "sealed" || settings.mode == "bare";
  if (optind != argc || !known || !(both || settings.configs.empty())) return std::nullopt;
  if (settings.turns < 1 || settings.count < 1) return std::nullopt;
  return settings;
}

}  // namespace
}  // namespace spate::bench

int main(int argc, char** argv) {
  using namespace spate::bench;
  const auto settings = parse(argc, argv);
  if (!settings) return usage();
  const auto done = run(*settings);
  if (done) return 0;
  fmt::print(stderr, "seals_program: {}\n", done.error().message());
  return 1;
}
