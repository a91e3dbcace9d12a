// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/units.h"
#include "config/load.h"
#include "measure/cpu.h"
#include "measure/raw_stream.h"
#include "tools/bench_work.h"
#include "tools/commands.h"
#include "tools/server_control.h"

namespace spate::tools {
namespace {

constexpr double kBytesPerGiB = static_cast<double>(1ULL << 30U);
constexpr std::uint64_t kSmallRead = 4096;
constexpr std::uint64_t kProbeRequests = 20'000;  // small requests: about a second

std::atomic<bool> interrupted{false};
std::atomic<bool> server_waited_for{false};

/// The first Ctrl-C ends the benchmark in order, the second one at once. While a server does not answer, the first one
/// ends it at once, too.
void on_interrupt(int signal) {
  interrupted.store(true, std::memory_order_relaxed);
  std::signal(signal, SIG_DFL);
  if (server_waited_for.load(std::memory_order_relaxed)) std::raise(signal);
}

void on_wait(bool waits) {
  server_waited_for.store(waits, std::memory_order_relaxed);
  if (waits && interrupted.load(std::memory_order_relaxed)) std::raise(SIGINT);
}

struct BenchOptions {
  std::string what = "all";
  std::string size = "256MiB";
  std::string request = "1MiB";
  std::string folder = "spate:/";
  std::string probe_folder = "/dev/shm";
  std::uint64_t depth = 4;
  std::uint64_t threads = 1;
  std::uint64_t files = 5000;
  std::uint64_t tasks = 1;
  // Options as parsed.
  std::uint64_t file_bytes = 0;
  std::uint64_t request_bytes = 0;

  bool data() const { return what != "meta"; }
  bool meta() const { return what != "data"; }
};

/// A line of the table. Processor time: seconds for a GiB, or microseconds for an operation; negative: unknown.
struct Line {
  std::string name;
  std::string unit;
  double value = 0;
  double probe = 0;
  double client_cpu = 0;
  double server_cpu = -1;
};

class Bench {
 public:
  /// `folder`: where `spate up` records the servers' processes.
  Bench(const BenchOptions& options, measure::RawPeers peers, assembly::ClientProcess& process,
        const std::string& folder)
      : options_(options), peers_(std::move(peers)), process_(process) {
    for (const ServerProcessState& state : look_at_servers(folder, process.config())) {
      if (state.pid != 0) servers_.push_back(state.pid);
    }
    // Some run on other machines: their processor time is unknown.
    if (servers_.size() != process.config().servers.size()) servers_.clear();
  }

  /// Runs the benchmark and removes all its files, also after an error.
  Result<void> run() {
    const std::string name = fmt::format(".spate-bench-{}-{:08x}", ::getpid(), process_.random().next() & 0xffffffffU);
    folder_path_ = join_path(remote_path(options_.folder), name);
    wire::NewAttributes attributes;
    attributes.mode = 0700;
    SPATE_TRY(const Attributes made, process_.run([&](client::Client& c) {
      return c.mkdir(client::path_from_root(folder_path_), attributes);
    }));
    folder_ = made.handle;
    Result<void> measured;
    if (options_.data()) measured = data();
    if (measured && options_.meta()) measured = names();
    auto cleaned = clean_up();
    return measured ? cleaned : measured;
  }
  const std::vector<Line>& lines() const { return lines_; }

 private:
  struct Usage {
    double begin = 0;
    double client = 0;
    double servers = 0;
  };

  double now() const { return std::chrono::duration<double>(process_.clock().now().since_start).count(); }

  Usage usage() const {
    Usage used{now(), measure::cpu_seconds(0).value_or(0), 0};
    for (const pid_t pid : servers_) used.servers += measure::cpu_seconds(pid).value_or(0);
    return used;
  }

  wire::NamePath in_folder(std::string name) const {
    wire::NamePath where;
    where.start = folder_;
    where.path = std::move(name);
    return where;
  }

  void add(Line line, const Usage& before, const Usage& after, double units) {
    line.client_cpu = (after.client - before.client) / units;
    line.server_cpu = servers_.empty() ? -1 : (after.servers - before.servers) / units;
    lines_.push_back(std::move(line));
  }

  Result<void> data() {
    client::NewObject object;
    object.attributes.mode = 0600;
    const std::uint8_t flags = wire::kOpenRead | wire::kOpenWrite | wire::kOpenExclusive;
    SPATE_TRY(auto file, process_.run([&](client::Client& c) { return c.create(in_folder("data"), flags, object); }));
    Result<void> done = stream(*file, DataWork::kWrite);
    if (done) done = stream(*file, DataWork::kRead);
    if (done) done = random_reads(*file);
    auto closed = process_.run([&](client::Client&) { return file->close(); });
    if (done && !closed) return std::move(closed).error();
    return done;
  }

  Result<void> stream(client::File& file, DataWork work) {
    if (interrupted) return {};
    measure::StreamPlan probe;
    probe.direction =
        work == DataWork::kWrite ? measure::StreamPlan::Direction::kWrite : measure::StreamPlan::Direction::kRead;
    probe.request_bytes = std::min<std::uint64_t>(options_.request_bytes, measure::RawPeers::kMaxBytes);
    probe.total_bytes = options_.file_bytes / probe.request_bytes * probe.request_bytes;
    probe.in_flight = static_cast<std::size_t>(options_.depth * options_.threads);
    Buffer memory(probe.in_flight * static_cast<std::size_t>(probe.request_bytes), Buffer::kPageAlignment);
    const double begin = now();
    SPATE_TRY(std::ignore, measure::run_stream(peers_, probe, memory.view()));
    const double probed = static_cast<double>(probe.total_bytes) / 1e9 / (now() - begin);
    const Usage before = usage();
    SPATE_TRY(const std::uint64_t moved, by_threads(file, work, options_.request_bytes, options_.depth, 0));
    const Usage after = usage();
    if (moved == 0) return {};
    const double rate = static_cast<double>(moved) / 1e9 / (after.begin - before.begin);
    add({work == DataWork::kWrite ? "write" : "read", "GB/s", rate, probed, 0, 0}, before, after,
        static_cast<double>(moved) / kBytesPerGiB);
    return {};
  }

  Result<void> random_reads(client::File& file) {
    const std::uint64_t requests = std::min(kProbeRequests, options_.file_bytes / kSmallRead);
    if (interrupted || requests == 0) return {};
    measure::RatePlan probe;
    probe.op = measure::RawRequest::Op::kRead;
    probe.requests = requests;
    probe.reply_bytes = kSmallRead;
    probe.file_bytes = options_.file_bytes / peers_.size();
    probe.in_flight = static_cast<std::size_t>(options_.depth * options_.threads);
    SPATE_TRY(const measure::Rate rate, measure::run_requests(peers_, probe));
    const Usage before = usage();
    SPATE_TRY(const std::uint64_t moved, by_threads(file, DataWork::kRandomRead, kSmallRead, options_.depth, requests));
    const Usage after = usage();
    const double reads = static_cast<double>(moved) / static_cast<double>(kSmallRead);
    if (reads == 0) return {};
    add({"random read 4 KiB", "per s", reads / (after.begin - before.begin),
         static_cast<double>(requests) / rate.seconds, 0, 0},
        before, after, reads / 1e6);
    return {};
  }

  /// Each thread has a part of the file, and blocks in its own calls.
  Result<std::uint64_t> by_threads(client::File& file, DataWork work, std::uint64_t request, std::uint64_t depth,
                                   std::uint64_t requests) {
    const std::uint64_t part = options_.file_bytes / options_.threads / request * request;
    std::vector<Result<std::uint64_t>> results(options_.threads, std::uint64_t{0});
    std::vector<std::thread> threads;
    for (std::uint64_t i = 0; i < options_.threads; ++i) {
      DataPlan plan;
      plan.work = work;
      plan.begin = i * part;
      plan.end = (i + 1) * part;
      plan.request_bytes = request;
      plan.requests = requests / options_.threads;
      plan.depth = static_cast<std::size_t>(depth);
      threads.emplace_back([this, &file, plan, &result = results[i]] {
        result = process_.run([&](client::Client&) { return move_data(file, plan, interrupted); });
      });
    }
    for (std::thread& thread : threads) thread.join();
    std::uint64_t moved = 0;
    for (auto& result : results) {
      SPATE_TRY(const std::uint64_t n, std::move(result));
      moved += n;
    }
    return moved;
  }

  Result<void> names() {
    measure::RatePlan probe;
    probe.requests = std::min(options_.files, kProbeRequests);
    probe.in_flight = static_cast<std::size_t>(options_.tasks);
    SPATE_TRY(const measure::Rate rate, measure::run_requests(peers_, probe));
    const double probed = static_cast<double>(probe.requests) / rate.seconds;
    SPATE_TRY(std::ignore, name_work("create", NamesWork::kCreate, probed));
    SPATE_TRY(std::ignore, name_work("stat", NamesWork::kStat, probed));
    return name_work("unlink", NamesWork::kUnlink, probed);
  }

  Result<void> name_work(const char* name, NamesWork work, double probed) {
    if (interrupted) return {};
    const NamesPlan plan{work, folder_, options_.files, static_cast<std::size_t>(options_.tasks)};
    const Usage before = usage();
    SPATE_TRY(const std::uint64_t done,
              process_.run([&](client::Client& c) { return work_on_names(c, plan, interrupted); }));
    const Usage after = usage();
    if (done == 0) return {};
    const auto operations = static_cast<double>(done);
    add({name, "per s", operations / (after.begin - before.begin), probed, 0, 0}, before, after, operations / 1e6);
    return {};
  }

  Result<void> clean_up() {
    wire::ReaddirRequest request;
    request.handle = folder_;
    for (bool end = false; !end;) {
      SPATE_TRY(const wire::ReaddirReply page, process_.run([&](client::Client& c) { return c.readdir(request); }));
      for (const wire::DirectoryEntry& entry : page.entries) {
        request.cookie = entry.cookie;
        SPATE_TRY(std::ignore, process_.run([&](client::Client& c) { return c.unlink(in_folder(entry.name)); }));
      }
      end = page.end || page.entries.empty();
    }
    return process_.run([&](client::Client& c) { return c.rmdir(client::path_from_root(folder_path_)); });
  }

  const BenchOptions& options_;
  measure::RawPeers peers_;
  assembly::ClientProcess& process_;
  std::vector<pid_t> servers_;  // only if all of them run on this machine
  std::string folder_path_;
  Handle folder_;
  std::vector<Line> lines_;
};

void print_table(const std::vector<Line>& lines) {
  print(fmt::format("{:<18} {:>6} {:>10} {:>10} {:>6}   {}\n", "", "", "Spate", "probe", "ratio",
                    "CPU client + servers"));
  for (const Line& line : lines) {
    const bool stream = line.unit == "GB/s";
    const int digits = stream ? 2 : 0;
    const std::string servers = line.server_cpu < 0 ? "?" : fmt::format("{:.2f}", line.server_cpu);
    print(fmt::format("{:<18} {:>6} {:>10.{}f} {:>10.{}f} {:>6.2f}   {:.2f} + {} {}\n", line.name, line.unit,
                      line.value, digits, line.probe, digits, line.value / line.probe, line.client_cpu, servers,
                      stream ? "s/GiB" : "us each"));
  }
}

void print_lines_json(const BenchOptions& options, const std::vector<Line>& lines, const std::string& meta_sync) {
  nlohmann::json out;
  out["about"] = {{"file_bytes", options.file_bytes},
                  {"request_bytes", options.request_bytes},
                  {"depth", options.depth},
                  {"threads", options.threads},
                  {"files", options.files},
                  {"tasks", options.tasks},
                  {"meta.sync", meta_sync}};
  out["results"] = nlohmann::json::array();
  for (const Line& line : lines) {
    nlohmann::json one = {{"name", line.name},
                          {"unit", line.unit},
                          {"value", line.value},
                          {"probe", line.probe},
                          {"ratio", line.value / line.probe},
                          {"cpu_unit", line.unit == "GB/s" ? "s/GiB" : "us"},
                          {"client_cpu", line.client_cpu}};
    if (line.server_cpu >= 0) one["server_cpu"] = line.server_cpu;
    out["results"].push_back(std::move(one));
  }
  print(out.dump(2) + "\n");
}

/// Limits the options, so that a mistyped number does not fill a disk or the memory.
std::string check(BenchOptions& options) {
  const auto size = parse_size(options.size);
  const auto request = parse_size(options.request);
  if (!size || !request) return "a size is written as 256MiB or 4KiB";
  options.file_bytes = *size;
  options.request_bytes = *request;
  if (options.what != "all" && options.what != "data" && options.what != "meta") return "measure data, meta or all";
  if (!is_remote(options.folder)) return "--in names a directory of the file system: spate:/...";
  if (*request < kSmallRead || *request > (64ULL << 20U)) return "--request takes 4KiB to 64MiB";
  if (options.depth < 1 || options.depth > 256) return "--depth takes 1 to 256";
  if (options.threads < 1 || options.threads > 64) return "--threads takes 1 to 64";
  if (options.depth * options.threads * *request > (4ULL << 30U))
    return "depth x threads x request is more than 4 GiB of memory";
  if (*size / options.threads < *request) return "--size is less than one request a thread";
  if (options.files < 1 || options.files > 100'000'000) return "--files takes 1 to 100000000";
  if (options.tasks < 1 || options.tasks > 1024) return "--tasks takes 1 to 1024";
  return {};
}

Result<measure::RawPeers> start_probe(const BenchOptions& options, const config::FileSystemConfig& config) {
  measure::RawPeersOptions probe;
  const auto io =
      std::ranges::count_if(config.servers, [](const config::ServerConfig& server) { return server.roles.io; });
  probe.peers = static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(io, 1, 64));
  if (options.data()) {
    const std::uint64_t round = std::min<std::uint64_t>(options.request_bytes, measure::RawPeers::kMaxBytes);
    probe.folder = options.probe_folder;
    probe.file_bytes = (options.file_bytes / probe.peers / round + 1) * round;
  }
  return measure::RawPeers::start(probe);
}

int run_bench(Context& context, BenchOptions& options) {
  const std::string wrong = check(options);
  if (!wrong.empty()) return context.usage(wrong);
  auto file = context.config_file();
  if (!file) return context.fail(file.error());
  auto loaded = config::load_file(*file, {});
  if (!loaded) return context.fail(loaded.error());
  auto peers = start_probe(options, loaded->config);  // forks: before there are threads
  if (!peers) return context.fail(peers.error(), "probe in " + options.probe_folder);
  context.on_wait = on_wait;
  auto process = context.file_system();
  if (!process) return context.fail(process.error());
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
  Bench bench(options, *std::move(peers), **process, std::filesystem::path(*file).parent_path().string());
  auto done = bench.run();
  if (!done) return context.fail(done.error());
  if (context.json) {
    print_lines_json(options, bench.lines(), format_duration(loaded->config.meta.sync));
  } else {
    print_table(bench.lines());
  }
  if (interrupted) return context.fail("interrupted; nothing is left behind");
  return kExitOk;
}

}  // namespace

Command make_bench() {
  auto options = std::make_shared<BenchOptions>();
  Command command;
  command.name = "bench";
  command.group = "Look";
  command.summary = "measure this file system from here, beside the machine's own limit";
  command.details =
      "Writes and reads a file of its own and makes, looks at and removes empty files, in a folder that is gone "
      "afterwards, also after "
      "Ctrl-C, unless a server does not answer. Beside each figure stands a bare probe of the same run: plain TCP "
      "sockets on this machine that move as "
      "many bytes by "
      "requests of the same size (read by sendfile, written by pwrite below --probe-dir), or answer as many small "
      "requests. The ratio says "
      "what the file system itself costs; it is above 1 where the network or the servers' machines are faster than "
      "this one's loopback. "
      "Processor time is of this command and, when all servers run on this machine, of theirs.";
  command.positionals = {{"WHAT", "data, meta or all (all)", &options->what, false, {"data", "meta", "all"}}};
  command.options = {{"--size", "of the file: 256MiB", &options->size},
                     {"--request", "bytes moved by one request: 1MiB", &options->request},
                     {"--depth", "requests in flight, each thread: 4", &options->depth},
                     {"--threads", "threads, each with its part of the file: 1", &options->threads},
                     {"--files", "to create, stat and unlink: 5000", &options->files},
                     {"--tasks", "of them at once: 1", &options->tasks},
                     {"--in", "the directory to work in: spate:/", &options->folder},
                     {"--probe-dir", "where the probe has its files: /dev/shm", &options->probe_folder}};
  command.run = [options](Context& context) { return run_bench(context, *options); };
  return command;
}

}  // namespace spate::tools
