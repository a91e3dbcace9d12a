// SPDX-License-Identifier: Apache-2.0
// World: an io server and its clients in one process, for tests: over the simulated network in virtual time, or over
// TCP.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bmi/sim/fabric.h"
#include "job/gate.h"
#include "job/network.h"
#include "job/storage.h"
#include "rpc/server.h"
#include "server/io/io_service.h"
#include "trove/fault/faulty_bytestreams.h"
#include "trove/kvfault/fault_keyval.h"
#include "trove/mem/mem_store.h"

namespace spate::io::testing {

inline constexpr FsId kFs{0xF5};

struct WorldOptions {
  bool tcp = false;
  std::size_t targets = 2;
  std::uint64_t capacity_bytes = 1ULL << 30U;  // of each target
  std::uint32_t direct_alignment = 0;          // of each target; 0: no direct access
  std::size_t max_requests = 1024;             // under way at once
  bool allow_version_1 = false;                // clients of before the present handshake are let in
  IoOptions io;                                // fs and key are filled in
  bmi::sim::FabricOptions fabric;
  bmi::NetworkOptions network;
  std::uint64_t seed = 1;
};

/// One thread. Clients (tests/io/client.h) die before it.
class World {
 public:
  explicit World(WorldOptions options = {});
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  static Key server_key();
  static Key client_key();
  static TargetId target(std::size_t index) { return TargetId(static_cast<std::uint32_t>(256 + index)); }

  /// Drives everything until `task` has ended. In virtual time a task that never ends fails the process.
  template <typename T>
  T run(job::Task<T> task, Duration at_most = std::chrono::hours(10));
  /// Lets everything go on for so long (virtual time only).
  void pass(Duration span);
  void spawn(job::Task<void> task) { job::spawn(*gate_, std::move(task)); }

  /// The server process ends in order and another one starts on what it has stored; on a machine that was started anew.
  void restart(bool machine = false);

  /// A process's network on a node of its own.
  std::unique_ptr<bmi::Network> make_network();
  bmi::sim::Fabric& fabric() { return *fabric_; }
  std::uint32_t last_node() const { return nodes_; }

  job::Executor& executor() { return *executor_; }
  /// How many turns of the loop had something to do (virtual time only).
  std::uint64_t turns() const { return turns_; }
  Clock& clock() { return *clock_; }
  Random& random() { return random_; }
  const std::string& url() const { return url_; }
  IoService& io() { return *io_; }
  trove::FaultyBytestreams& storage(std::size_t index) { return *storages_[index]->streams; }
  trove::FaultKeyval& records() { return *faulty_keyval_; }
  trove::MemStore& store(std::size_t index) { return *storages_[index]->store; }
  /// Bytes of the server's buffers for bulk data that are in use now.
  std::uint64_t buffers_used() const { return metric("spate_flow_buffers_used_bytes"); }
  /// Sum of the metrics of that name.
  std::uint64_t metric(std::string_view name) const;

 private:
  struct Storage {
    std::shared_ptr<trove::MemStore> store;
    std::unique_ptr<trove::FaultyBytestreams> streams;
    std::unique_ptr<job::StorageContext> context;
  };
  void start_server();
  void stop_server();
  void turn();
  template <typename T>
  static job::Task<void> keep(job::Task<T> task, std::optional<T>& out);

  WorldOptions options_;
  std::unique_ptr<Clock> clock_;
  ManualClock* manual_ = nullptr;  // null: real time
  SeededRandom random_;
  metrics::Registry metrics_;
  std::unique_ptr<bmi::sim::Fabric> fabric_;
  std::unique_ptr<job::Executor> executor_;
  std::unique_ptr<job::Gate> gate_;
  std::uint32_t nodes_ = 0;
  std::uint64_t turns_ = 0;
  std::unique_ptr<bmi::Network> network_;
  std::unique_ptr<job::NetworkContext> context_;
  std::unique_ptr<trove::Keyval> keyval_;
  std::unique_ptr<trove::FaultKeyval> faulty_keyval_;
  std::unique_ptr<job::KeyvalContext> keyval_context_;
  std::vector<std::unique_ptr<Storage>> storages_;
  std::unique_ptr<IoService> io_;
  std::unique_ptr<rpc::Server> server_;
  std::string url_;
};

template <typename T>
job::Task<void> World::keep(job::Task<T> task, std::optional<T>& out) {
  out.emplace(co_await std::move(task));
}

template <typename T>
T World::run(job::Task<T> task, Duration at_most) {
  if (manual_ == nullptr) return executor_->run(std::move(task));
  job::Gate gate(*executor_);
  std::optional<T> out;
  job::spawn(gate, keep(std::move(task), out));
  const MonoTime limit = clock_->now() + at_most;
  while (gate.count() > 0) {
    turn();
    SPATE_CHECK(clock_->now() < limit);  // it hangs
  }
  return *std::move(out);
}

}  // namespace spate::io::testing
