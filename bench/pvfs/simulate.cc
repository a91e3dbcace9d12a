// SPDX-License-Identifier: Apache-2.0
// Runs the experiment in the simulation: real roles and clients in virtual time, on links of a given bandwidth. Prints
// a line of JSON for each number of servers, number of clients, and seed.
#include <fmt/core.h>

#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "log/log.h"
#include "pvfs/workload.h"
#include "tests/cluster/world.h"

namespace spate::bench {
namespace {

struct Plan {
  std::uint32_t servers = 1;
  std::uint32_t clients = 1;
  std::uint64_t bytes = 0;  // of each client
  std::uint64_t rate = 12'500'000;
  std::uint64_t seed = 1;
  std::uint64_t side = 0;  // BTIO: side of the cube of cells that clients share; 0: each client has one part
};

/// State that all clients of a run share.
struct Experiment {
  std::uint32_t opened = 0;
  std::uint32_t moved = 0;
  Result<void> first;
  std::vector<std::unique_ptr<client::File>> files;
  std::vector<std::vector<Extent>> pieces;  // by client, for BTIO
};

job::Task<void> open_one(client::Client& client, Experiment& experiment, std::size_t number) {
  auto file = co_await open_shared(client, "/shared");
  if (!file && experiment.first) experiment.first = std::move(file).error();
  if (file) experiment.files[number] = *std::move(file);
  ++experiment.opened;
}

job::Task<void> move_one(Experiment& experiment, std::size_t number, Part part) {
  auto moved = co_await move_part(*experiment.files[number], part);
  if (!moved && experiment.first) experiment.first = std::move(moved);
  ++experiment.moved;
}

job::Task<void> move_cells(Experiment& experiment, std::size_t number, bool write) {
  const std::span<const Extent> pieces = experiment.pieces[number];
  auto moved = co_await move_pieces(*experiment.files[number], pieces, write);
  if (!moved && experiment.first) experiment.first = std::move(moved);
  ++experiment.moved;
}

job::Task<void> close_one(Experiment& experiment, std::size_t number) {
  std::ignore = co_await experiment.files[number]->close();
  --experiment.opened;
}

/// Bytes a second of all clients together, from their common start to the end of the last one.
double phase(cluster::World& world, std::vector<cluster::ClientProcess*>& clients, Experiment& experiment,
             const Plan& plan, bool write) {
  experiment.moved = 0;
  const MonoTime begin = world.now();
  for (std::size_t i = 0; i < clients.size(); ++i) {
    if (plan.side > 0) {
      job::spawn(clients[i]->gate(), move_cells(experiment, i, write));
      continue;
    }
    const Part part{write, i * plan.bytes, plan.bytes, plan.servers * kStripBytes, 2};
    job::spawn(clients[i]->gate(), move_one(experiment, i, part));
  }
  while (experiment.moved < clients.size()) world.turn(MonoTime::never());
  const double seconds = std::chrono::duration<double>(world.now() - begin).count();
  if (plan.side > 0) return static_cast<double>(plan.side * plan.side * plan.side * 40) / seconds;
  return static_cast<double>(plan.bytes) * static_cast<double>(clients.size()) / seconds;
}

int run(const Plan& plan) {
  cluster::WorldOptions options;
  options.seed = plan.seed;
  options.io_servers = plan.servers;
  options.doubled = 0;
  options.disk_bytes = 1ULL << 40U;
  options.fabric.nic.bytes_per_second = plan.rate;
  options.fabric.link.latency = std::chrono::microseconds(50);
  options.fabric.link.jitter = std::chrono::microseconds(20);
  cluster::World world(options);
  Experiment experiment;
  experiment.files.resize(plan.clients);
  std::vector<cluster::ClientProcess*> clients;
  for (std::uint32_t i = 0; i < plan.clients; ++i) {
    client::Options limits;
    limits.deadline = std::chrono::minutes(30);
    limits.attempt_timeout = std::chrono::minutes(10);
    clients.push_back(&world.start_client(std::move(limits)));
    if (plan.side > 0) experiment.pieces.push_back(btio_pieces(plan.side, plan.clients, i));
    job::spawn(clients.back()->gate(), open_one(clients.back()->client(), experiment, i));
  }
  while (experiment.opened < plan.clients) world.turn(MonoTime::never());
  double write = 0;
  double read = 0;
  if (experiment.first) write = phase(world, clients, experiment, plan, true);
  if (experiment.first) read = phase(world, clients, experiment, plan, false);
  for (std::size_t i = 0; i < clients.size(); ++i) {
    if (experiment.files[i] != nullptr) job::spawn(clients[i]->gate(), close_one(experiment, i));
  }
  while (experiment.opened > 0 && experiment.first) world.turn(MonoTime::never());
  if (!experiment.first) {
    fmt::print(stderr, "pvfs_simulate: {}\n", experiment.first.error().message());
    return 1;
  }
  fmt::print("{{\"servers\": {}, \"clients\": {}, \"seed\": {}, \"write\": {:.0f}, \"read\": {:.0f}}}\n", plan.servers,
             plan.clients, plan.seed, write, read);
  std::fflush(stdout);
  return 0;
}

std::vector<std::uint32_t> numbers(const char* text) {
  std::vector<std::uint32_t> list;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');)
    list.push_back(static_cast<std::uint32_t>(std::strtoul(part.c_str(), nullptr, 10)));
  return list;
}

}  // namespace
}  // namespace spate::bench

int main(int argc, char** argv) {
  using namespace spate::bench;
  if (argc != 6 && argc != 7) {
    fmt::print(stderr,
               "usage: pvfs_simulate SERVERS,... CLIENTS,... BYTES-PER-SERVER BYTES-PER-SECOND RUNS [SIDE]\n"
               "Each client has BYTES-PER-SERVER times the number of servers; with SIDE, its cells of BTIO's cube.\n"
               "BYTES-PER-SECOND: of each link, in each direction. A disk moves 2 GB/s, processors take no time.\n");
    return 2;
  }
  std::ignore = spate::log::set_level("", spate::log::Level::error);
  int code = 0;
  const std::uint32_t runs = numbers(argv[5]).at(0);
  for (const std::uint32_t servers : numbers(argv[1])) {
    for (const std::uint32_t clients : numbers(argv[2])) {
      for (std::uint64_t seed = 1; seed <= runs && code == 0 && servers > 0 && clients > 0; ++seed) {
        code = run({servers, clients, servers * std::strtoull(argv[3], nullptr, 10),
                    std::strtoull(argv[4], nullptr, 10), seed, argc == 7 ? std::strtoull(argv[6], nullptr, 10) : 0});
      }
    }
  }
  return code;
}
