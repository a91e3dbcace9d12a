// SPDX-License-Identifier: Apache-2.0
// World: a whole cluster in one process and in virtual time. Servers and clients come, die and come back here.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "tests/cluster/client_process.h"
#include "tests/cluster/server_machine.h"

namespace spate::cluster {

struct WorldOptions {
  std::uint64_t seed = 1;
  std::uint32_t meta_servers = 1;
  std::uint32_t io_servers = 3;
  /// The first `doubled` io servers have two storage devices.
  std::uint32_t doubled = 1;
  Duration meta_sync = std::chrono::milliseconds(100);
  Duration session_lease = std::chrono::seconds(3);
  Duration capability_life = std::chrono::hours(1);
  Duration sync_latency = std::chrono::microseconds(500);  // of a disk
  std::uint64_t disk_bytes = 1ULL << 30U;
  bmi::sim::FabricOptions fabric;
  io::BypassPolicy bypass = io::BypassPolicy::kOff;
  bool direct = false;  // streams in bulk messages go past the page cache
  Plant plant = Plant::kNone;
  std::size_t max_requests = rpc::ServerOptions().max_requests;  // worked on at once by each server
  std::uint64_t features = wire::kOurFeatures;                   // those of older servers are fewer
  std::uint32_t replicas = 1;                                    // of the data of new files
};

/// The meta server, or the first of several.
inline constexpr ServerId kMetaServer{1};

/// One thread. The same options and the same calls give the same run, to the byte.
class World {
 public:
  explicit World(const WorldOptions& options);
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  ~World();

  // Time.
  MonoTime now() const { return clock_.now(); }
  /// The file system's clock: the servers' are right.
  WallTime wall() const { return clock_.wall(); }
  /// Does what is to be done at this instant, or goes to the next one, but not beyond `limit`. False: the clock stands
  /// at `limit` and there is nothing more to be done.
  bool turn(MonoTime limit);
  void run_for(Duration span);
  /// Runs `action` at `when`, outside of everything else.
  void at(MonoTime when, UniqueFunction<void()> action) { actions_.emplace(std::max(when, now()), std::move(action)); }

  // Servers. All of them run from the beginning.
  std::vector<ServerId> servers() const;
  void kill_server(ServerId id, bmi::sim::Death death);
  void start_server(ServerId id);
  /// Starts an io server with one target that no spate.toml but its own names.
  ServerId add_io_server(const WorldOptions& options);
  /// Of an io server that is down: what it starts with is empty, and is made anew.
  void replace_disks(ServerId id, const WorldOptions& options);
  /// Null while it is down.
  ServerProcess* server(ServerId id);
  ServerDisks& disks(ServerId id) { return *machines_.at(id).disks; }
  std::vector<ServerId> meta_servers() const;
  /// Its process does nothing, and time passes for it all the same.
  void pause(ServerId id, bool is) { machines_.at(id).paused = is; }
  bool paused(ServerId id) const { return machines_.at(id).paused; }
  /// The meta server that leads, or that was the last one to lead.
  ServerId leader();
  /// One of several leads, and all others hold what it holds.
  bool is_whole();
  coord::SimService& coordination() { return coordination_; }
  const ServerSettings& settings() const { return settings_; }

  // Clients.
  /// On a node of its own that no process has been on.
  ClientProcess& start_client();
  /// The same with limits of its own; `options` needs neither map nor key.
  ClientProcess& start_client(client::Options options);
  /// On the machine of an io server; it goes down with that.
  ClientProcess& start_client_beside(ServerId server, client::Options options);
  /// The server whose machine a client runs on; nothing for one with a machine of its own.
  std::optional<ServerId> server_beside(std::uint32_t node) const;
  /// Read and written by clients themselves.
  std::uint64_t bypassed_bytes() const { return bypassed_bytes_; }
  void kill_client(ClientProcess& client, bmi::sim::Death death);
  /// Null once it has ended or was killed.
  ClientProcess* client(std::uint32_t node);

  bmi::sim::Fabric& fabric() { return fabric_; }
  RequestWatch& watch() { return watch_; }
  Ether ether() { return {clock_, fabric_}; }
  /// For what the world itself draws.
  Random& random() { return random_; }

 private:
  struct Machine {
    ServerEntry entry;
    std::unique_ptr<ServerDisks> disks;
    ServerProcess* running = nullptr;
    bool paused = false;
  };
  ClusterMap make_map(const WorldOptions& options) const;
  void make_machine(const ServerEntry& entry, const WorldOptions& options);
  std::unique_ptr<ServerDisks> make_disks(const ServerEntry& entry, const WorldOptions& options);
  bool step_all();
  bool is_paused(const Process& process) const;
  bool act();
  void bury_the_ended();
  void restart_the_resigned();
  MonoTime next_event_time();
  void advance_to(MonoTime when);
  trove::SimDisk* disk_of(int fd);
  LentMachine lent_machine();
  Result<std::size_t> read_file(std::uint32_t node, int fd, std::uint64_t offset, MutableByteView out);

  ManualClock clock_;
  SeededRandom random_;
  bmi::sim::Fabric fabric_;
  RequestWatch watch_;
  coord::SimService coordination_;
  ServerId leader_ = kMetaServer;
  ServerSettings settings_;
  std::map<ServerId, Machine> machines_;
  std::vector<std::unique_ptr<ServerDisks>> replaced_disks_;  // a process that has died may not have ended yet
  std::uint32_t disks_made_ = 0;
  std::multimap<MonoTime, UniqueFunction<void()>> actions_;
  std::vector<std::unique_ptr<Process>> processes_;  // in the order of their start
  std::uint32_t next_client_node_ = 100;
  std::uint64_t bypassed_bytes_ = 0;
  std::map<std::uint32_t, ServerId> beside_;  // clients' nodes, those on servers' machines
};

}  // namespace spate::cluster
