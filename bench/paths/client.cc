// SPDX-License-Identifier: Apache-2.0
// paths_client SPATE.TOML PATH write|read|random REQUEST DEPTH SIZE [auto|buffered|cached|direct|bypass]
// One pass over a file by one data path. Prints JSON: bytes, seconds, processor seconds of this process, latencies in us.
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "assembly/client_process.h"
#include "assembly/locate.h"
#include "job/gate.h"

namespace spate {
namespace {

struct Plan {
  std::string path;
  std::string work;
  std::uint64_t request = 0;
  std::uint64_t depth = 0;
  std::uint64_t size = 0;
  wire::DataPath forced = wire::DataPath::kAutomatic;
};

struct Pass {
  client::File& file;
  const Plan& plan;
  Clock& clock;
  SeededRandom random{7};
  std::uint64_t next = 0;
  Result<void> first;
  std::vector<double> latencies_us;
};

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

job::Task<void> lane(Pass& pass, MutableByteView buffer) {
  while (pass.first && pass.next < pass.plan.size) {
    std::uint64_t offset = pass.next;
    pass.next += pass.plan.request;
    if (pass.plan.work == "random") offset = pass.random.below(pass.plan.size / pass.plan.request) * pass.plan.request;
    const MonoTime begin = pass.clock.now();
    Result<void> done;
    if (pass.plan.work == "write") {
      done = co_await pass.file.write(offset, buffer);
    } else {
      const auto got = co_await pass.file.read(offset, buffer);
      if (!got) done = got.error();
      else if (*got != buffer.size()) done = Error(Errc::kIoError, "the file is too short");
    }
    pass.latencies_us.push_back(static_cast<double>((pass.clock.now() - begin).count()) / 1e3);
    if (!done && pass.first) pass.first = std::move(done);
  }
}

job::Task<Result<void>> run(client::Client& client, Pass*& kept, const Plan& plan, std::unique_ptr<client::File>& file,
                            std::unique_ptr<Pass>& pass) {
  client::NewObject object;
  object.attributes.mode = 0644;
  SPATE_CO_TRY(file, co_await client.create(client::path_from_root(plan.path), wire::kOpenRead | wire::kOpenWrite, object));
  // What a first request costs besides (greeting, a lease) is not what is measured.
  Bytes one(plan.request, std::byte{1});
  if (plan.work == "write") {
    SPATE_CO_TRY(std::ignore, co_await file->write(0, one));
  }
  file->force_path(plan.forced);
  if (plan.work == "write") {
    SPATE_CO_TRY(std::ignore, co_await file->write(0, one));
  } else {
    const auto got = co_await file->read(0, one);
    if (!got) co_return got.error();
  }
  pass = std::make_unique<Pass>(Pass{*file, plan, client.cluster().executor().clock(), SeededRandom(7), 0, {}, {}});
  kept = pass.get();
  std::vector<Bytes> buffers(plan.depth, Bytes(plan.request, std::byte{42}));
  std::printf("go\n");  // who watches the server begins here
  std::fflush(stdout);
  if (std::getchar() == EOF) co_return Errc::kCancelled;
  const double cpu = cpu_seconds();
  const MonoTime begin = pass->clock.now();
  job::Gate gate(client.cluster().executor());
  for (Bytes& buffer : buffers) job::spawn(gate, lane(*pass, buffer));
  co_await gate.close();
  const double seconds = static_cast<double>((pass->clock.now() - begin).count()) / 1e9;
  const double used = cpu_seconds() - cpu;
  if (!pass->first) co_return pass->first.error();
  auto& all = pass->latencies_us;
  std::sort(all.begin(), all.end());
  double sum = 0;
  for (const double one_us : all) sum += one_us;
  std::printf("{\"bytes\": %llu, \"seconds\": %.6f, \"cpu\": %.6f, \"mean_us\": %.1f, \"p99_us\": %.1f, \"max_us\": %.1f, \"bypassed\": %llu}\n",
              static_cast<unsigned long long>(all.size() * plan.request), seconds, used, sum / static_cast<double>(all.size()),
              all[all.size() * 99 / 100], all.back(), static_cast<unsigned long long>(file->bypassed_bytes()));
  std::fflush(stdout);
  if (std::getchar() == EOF) co_return Errc::kCancelled;  // the server has been looked at
  auto closed = co_await file->close();
  if (!closed) co_return std::move(closed).error();
  co_return Result<void>();
}

int fail(const Error& error) {
  std::fprintf(stderr, "paths_client: %s\n", error.message().c_str());
  return 1;
}

}  // namespace
}  // namespace spate

int main(int argc, char** argv) {
  using namespace spate;
  if (argc < 7) return 2;
  Plan plan{argv[2], argv[3], std::strtoull(argv[4], nullptr, 10), std::strtoull(argv[5], nullptr, 10), std::strtoull(argv[6], nullptr, 10), {}};
  if (plan.request == 0 || plan.depth == 0 || plan.size < plan.request) return 2;
  const std::string_view names[] = {"auto", "buffered", "cached", "direct", "bypass"};
  for (std::uint8_t i = 0; argc > 7 && i < 5; ++i) {
    if (names[i] == argv[7]) plan.forced = static_cast<wire::DataPath>(i);
  }
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
  Pass* kept = nullptr;
  const auto done = (*process)->run([&](client::Client& client) { return run(client, kept, plan, file, pass); });
  return done ? 0 : fail(done.error());
}
