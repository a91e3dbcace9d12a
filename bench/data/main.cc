// SPDX-License-Identifier: Apache-2.0
// The data path of a running file system against raw sockets: bench/run data starts the servers and this.
#include <fmt/core.h>
#include <getopt.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>

#include "base/units.h"
#include "data/report.h"
#include "data/workload.h"
#include "measure/cpu.h"
#include "measure/raw_stream.h"

namespace spate::bench {
namespace {

constexpr double kGiB = static_cast<double>(1ULL << 30U);
constexpr std::uint64_t kRequestBytes = 1ULL << 20U;
constexpr std::size_t kInFlight = 4;
/// The bytes on the wire for a read of 4 KiB, with frame headers: the request, and what surrounds the data in the
/// reply. Counted with strace.
constexpr std::uint64_t kSmallRequestBytes = 330;
constexpr std::uint64_t kSmallReplyBytes = 4096 + 140;

struct Settings {
  std::string config_file;
  std::vector<pid_t> servers;
  std::string folder = "/dev/shm";  // folder of the probe's files; must be the same kind of storage
  std::string json_file;
  std::string only;  // measure only figures whose names contain this
  std::uint64_t file_bytes = 2ULL << 30U;
  int runs = 5;
  int client_cpu = -1;
  int server_cpu = -1;
};

const char* const kFilePath = "/spate-data-bench";

/// The value and the processor time of one run of a side.
struct Measured {
  double seconds = 0;
  double client_cpu = 0;
  double server_cpu = 0;
};

class Bench {
 public:
  Bench(Settings settings, measure::RawPeers peers, std::unique_ptr<assembly::ClientProcess> process)
      : settings_(std::move(settings)),
        peers_(std::move(peers)),
        process_(std::move(process)),
        memory_(kInFlight * kRequestBytes, Buffer::kPageAlignment) {
    std::memset(memory_.data(), 0x5a, memory_.size());
  }

  Result<void> run() {
    SPATE_TRY(std::ignore, pin_all(settings_.client_cpu, settings_.server_cpu));
    SPATE_TRY(file_, create());
    auto measured = measure_all();
    std::ignore = process_->run([this](client::Client&) { return file_->close(); });
    std::ignore = remove();
    return measured;
  }
  const std::vector<Figure>& figures() const { return figures_; }

 private:
  struct Side {
    std::function<Result<double>()> run;  // yields the value
    double units_per_run = 0;             // processor seconds are divided by this: GiB, or requests / 1e6
  };

  Result<void> measure_all() {
    SPATE_TRY(std::ignore, spate_stream(true));  // warms up, and creates the file
    SPATE_TRY(std::ignore, raw_stream(true));
    const double gib = static_cast<double>(settings_.file_bytes) / kGiB;
    Goal stream_goal;
    stream_goal.ratio_at_least = 0.85;
    stream_goal.cpu_ratio_at_most = 1.25;
    SPATE_TRY(std::ignore, figure(
                               {"read 1 MiB x 4", "GB/s", "s/GiB", stream_goal, {}, {}}, gib,
                               [this] { return raw_stream(false); }, [this] { return spate_stream(false); }));
    SPATE_TRY(std::ignore, figure(
                               {"write 1 MiB x 4, over", "GB/s", "s/GiB", stream_goal, {}, {}}, gib,
                               [this] { return raw_stream(true); }, [this] { return spate_stream(true); }));
    constexpr std::uint64_t kRoundTrips = 20'000;
    Goal latency_goal;
    latency_goal.above_probe_at_most = 8;
    // A client and a server that take turns are about twice as fast on one processor as on two. So the kernel must not
    // choose their processors.
    const bool chosen = settings_.client_cpu >= 0 || settings_.server_cpu >= 0;
    SPATE_TRY(std::ignore, chosen ? Result<void>() : pin_all(0, 1));
    SPATE_TRY(std::ignore, figure(
                               {"random 4 KiB x 1, p50", "us", "us/op", latency_goal, {}, {}}, kRoundTrips / 1e6,
                               [this] { return raw_latency(kRoundTrips, 0.5); },
                               [this] { return spate_latency(kRoundTrips, 0.5); }));
    SPATE_TRY(std::ignore, figure(
                               {"random 4 KiB x 1, p99", "us", "us/op", {}, {}, {}}, kRoundTrips / 1e6,
                               [this] { return raw_latency(kRoundTrips, 0.99); },
                               [this] { return spate_latency(kRoundTrips, 0.99); }));
    SPATE_TRY(std::ignore, pin_all(settings_.client_cpu, settings_.server_cpu));
    constexpr std::uint64_t kReads = 200'000;
    Goal rate_goal;
    rate_goal.at_least = 100'000;
    SPATE_TRY(std::ignore, figure(
                               {"random 4 KiB x 32", "per s", "us/op", rate_goal, {}, {}}, kReads / 1e6,
                               [this] { return raw_rate(kReads); }, [this] { return spate_rate(kReads); }));
    return {};
  }

  Result<void> pin_all(int client_cpu, int server_cpu) const {
    SPATE_TRY(std::ignore, peers_.pin(server_cpu));
    SPATE_TRY(std::ignore, measure::pin(0, client_cpu));
    for (const pid_t pid : settings_.servers) {
      SPATE_TRY(std::ignore, measure::pin(pid, server_cpu));
    }
    return {};
  }

  double server_cpu() const {
    double sum = 0;
    for (const pid_t pid : settings_.servers) sum += measure::cpu_seconds(pid).value_or(0.0);
    return sum;
  }

  Result<void> figure(Figure f, double units, const std::function<Result<double>()>& raw,
                      const std::function<Result<double>()>& spate) {
    if (f.name.find(settings_.only) == std::string::npos) return {};
    fmt::print(stderr, "{} ...\n", f.name);
    for (int i = 0; i < settings_.runs; ++i) {
      SPATE_TRY(const Sample below, sample(units, raw, [this] { return peers_.cpu_seconds(); }));
      SPATE_TRY(const Sample ours, sample(units, spate, [this] { return server_cpu(); }));
      f.raw.push_back(below);
      f.spate.push_back(ours);
    }
    figures_.push_back(std::move(f));
    return {};
  }

  static Result<Sample> sample(double units, const std::function<Result<double>()>& run,
                               const std::function<double()>& others) {
    SPATE_TRY(const double own_before, measure::cpu_seconds(0));
    const double others_before = others();
    SPATE_TRY(const double value, run());
    SPATE_TRY(const double own_after, measure::cpu_seconds(0));
    return Sample{value, (own_after - own_before) / units, (others() - others_before) / units};
  }

  double now() const { return std::chrono::duration<double>(process_->executor().now().since_start).count(); }

  Result<double> raw_stream(bool write) {
    measure::StreamPlan plan;
    plan.direction = write ? measure::StreamPlan::Direction::kWrite : measure::StreamPlan::Direction::kRead;
    plan.total_bytes = settings_.file_bytes;
    plan.request_bytes = kRequestBytes;
    plan.in_flight = kInFlight;
    const double begin = now();
    SPATE_TRY(std::ignore, measure::run_stream(peers_, plan, memory_.view()));
    return static_cast<double>(settings_.file_bytes) / 1e9 / (now() - begin);
  }

  Result<double> spate_stream(bool write) {
    Stream stream;
    stream.write = write;
    stream.total_bytes = settings_.file_bytes;
    stream.request_bytes = kRequestBytes;
    stream.in_flight = kInFlight;
    const double begin = now();
    SPATE_TRY(std::ignore, process_->run([&](client::Client&) {
      return run_stream(process_->executor(), *file_, stream, memory_.view());
    }));
    return static_cast<double>(settings_.file_bytes) / 1e9 / (now() - begin);
  }

  measure::RatePlan raw_plan(std::uint64_t requests) const {
    measure::RatePlan plan;
    plan.requests = requests;
    plan.request_bytes = kSmallRequestBytes;
    plan.reply_bytes = kSmallReplyBytes;
    plan.file_bytes = settings_.file_bytes / peers_.size();
    return plan;
  }

  Result<double> raw_latency(std::uint64_t requests, double share) {
    SPATE_TRY(const measure::Rate rate, measure::run_requests(peers_, raw_plan(requests)));
    return measure::percentile(rate.latency_us, share);
  }

  Result<double> raw_rate(std::uint64_t requests) {
    measure::RatePlan plan = raw_plan(requests);
    plan.op = measure::RawRequest::Op::kRead;
    plan.in_flight = 32;
    SPATE_TRY(const measure::Rate rate, measure::run_requests(peers_, plan));
    return static_cast<double>(requests) / rate.seconds;
  }

  Result<double> random_reads(std::uint64_t requests, std::size_t in_flight, std::vector<double>& latency_us) {
    RandomReads reads;
    reads.file_bytes = settings_.file_bytes;
    reads.requests = requests;
    reads.in_flight = in_flight;
    latency_us.reserve(requests);
    const double begin = now();
    SPATE_TRY(std::ignore, process_->run([&](client::Client&) {
      return run_random(process_->executor(), *file_, reads, latency_us);
    }));
    return now() - begin;
  }

  Result<double> spate_latency(std::uint64_t requests, double share) {
    std::vector<double> latency_us;
    SPATE_TRY(std::ignore, random_reads(requests, 1, latency_us));
    return measure::percentile(std::move(latency_us), share);
  }

  Result<double> spate_rate(std::uint64_t requests) {
    std::vector<double> latency_us;
    SPATE_TRY(const double seconds, random_reads(requests, 32, latency_us));
    return static_cast<double>(requests) / seconds;
  }

  Result<std::unique_ptr<client::File>> create() {
    return process_->run([](client::Client& client) {
      const std::uint8_t flags = wire::kOpenRead | wire::kOpenWrite | wire::kOpenTruncate;
      client::NewObject object;
      object.attributes.mode = 0600;
      return client.create(client::path_from_root(kFilePath), flags, std::move(object));
    });
  }
  Result<void> remove() {
    return process_->run([](client::Client& client) { return client.unlink(client::path_from_root(kFilePath)); });
  }

  const Settings settings_;
  measure::RawPeers peers_;
  std::unique_ptr<assembly::ClientProcess> process_;
  Buffer memory_;
  std::unique_ptr<client::File> file_;
  std::vector<Figure> figures_;
};

Result<std::vector<Figure>> run(const Settings& settings) {
  measure::RawPeersOptions probe;
  probe.peers = settings.servers.size();
  probe.folder = settings.folder;
  probe.file_bytes = settings.file_bytes / settings.servers.size();
  SPATE_TRY(measure::RawPeers peers, measure::RawPeers::start(probe));  // it forks, so before there are threads
  assembly::ClientSettings client;
  client.config_file = settings.config_file;
  client.program = "data_bench";
  client.credential = assembly::own_credential();
  client.background_thread = false;
  SPATE_TRY(auto process, assembly::ClientProcess::open(client));
  Bench bench(settings, std::move(peers), std::move(process));
  SPATE_TRY(std::ignore, bench.run());
  return bench.figures();
}

int usage() {
  fmt::print(stderr,
             "usage: data_bench --config spate.toml --servers PID,PID,... [--size 2GiB] [--runs 5]\n"
             "         [--pin CLIENT-CPU,SERVER-CPU] [--only PART-OF-NAME] [--probe-dir DIR] [--json FILE]\n"
             "--servers: the io servers' processes. -1 pins to no processor. See bench/README.md.\n");
  return 2;
}

std::vector<int> numbers(const std::string& text) {
  std::vector<int> list;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) list.push_back(std::atoi(part.c_str()));
  return list;
}

bool parse(int argc, char** argv, Settings& settings) {
  const option options[] = {{"config", required_argument, nullptr, 'c'},
                            {"servers", required_argument, nullptr, 's'},
                            {"size", required_argument, nullptr, 'b'},
                            {"runs", required_argument, nullptr, 'r'},
                            {"pin", required_argument, nullptr, 'p'},
                            {"only", required_argument, nullptr, 'o'},
                            {"json", required_argument, nullptr, 'j'},
                            {"probe-dir", required_argument, nullptr, 'd'},
                            {nullptr, 0, nullptr, 0}};
  for (int c = 0; (c = ::getopt_long(argc, argv, "", options, nullptr)) != -1;) {
    if (c == 'c') settings.config_file = optarg;
    if (c == 's') settings.servers = numbers(optarg);
    if (c == 'r') settings.runs = std::atoi(optarg);
    if (c == 'o') settings.only = optarg;
    if (c == 'j') settings.json_file = optarg;
    if (c == 'd') settings.folder = optarg;
    if (c == '?') return false;
    if (c == 'b') {
      const auto size = parse_size(optarg);
      if (!size) return false;
      settings.file_bytes = *size;
    }
    if (c == 'p') {
      const std::vector<int> cpus = numbers(optarg);
      if (cpus.size() != 2) return false;
      settings.client_cpu = cpus[0];
      settings.server_cpu = cpus[1];
    }
  }
  const std::uint64_t round = settings.servers.size() * kRequestBytes;
  return !settings.config_file.empty() && round > 0 && settings.runs > 0 && settings.file_bytes >= round &&
         settings.file_bytes % round == 0;
}

}  // namespace
}  // namespace spate::bench

int main(int argc, char** argv) {
  using namespace spate::bench;
  Settings settings;
  if (!parse(argc, argv, settings)) return usage();
  const auto figures = run(settings);
  if (!figures) {
    fmt::print(stderr, "data_bench: {}\n", figures.error().message());
    return 1;
  }
  fmt::print("{}", table(*figures));
  if (!settings.json_file.empty()) {
    const std::string pins = fmt::format("client {}, servers {} (-1: none)", settings.client_cpu, settings.server_cpu);
    std::ofstream(settings.json_file) << json(*figures, {{"file", spate::format_size(settings.file_bytes)},
                                                         {"servers", std::to_string(settings.servers.size())},
                                                         {"pinned to", pins},
                                                         {"storage", settings.folder}})
                                      << "\n";
  }
  return 0;
}
