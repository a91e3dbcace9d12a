// SPDX-License-Identifier: Apache-2.0
// Compares the name space of a running file system with its least possible cost: a bare round trip and a bare RocksDB
// put in the same run. bench/run starts the servers and this program.
#include <fmt/core.h>
#include <getopt.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>

#include "assembly/client_process.h"
#include "data/report.h"
#include "measure/cpu.h"
#include "measure/raw_stream.h"
#include "names/raw_store.h"
#include "names/workload.h"

namespace spate::bench {
namespace {

/// The bytes of a create and of its answer on the wire, with frame headers. Counted with strace.
constexpr std::uint64_t kRequestBytes = 260;
constexpr std::uint64_t kReplyBytes = 320;
constexpr std::size_t kTasks = 8;

struct Settings {
  std::string config_file;
  pid_t server = 0;  // the meta server
  std::string folder = "/dev/shm";
  std::string json_file;
  std::string only;  // measure only figures whose names contain this
  std::uint64_t operations = 20'000;
  std::uint64_t entries = 1'000'000;
  int runs = 5;
  int client_cpu = 0;
  int server_cpu = 1;
};

class Bench {
 public:
  Bench(Settings settings, measure::RawPeers peers, RawStore store, std::unique_ptr<assembly::ClientProcess> process)
      : settings_(std::move(settings)),
        peers_(std::move(peers)),
        store_(std::move(store)),
        process_(std::move(process)) {}

  Result<std::vector<Figure>> run() {
    SPATE_TRY(std::ignore, pin_all(settings_.client_cpu, settings_.server_cpu));
    SPATE_TRY(std::ignore, one_by_one());
    SPATE_TRY(std::ignore, pin_all(-1, -1));
    SPATE_TRY(std::ignore, many_tasks());
    SPATE_TRY(std::ignore, large_directory());
    return std::move(figures_);
  }

 private:
  using Work = std::function<Result<double>()>;  // yields operations a second

  /// A client and a server that take turns are twice as fast on one processor of a virtual machine as on two. So the
  /// kernel must not choose their processors.
  Result<void> pin_all(int client_cpu, int server_cpu) {
    SPATE_TRY(std::ignore, peers_.pin(server_cpu));
    SPATE_TRY(std::ignore, measure::pin(0, client_cpu));
    return measure::pin(settings_.server, server_cpu);
  }

  Result<void> one_by_one() {
    Goal change;
    change.ratio_at_least = 0.6;
    Goal look;
    look.ratio_at_least = 0.7;
    Figure create{"create", "per s", "us/op", change, {}, {}};
    Figure stat{"stat", "per s", "us/op", look, {}, {}};
    Figure whole{"create, open, close", "per s", "us/op", {}, {}, {}};
    Figure unlink{"unlink", "per s", "us/op", change, {}, {}};
    const double units = static_cast<double>(settings_.operations) / 1e6;
    for (int i = 0; i < settings_.runs; ++i) {
      const std::string folder = fmt::format("/names-{}", i);
      SPATE_TRY(std::ignore, process_->run([&](client::Client& c) { return make_folder(c, folder); }));
      const auto each = [&](auto make) {
        return [this, folder, make] {
          return timed(
              [&](std::uint64_t n) { return process_->run([&](client::Client& c) { return make(c, folder, n); }); });
        };
      };
      SPATE_TRY(std::ignore, pair(create, units, [this] { return raw(true); }, each(create_file)));
      if (!wanted(create) && (wanted(stat) || wanted(unlink))) {
        SPATE_TRY(std::ignore, each(create_file)());
      }
      SPATE_TRY(std::ignore, pair(stat, units, [this] { return raw(false); }, each(stat_file)));
      SPATE_TRY(std::ignore, pair(unlink, units, [this] { return raw(true); }, each(unlink_file)));
      SPATE_TRY(std::ignore, pair(whole, units, [this] { return raw(true); }, each(create_open_close)));
    }
    for (Figure* f : {&create, &unlink, &stat, &whole}) {
      if (!f->spate.empty()) figures_.push_back(std::move(*f));
    }
    return {};
  }

  Result<void> many_tasks() {
    Goal goal;
    goal.at_least = 40'000;
    Figure f{"create, eight tasks", "per s", "us/op", goal, {}, {}};
    const double units = 4.0 * static_cast<double>(settings_.operations) / 1e6;
    for (int i = 0; i < settings_.runs; ++i) {
      const Work work = [this, i]() -> Result<double> {
        const double begin = now();
        const Creation creation{fmt::format("/tasks-{}", i), kTasks, 4 * settings_.operations, false};
        SPATE_TRY(std::ignore, process_->run([&](client::Client& c) { return create_many(c, creation); }));
        return 4.0 * static_cast<double>(settings_.operations) / (now() - begin);
      };
      SPATE_TRY(std::ignore, pair(f, units, [this] { return store_.puts_per_second(4 * settings_.operations); }, work));
    }
    if (!f.spate.empty()) figures_.push_back(std::move(f));
    return {};
  }

  /// One folder of a million files. Many requests in flight create them; then the folder is listed with attributes.
  Result<void> large_directory() {
    Goal goal;
    goal.at_most = 5;
    Figure fill{"fill one directory", "per s", "us/op", {}, {}, {}};
    Figure list{"list 1,000,000 with attributes", "s", "us/op", goal, {}, {}};
    if (settings_.entries == 0 || !(wanted(fill) || wanted(list))) return {};
    fmt::print(stderr, "filling a directory of {} entries ...\n", settings_.entries);
    const Creation creation{"/large", 64, settings_.entries, true};
    const double millions = static_cast<double>(settings_.entries) / 1e6;
    const Work work = [&]() -> Result<double> {
      const double begin = now();
      SPATE_TRY(std::ignore, process_->run([&](client::Client& c) { return create_many(c, creation); }));
      return static_cast<double>(settings_.entries) / (now() - begin);
    };
    if (wanted(fill)) {
      SPATE_TRY(std::ignore, pair(fill, millions, [this] { return store_.puts_per_second(settings_.entries); }, work));
      figures_.push_back(std::move(fill));
    } else {
      SPATE_TRY(std::ignore, work());
    }
    for (int i = 0; i < std::min(settings_.runs, 3); ++i) {
      const Work listing = [&]() -> Result<double> {
        const double begin = now();
        SPATE_TRY(const std::uint64_t seen, process_->run([&](client::Client& c) { return list_folder(c, "/large"); }));
        if (seen != settings_.entries) return Error(Errc::kIoError, fmt::format("{} entries listed", seen));
        return now() - begin;
      };
      SPATE_TRY(std::ignore, pair(list, millions, [&] { return store_.scan_seconds(settings_.entries); }, listing));
    }
    if (!list.spate.empty()) figures_.push_back(std::move(list));
    return {};
  }

  bool wanted(const Figure& f) const { return f.name.find(settings_.only) != std::string::npos; }

  Result<void> pair(Figure& f, double units, const Work& raw, const Work& spate) {
    if (!wanted(f)) return {};
    fmt::print(stderr, "{} ...\n", f.name);
    SPATE_TRY(const Sample below, sample(units, raw, [this] { return peers_.cpu_seconds(); }));
    SPATE_TRY(const Sample ours,
              sample(units, spate, [this] { return measure::cpu_seconds(settings_.server).value_or(0); }));
    f.raw.push_back(below);
    f.spate.push_back(ours);
    return {};
  }

  static Result<Sample> sample(double units, const Work& run, const std::function<double()>& others) {
    SPATE_TRY(const double own_before, measure::cpu_seconds(0));
    const double others_before = others();
    SPATE_TRY(const double value, run());
    SPATE_TRY(const double own_after, measure::cpu_seconds(0));
    return Sample{value, (own_after - own_before) / units, (others() - others_before) / units};
  }

  double now() const { return std::chrono::duration<double>(process_->executor().now().since_start).count(); }

  template <typename Each>
  Result<double> timed(Each each) {
    const double begin = now();
    for (std::uint64_t n = 0; n < settings_.operations; ++n) {
      SPATE_TRY(std::ignore, each(n));
    }
    return static_cast<double>(settings_.operations) / (now() - begin);
  }

  /// Operations a second of bare round trips, each followed by a bare put if `put`, as a change needs.
  Result<double> raw(bool put) {
    measure::RatePlan plan;
    plan.requests = settings_.operations;
    plan.request_bytes = kRequestBytes;
    plan.reply_bytes = kReplyBytes;
    SPATE_TRY(const measure::Rate rate, measure::run_requests(peers_, plan));
    double seconds = rate.seconds;
    if (put) {
      SPATE_TRY(const double puts, store_.puts_per_second(settings_.operations));
      seconds += static_cast<double>(settings_.operations) / puts;
    }
    return static_cast<double>(settings_.operations) / seconds;
  }

  const Settings settings_;
  measure::RawPeers peers_;
  RawStore store_;
  std::unique_ptr<assembly::ClientProcess> process_;
  std::vector<Figure> figures_;
};

Result<std::vector<Figure>> run(const Settings& settings) {
  measure::RawPeersOptions probe;
  probe.peers = 1;
  SPATE_TRY(measure::RawPeers peers, measure::RawPeers::start(probe));  // it forks, so before there are threads
  SPATE_TRY(RawStore store, RawStore::open(settings.folder + "/names-bench-store"));
  assembly::ClientSettings client;
  client.config_file = settings.config_file;
  client.program = "names_bench";
  client.credential = assembly::own_credential();
  client.background_thread = false;
  SPATE_TRY(auto process, assembly::ClientProcess::open(client));
  Bench bench(settings, std::move(peers), std::move(store), std::move(process));
  return bench.run();
}

int usage() {
  fmt::print(stderr,
             "usage: names_bench --config spate.toml --server PID [--operations 20000] [--entries 1000000] [--runs 5]\n"
             "         [--folder DIR] [--pin CLIENT-CPU,SERVER-CPU] [--only PART-OF-NAME] [--json FILE]\n"
             "--server: the meta server's process. --folder: where the bare RocksDB lies. -1 pins to no processor.\n");
  return 2;
}

bool parse(int argc, char** argv, Settings& settings) {
  const option options[] = {
      {"config", required_argument, nullptr, 'c'},     {"server", required_argument, nullptr, 's'},
      {"operations", required_argument, nullptr, 'o'}, {"runs", required_argument, nullptr, 'r'},
      {"entries", required_argument, nullptr, 'e'},    {"json", required_argument, nullptr, 'j'},
      {"folder", required_argument, nullptr, 'f'},     {"only", required_argument, nullptr, 'n'},
      {"pin", required_argument, nullptr, 'p'},        {nullptr, 0, nullptr, 0}};
  for (int c = 0; (c = ::getopt_long(argc, argv, "", options, nullptr)) != -1;) {
    if (c == 'c') settings.config_file = optarg;
    if (c == 's') settings.server = std::atoi(optarg);
    if (c == 'o') settings.operations = std::strtoull(optarg, nullptr, 10);
    if (c == 'e') settings.entries = std::strtoull(optarg, nullptr, 10);
    if (c == 'r') settings.runs = std::atoi(optarg);
    if (c == 'j') settings.json_file = optarg;
    if (c == 'f') settings.folder = optarg;
    if (c == 'n') settings.only = optarg;
    if (c == 'p' && std::sscanf(optarg, "%d,%d", &settings.client_cpu, &settings.server_cpu) != 2) return false;
    if (c == '?') return false;
  }
  return !settings.config_file.empty() && settings.server > 0 && settings.runs > 0 && settings.operations > 0;
}

}  // namespace
}  // namespace spate::bench

int main(int argc, char** argv) {
  using namespace spate::bench;
  Settings settings;
  if (!parse(argc, argv, settings)) return usage();
  const auto figures = run(settings);
  if (!figures) {
    fmt::print(stderr, "names_bench: {}\n", figures.error().message());
    return 1;
  }
  fmt::print("{}", table(*figures));
  if (!settings.json_file.empty()) {
    std::ofstream(settings.json_file) << json(*figures,
                                              {{"operations", std::to_string(settings.operations)},
                                               {"pinned to", fmt::format("client {}, server {} (-1: none)",
                                                                         settings.client_cpu, settings.server_cpu)},
                                               {"entries", std::to_string(settings.entries)},
                                               {"bare store", settings.folder}})
                                      << "\n";
  }
  return 0;
}
