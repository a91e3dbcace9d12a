// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "tools/bench_work.h"
#include "tools/commands.h"

namespace spate::tools {
namespace {

constexpr std::uint64_t kSmallRead = 4096;
constexpr std::uint64_t kMostSmallReads = 20'000;  // a second or a few

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
  std::uint64_t depth = 4;
  std::uint64_t files = 5000;
  std::uint64_t tasks = 1;
  // Options as parsed.
  std::uint64_t file_bytes = 0;
  std::uint64_t request_bytes = 0;

  bool data() const { return what != "meta"; }
  bool meta() const { return what != "data"; }
};

/// A line of the table: gigabytes or operations, and the seconds that they took.
struct Line {
  std::string name;
  std::string unit;
  double amount = 0;
  double seconds = 0;

  double rate() const { return amount / seconds; }
};

class Bench {
 public:
  Bench(const BenchOptions& options, assembly::ClientProcess& process) : options_(options), process_(process) {}

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
  double now() const { return std::chrono::duration<double>(process_.clock().now().since_start).count(); }

  wire::NamePath in_folder(std::string name) const {
    wire::NamePath where;
    where.start = folder_;
    where.path = std::move(name);
    return where;
  }

  /// Runs one kind of work and keeps its line. An interrupt before it has done anything leaves no line.
  Result<void> timed(Line line, double each, const std::function<Result<std::uint64_t>()>& work) {
    if (interrupted) return {};
    const double begin = now();
    SPATE_TRY(const std::uint64_t done, work());
    line.seconds = now() - begin;
    line.amount = static_cast<double>(done) * each;
    if (done > 0) lines_.push_back(std::move(line));
    return {};
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

  DataPlan plan_of(DataWork work, std::uint64_t request) const {
    DataPlan plan;
    plan.work = work;
    plan.end = options_.file_bytes / request * request;
    plan.request_bytes = request;
    plan.depth = static_cast<std::size_t>(options_.depth);
    return plan;
  }

  Result<void> stream(client::File& file, DataWork work) {
    const DataPlan plan = plan_of(work, options_.request_bytes);
    return timed({work == DataWork::kWrite ? "write" : "read", "GB/s"}, 1e-9,
                 [&] { return process_.run([&](client::Client&) { return move_data(file, plan, interrupted); }); });
  }

  Result<void> random_reads(client::File& file) {
    DataPlan plan = plan_of(DataWork::kRandomRead, kSmallRead);
    plan.requests = std::min(kMostSmallReads, options_.file_bytes / kSmallRead);
    return timed({"random read 4 KiB", "per s"}, 1.0 / static_cast<double>(kSmallRead),
                 [&] { return process_.run([&](client::Client&) { return move_data(file, plan, interrupted); }); });
  }

  Result<void> names() {
    SPATE_TRY(std::ignore, name_work("create", NamesWork::kCreate));
    SPATE_TRY(std::ignore, name_work("stat", NamesWork::kStat));
    return name_work("unlink", NamesWork::kUnlink);
  }

  Result<void> name_work(const char* name, NamesWork work) {
    const NamesPlan plan{work, folder_, options_.files, static_cast<std::size_t>(options_.tasks)};
    return timed({name, "per s"}, 1,
                 [&] { return process_.run([&](client::Client& c) { return work_on_names(c, plan, interrupted); }); });
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
  assembly::ClientProcess& process_;
  std::string folder_path_;
  Handle folder_;
  std::vector<Line> lines_;
};

void print_table(const std::vector<Line>& lines) {
  for (const Line& line : lines) {
    print(fmt::format("{:<18} {:>10.{}f} {}\n", line.name, line.rate(), line.unit == "GB/s" ? 2 : 0, line.unit));
  }
}

void print_lines_json(const BenchOptions& options, const std::vector<Line>& lines, const std::string& meta_sync) {
  nlohmann::json out;
  out["about"] = {{"file_bytes", options.file_bytes}, {"request_bytes", options.request_bytes},
                  {"depth", options.depth},           {"files", options.files},
                  {"tasks", options.tasks},           {"meta.sync", meta_sync}};
  out["results"] = nlohmann::json::array();
  for (const Line& line : lines) {
    out["results"].push_back(
        {{"name", line.name}, {"unit", line.unit}, {"value", line.rate()}, {"seconds", line.seconds}});
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
  if (options.depth * *request > (4ULL << 30U)) return "depth x request is more than 4 GiB of memory";
  if (*size < *request) return "--size is less than one request";
  if (options.files < 1 || options.files > 100'000'000) return "--files takes 1 to 100000000";
  if (options.tasks < 1 || options.tasks > 1024) return "--tasks takes 1 to 1024";
  return {};
}

int run_bench(Context& context, BenchOptions& options) {
  const std::string wrong = check(options);
  if (!wrong.empty()) return context.usage(wrong);
  context.on_wait = on_wait;
  auto process = context.file_system();
  if (!process) return context.fail(process.error());
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
  Bench bench(options, **process);
  auto done = bench.run();
  if (!done) return context.fail(done.error());
  if (context.json) {
    print_lines_json(options, bench.lines(), format_duration((*process)->config().meta.sync));
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
  command.summary = "measure this file system from here";
  command.details =
      "Writes and reads a file, and creates, stats and removes empty files, in a folder that it removes at the end,\n"
      "also after Ctrl-C. The folder stays only if a server does not answer. The figures are those of one client.\n"
      "Several clients at once show what the servers can do together.";
  command.positionals = {{"WHAT", "data, meta or all (all)", &options->what, false, {"data", "meta", "all"}}};
  command.options = {{"--size", "size of the file (256MiB)", &options->size},
                     {"--request", "bytes of one request (1MiB)", &options->request},
                     {"--depth", "requests in flight (4)", &options->depth},
                     {"--files", "number of files to create, stat and unlink (5000)", &options->files},
                     {"--tasks", "number of files that are handled at once (1)", &options->tasks},
                     {"--in", "the directory to work in (spate:/)", &options->folder}};
  command.run = [options](Context& context) { return run_bench(context, *options); };
  return command;
}

}  // namespace spate::tools
