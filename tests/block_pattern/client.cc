// SPDX-License-Identifier: Apache-2.0
// block_pattern_client SPATE.TOML TABLE KEY=VALUE...: writes its own cells of the files (blocks.h), reads all cells,
// each time by a random one of `paths`, and checks each word. At a wrong word it prints WRONG and ends with 1; else
// it prints one line of JSON: how often each kind of operation had which outcome on which path.
//   client=I, clients=N  it writes every Nth cell from the Ith on; clients=0: it checks each cell once by each path
//   seconds=S, least=N   it works for S seconds and until N operations are done; also: seed=N, paths=auto,buffered,...
//   drop=N               a planted defect: its Nth write is counted as acknowledged, but not made
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "assembly/client_process.h"
#include "assembly/locate.h"
#include "base/random.h"
#include "base/unique_fd.h"
#include "job/gate.h"
#include "tests/block_pattern/blocks.h"

namespace spate::block_pattern {
namespace {

constexpr std::size_t kLanes = 4;
constexpr std::uint64_t kMostRead = std::uint64_t{300} * 1024;

struct Plan {
  std::uint64_t client = 0;
  std::uint64_t clients = 0;
  std::uint64_t seconds = 0;
  std::uint64_t seed = 0;
  std::uint64_t drop = 0;
  std::uint64_t least = 0;
  std::vector<std::pair<std::string, wire::DataPath>> paths;
};

/// The files, each opened for one data path, which all requests on that open must use.
struct Opened {
  std::string path;
  std::vector<std::unique_ptr<client::File>> files;
};

struct State {
  State(const Plan& its_plan, Table& its_table, job::Executor& its_executor)
      : plan(its_plan),
        table(its_table),
        executor(its_executor),
        random(its_plan.seed),
        end(its_executor.now() + std::chrono::seconds(its_plan.seconds)) {}
  const Plan& plan;
  Table& table;
  job::Executor& executor;
  SeededRandom random;
  MonoTime end;
  std::vector<Opened> opened;
  std::array<std::array<bool, kMostCells>, kShapes.size()> busy{};  // this client writes the cell now
  std::map<std::string, std::uint64_t> counts;
  std::uint64_t writes = 0;
  std::uint64_t operations = 0;
  bool wrong = false;

  void count(const char* what, const std::string& path, Errc code) {
    ++operations, ++counts[std::string(what) + " " + path + " " + std::string(name(code))];
  }
  bool over() const { return wrong || (executor.now() >= end && operations >= plan.least); }
};

void tell(State& state, const std::string& path, std::uint64_t file, const Wrong& wrong) {
  state.wrong = true;
  std::printf(
      "WRONG file %llu offset %llu by %s: found %016llx, allowed are versions %u to %u, the last of which is %016llx\n",
      static_cast<unsigned long long>(file), static_cast<unsigned long long>(wrong.offset), path.c_str(),
      static_cast<unsigned long long>(wrong.found), wrong.allowed.least, wrong.allowed.most,
      static_cast<unsigned long long>(word(file, wrong.offset / 8, wrong.allowed.most)));
  std::fflush(stdout);
}

/// Reads a range and checks it. Bytes beyond the end of the file count as zeros, since they were never written.
job::Task<void> read(State& state, const Opened& opened, std::uint64_t number, std::uint64_t offset,
                     std::uint64_t size) {
  const Shape& shape = kShapes[number];
  std::vector<Allowed> allowed;
  const auto least_of = [&](std::uint64_t cell, std::uint64_t, std::uint64_t) {
    allowed.push_back({state.table.cells[number][cell].acknowledged.load(), 0});
  };
  each_cell(shape, offset, offset + size, least_of);
  Bytes data(size);
  const auto got = co_await opened.files[number]->read(offset, data);
  state.count("read", opened.path, got ? Errc::kOk : got.error().code());
  if (!got) co_return;
  std::fill(data.begin() + static_cast<std::ptrdiff_t>(*got), data.end(), std::byte{0});
  std::size_t next = 0;
  each_cell(shape, offset, offset + size, [&](std::uint64_t cell, std::uint64_t from, std::uint64_t to) {
    Allowed& versions = allowed[next++];
    versions.most = state.table.cells[number][cell].issued.load();
    const auto wrong = check(ByteView(data).subspan(from - offset, to - from), number, from, versions);
    if (wrong && !state.wrong) tell(state, opened.path, number, *wrong);
  });
}

/// After these errors the write may still arrive. The cell is then retired, since its right content is not known.
bool may_still_arrive(Errc code) {
  return code == Errc::kTimeout || code == Errc::kUnreachable || code == Errc::kConnectionLost ||
         code == Errc::kCancelled || code == Errc::kSessionFenced;
}

job::Task<void> write(State& state, const Opened& opened, std::uint64_t number, std::uint64_t number_in_file) {
  const Shape& shape = kShapes[number];
  Cell& cell = state.table.cells[number][number_in_file];
  bool& busy = state.busy[number][number_in_file];
  if (busy || cell.retired.load() != 0) co_return;
  busy = true;
  const std::uint32_t version = cell.issued.load() + 1;
  Bytes data(shape.cell_bytes);
  stamp(data, number, number_in_file * shape.cell_bytes, version);
  cell.issued.store(version);
  Result<void> done;
  if (++state.writes != state.plan.drop)
    done = co_await opened.files[number]->write(number_in_file * shape.cell_bytes, data);
  state.count("write", opened.path, done ? Errc::kOk : done.error().code());
  if (done)
    cell.acknowledged.store(version);
  else if (may_still_arrive(done.error().code()))
    cell.retired.store(1);
  busy = false;
}

job::Task<void> sync(State& state, const Opened& opened, std::uint64_t number) {
  const auto done = co_await opened.files[number]->sync();
  state.count("sync", opened.path, done ? Errc::kOk : done.error().code());
}

job::Task<void> lane(State& state) {
  while (!state.over()) {
    const Opened& opened = state.opened[state.random.below(state.opened.size())];
    const std::uint64_t number = state.random.below(kShapes.size());
    const Shape& shape = kShapes[number];
    const std::uint64_t kind = state.random.below(100);
    if (kind < 3) {
      co_await sync(state, opened, number);
    } else if (kind < 48 && opened.path != "cached") {
      const std::uint64_t own =
          state.random.below((shape.cells - state.plan.client + state.plan.clients - 1) / state.plan.clients);
      co_await write(state, opened, number, state.plan.client + own * state.plan.clients);
    } else {
      const std::uint64_t size = 8 * (1 + state.random.below(std::min(kMostRead, shape.size()) / 8));
      co_await read(state, opened, number, 8 * state.random.below((shape.size() - size) / 8 + 1), size);
    }
  }
}

job::Task<void> check_all(State& state) {
  for (const Opened& opened : state.opened) {
    for (std::uint64_t number = 0; number < kShapes.size(); ++number) {
      for (std::uint64_t offset = 0; offset < kShapes[number].size() && !state.wrong; offset += kMostRead) {
        co_await read(state, opened, number, offset, std::min(kMostRead, kShapes[number].size() - offset));
      }
    }
  }
}

job::Task<Result<void>> open_all(client::Client& client, State& state) {
  client::NewObject object;
  object.attributes.mode = 0644;
  for (const auto& [path_name, path] : state.plan.paths) {
    Opened opened{path_name, {}};
    for (std::uint64_t number = 0; number < kShapes.size(); ++number) {
      const std::string file = "/blocks-" + std::to_string(number);
      SPATE_CO_TRY(auto one,
                   co_await client.create(client::path_from_root(file), wire::kOpenRead | wire::kOpenWrite, object));
      one->force_path(path);
      opened.files.push_back(std::move(one));
    }
    state.opened.push_back(std::move(opened));
  }
  co_return Result<void>();
}

job::Task<Result<void>> run(client::Client& client, State& state) {
  SPATE_CO_TRY(std::ignore, co_await open_all(client, state));
  if (state.plan.clients == 0) {
    co_await check_all(state);
  } else {
    job::Gate gate(state.executor);
    for (std::size_t i = 0; i < kLanes; ++i) job::spawn(gate, lane(state));
    co_await gate.close();
  }
  for (Opened& opened : state.opened) {
    for (auto& file : opened.files) {
      const auto closed = co_await file->close();
      state.count("close", opened.path, closed ? Errc::kOk : closed.error().code());
    }
  }
  co_return Result<void>();
}

bool take(Plan& plan, const std::string& argument) {
  const std::map<std::string, std::uint64_t*> numbers = {{"client", &plan.client},   {"clients", &plan.clients},
                                                         {"seconds", &plan.seconds}, {"seed", &plan.seed},
                                                         {"drop", &plan.drop},       {"least", &plan.least}};
  const std::size_t at = argument.find('=');
  if (at == std::string::npos) return false;
  const std::string key = argument.substr(0, at);
  std::string value = argument.substr(at + 1);
  if (numbers.contains(key)) {
    *numbers.at(key) = std::strtoull(value.c_str(), nullptr, 10);
    return true;
  }
  for (std::size_t comma = 0; key == "paths" && comma != std::string::npos; value.erase(0, comma + 1)) {
    comma = value.find(',');
    const std::string one = value.substr(0, comma);
    const auto path = wire::data_path_of(one);
    if (!path) return false;
    plan.paths.emplace_back(one, *path);
    if (comma == std::string::npos) return true;
  }
  return false;
}

int fail(const std::string& what) {
  std::printf("FAILED %s\n", what.c_str());
  return 2;
}

int work(const char* config, Table& table, const Plan& plan) {
  assembly::ClientSettings settings;
  settings.config_file = config;
  settings.program = "block_pattern_client";
  settings.credential = assembly::own_credential();
  auto overrides = config::overrides_from_environment(assembly::whole_environment());
  if (!overrides) return fail(overrides.error().message());
  settings.overrides = *std::move(overrides);
  const auto process = assembly::ClientProcess::open(settings);
  if (!process) return fail(process.error().message());
  State state(plan, table, (*process)->executor());
  const auto done = (*process)->run([&](client::Client& client) { return run(client, state); });
  if (!done) return fail(done.error().message());
  if (state.wrong) return 1;
  std::string line;
  for (const auto& [what, times] : state.counts)
    line += (line.empty() ? "{\"" : ", \"") + what + "\": " + std::to_string(times);
  std::printf("%s}\n", line.empty() ? "{" : line.c_str());
  return 0;
}

}  // namespace
}  // namespace spate::block_pattern

int main(int argc, char** argv) {
  using namespace spate;
  block_pattern::Plan plan;
  bool good = argc > 3;
  for (int i = 3; i < argc && good; ++i) good = block_pattern::take(plan, argv[i]);
  if (!good || plan.paths.empty() || (plan.clients > 0 && plan.client >= plan.clients) || plan.clients > 12) return 2;
  const UniqueFd fd(::open(argv[2], O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (fd.get() < 0 || ::ftruncate(fd.get(), sizeof(block_pattern::Table)) != 0)
    return block_pattern::fail("the table cannot be opened");
  void* const memory = ::mmap(nullptr, sizeof(block_pattern::Table), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return block_pattern::fail("the table cannot be mapped");
  return block_pattern::work(argv[1], *static_cast<block_pattern::Table*>(memory), plan);
}
