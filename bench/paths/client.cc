// SPDX-License-Identifier: Apache-2.0
// paths_client SPATE.TOML PATH KEY=VALUE...: reads or writes a file by one data path and prints JSON: bytes, seconds,
// processor seconds of this process, latencies in us.
//   work=write|read|random    in order, or anywhere           request=BYTES, depth=N at a time, size=BYTES of the file
//   path=auto|buffered|cached|direct|bypass|p2p               seconds=S  at most so long, in order at most size bytes
//   rate=BYTES a second (0: as fast as it goes)               streams=1  each of depth waits for its turn: a video
//   server's
//   at=BYTES  where in a page the buffers begin: 0 as the local probe's, 16 as large ones of malloc. A processor that
//   copies by rep movsb may be several times slower there (base/copy.h).
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>

#include "assembly/client_process.h"
#include "assembly/locate.h"
#include "job/gate.h"

namespace spate {
namespace {

struct Plan {
  std::string path;
  std::string work;
  std::uint64_t request = 131072;
  std::uint64_t depth = 1;
  std::uint64_t size = 0;
  double seconds = 0;
  double rate = 0;
  std::uint64_t at = 0;
  bool streams = false;
  wire::DataPath forced = wire::DataPath::kAutomatic;
};

struct Pass {
  client::File& file;
  const Plan& plan;
  Clock& clock;
  MonoTime begin;
  SeededRandom random{7};
  std::uint64_t next = 0;
  Result<void> first;
  std::vector<double> latencies_us;
  double steps_us = 0;  // the sum of the differences between consecutive latencies of a lane
  std::uint64_t steps = 0;
};

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

Duration seconds_of(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

bool over(const Pass& pass) {
  if (!pass.first) return true;
  if (pass.plan.seconds > 0 && pass.clock.now() - pass.begin >= seconds_of(pass.plan.seconds)) return true;
  return (pass.plan.seconds <= 0 || pass.plan.work != "random") && pass.next >= pass.plan.size;
}

std::uint64_t next_offset(Pass& pass) {
  const std::uint64_t next = pass.next;
  pass.next += pass.plan.request;
  return pass.plan.work == "random" ? pass.random.below(pass.plan.size / pass.plan.request) * pass.plan.request : next;
}

job::Task<Result<void>> move(Pass& pass, std::uint64_t offset, MutableByteView buffer) {
  if (pass.plan.work == "write") co_return co_await pass.file.write(offset, buffer);
  SPATE_CO_TRY(const auto got, co_await pass.file.read(offset, buffer));
  if (got != buffer.size()) co_return Error(Errc::kIoError, "the file is too short");
  co_return Result<void>();
}

job::Task<void> lane(Pass& pass, job::Executor& executor, MutableByteView buffer) {
  double last_us = -1;
  while (!over(pass)) {
    const std::uint64_t offset = next_offset(pass);
    if (pass.plan.rate > 0)
      std::ignore =
          co_await executor.sleep_until(pass.begin + seconds_of(static_cast<double>(pass.next) / pass.plan.rate));
    const MonoTime begin = pass.clock.now();
    if (pass.plan.streams) co_await executor.yield();
    Result<void> done = co_await move(pass, offset, buffer);
    const double took_us = static_cast<double>((pass.clock.now() - begin).count()) / 1e3;
    pass.latencies_us.push_back(took_us);
    if (last_us >= 0) {
      pass.steps_us += std::abs(took_us - last_us);
      ++pass.steps;
    }
    last_us = took_us;
    if (!done && pass.first) pass.first = std::move(done);
  }
}

void print(Pass& pass, double seconds, double used) {
  auto& all = pass.latencies_us;
  std::sort(all.begin(), all.end());
  double sum = 0;
  for (const double one_us : all) sum += one_us;
  std::printf(
      "{\"bytes\": %llu, \"seconds\": %.6f, \"cpu\": %.6f, \"mean_us\": %.1f, \"p50_us\": %.1f, \"p99_us\": %.1f, "
      "\"max_us\": %.1f, "
      "\"jitter_us\": %.1f, \"bypassed\": %llu}\n",
      static_cast<unsigned long long>(all.size() * pass.plan.request), seconds, used,
      sum / static_cast<double>(all.size()), all[all.size() / 2], all[all.size() * 99 / 100], all.back(),
      pass.steps_us / static_cast<double>(std::max<std::uint64_t>(pass.steps, 1)),
      static_cast<unsigned long long>(pass.file.bypassed_bytes()));
  std::fflush(stdout);
}

/// The first requests make the handshake and take a lease, which must not be measured.
job::Task<Result<void>> warm_up(client::File& file, const Plan& plan) {
  Bytes one(plan.request, std::byte{1});
  if (plan.work == "write") {
    SPATE_CO_TRY(std::ignore, co_await file.write(0, one));
  }
  file.force_path(plan.forced);
  if (plan.work == "write") {
    SPATE_CO_TRY(std::ignore, co_await file.write(0, one));
  } else {
    SPATE_CO_TRY(std::ignore, co_await file.read(0, one));
  }
  co_return Result<void>();
}

/// A buffer of at + request bytes, touched; the request uses it from `at` on.
Buffer buffer_for(const Plan& plan) {
  Buffer memory(plan.at + plan.request, Buffer::kPageAlignment);
  std::memset(memory.data(), 42, memory.size());
  return memory;
}

job::Task<Result<void>> run(client::Client& client, const Plan& plan, std::unique_ptr<client::File>& file,
                            std::unique_ptr<Pass>& pass) {
  client::NewObject object;
  object.attributes.mode = 0644;
  SPATE_CO_TRY(file,
               co_await client.create(client::path_from_root(plan.path), wire::kOpenRead | wire::kOpenWrite, object));
  SPATE_CO_TRY(std::ignore, co_await warm_up(*file, plan));
  job::Executor& executor = client.cluster().executor();
  std::vector<Buffer> memory;
  for (std::uint64_t i = 0; i < plan.depth; ++i) memory.push_back(buffer_for(plan));
  std::printf("go\n");  // a program that watches the servers begins here
  std::fflush(stdout);
  if (std::getchar() == EOF) co_return Errc::kCancelled;
  const double cpu = cpu_seconds();
  pass = std::make_unique<Pass>(
      Pass{*file, plan, executor.clock(), executor.clock().now(), SeededRandom(7), 0, {}, {}, 0, 0});
  job::Gate gate(executor);
  for (Buffer& one : memory) job::spawn(gate, lane(*pass, executor, one.view().subspan(plan.at)));
  co_await gate.close();
  const double seconds = static_cast<double>((pass->clock.now() - pass->begin).count()) / 1e9;
  const double used = cpu_seconds() - cpu;
  if (!pass->first) co_return pass->first.error();
  print(*pass, seconds, used);
  if (std::getchar() == EOF) co_return Errc::kCancelled;  // waits until the program that watches the servers is done
  SPATE_CO_TRY(std::ignore, co_await file->close());
  co_return Result<void>();
}

int fail(const Error& error) {
  std::fprintf(stderr, "paths_client: %s\n", error.message().c_str());
  return 1;
}

/// Parses one KEY=VALUE word. False: there is no such key.
bool take(Plan& plan, const std::string& word) {
  const std::size_t at = word.find('=');
  if (at == std::string::npos) return false;
  const std::string key = word.substr(0, at);
  const std::string value = word.substr(at + 1);
  const std::map<std::string, std::uint64_t*> numbers = {
      {"request", &plan.request}, {"depth", &plan.depth}, {"size", &plan.size}, {"at", &plan.at}};
  const std::map<std::string, double*> reals = {{"seconds", &plan.seconds}, {"rate", &plan.rate}};
  if (numbers.contains(key)) {
    *numbers.at(key) = std::strtoull(value.c_str(), nullptr, 10);
  } else if (reals.contains(key)) {
    *reals.at(key) = std::strtod(value.c_str(), nullptr);
  } else if (key == "path" && wire::data_path_of(value)) {
    plan.forced = *wire::data_path_of(value);
  } else if (key == "streams") {
    plan.streams = value == "1";
  } else if (key == "work") {
    plan.work = value;
  } else {
    return false;
  }
  return true;
}

}  // namespace
}  // namespace spate

int main(int argc, char** argv) {
  using namespace spate;
  if (argc < 3) return 2;
  Plan plan;
  plan.path = argv[2];
  plan.work = "read";
  for (int i = 3; i < argc; ++i) {
    if (!take(plan, argv[i])) return fail(Error(Errc::kInvalidArgument, std::string("what is ") + argv[i]));
  }
  if (plan.request == 0 || plan.depth == 0 || plan.size < plan.request || plan.at >= Buffer::kPageAlignment) return 2;
  assembly::ClientSettings settings;
  settings.config_file = argv[1];
  settings.program = "paths_client";
  settings.credential = assembly::own_credential();
  auto overrides = config::overrides_from_environment(assembly::whole_environment());
  if (!overrides) return fail(overrides.error());
  settings.overrides = *std::move(overrides);
  const auto process = assembly::ClientProcess::open(settings);
  if (!process) return fail(process.error());
  std::unique_ptr<client::File> file;
  std::unique_ptr<Pass> pass;
  const auto done = (*process)->run([&](client::Client& client) { return run(client, plan, file, pass); });
  return done ? 0 : fail(done.error());
}
