// SPDX-License-Identifier: Apache-2.0
// World: a whole cluster in one process, in virtual time. It starts, kills and restarts servers and clients.
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
  ConnectTimes connect;
  io::BypassPolicy bypass = io::BypassPolicy::kOff;
  bool direct = false;  // streams in bulk messages bypass the page cache
  Plant plant = Plant::kNone;
  std::size_t max_requests = rpc::ServerOptions().max_requests;  // that each server works on at the same time
  std::uint64_t features = wire::kOurFeatures;                   // older servers have fewer
  std::uint64_t rebuild_rate = 0;                                // of io servers, bytes a second; 0: no limit
  Duration rebuild_after{0};                                     // of io servers; 0: never
  std::uint32_t replicas = 1;                                    // copies of the data of new files
  std::uint32_t min_copies = 1;                                  // of them, as many as a change needs
  std::uint32_t meta_min_copies = 1;                             // of the name space, as many as a change needs
};

/// The only meta server, or the first of several.
inline constexpr ServerId kMetaServer{1};

/// One thread. The same options and the same calls give the same run, to the byte. Only one world may exist at a time
/// in a process, since a planted defect is global.
///
/// Life cycle: construct (all servers start) -> turn() or run_for(), repeatedly -> destroyed. Nothing happens between
/// these calls. Killed processes run on, cut off, until their coroutines have ended: the destructor kills all processes
/// and turns until they have ended; it aborts if one still has not after an hour of virtual time. Actions of at() that
/// are not due by then are dropped. Pointers and references to a process are valid until it ends or is killed: ask
/// server() or client() again after each turn.
class World {
 public:
  explicit World(const WorldOptions& options);
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  ~World();

  // Time.
  MonoTime now() const { return clock_.now(); }
  /// The correct wall clock, which all servers have.
  WallTime wall() const { return clock_.wall(); }
  /// Does all work that is due, or advances the clock to the next event, at most to `limit`. False: the clock is at
  /// `limit` and no work is left.
  bool turn(MonoTime limit);
  void run_for(Duration span);
  /// Calls `action` at the time `when`, outside of any process.
  void at(MonoTime when, UniqueFunction<void()> action) { actions_.emplace(std::max(when, now()), std::move(action)); }

  // Servers. All of them run from the beginning.
  std::vector<ServerId> servers() const;
  void kill_server(ServerId id, bmi::sim::Death death);
  void start_server(ServerId id);
  /// Starts an io server with one target. Only its own spate.toml has it.
  ServerId add_io_server(const WorldOptions& options);
  /// Gives an io server that is down new, empty disks.
  void replace_disks(ServerId id, const WorldOptions& options);
  /// The running process; null: it is down.
  ServerProcess* server(ServerId id);
  ServerDisks& disks(ServerId id) { return *machines_.at(id).disks; }
  std::vector<ServerId> meta_servers() const;
  /// A paused server's process does nothing, although time passes.
  void pause(ServerId id, bool is) { machines_.at(id).paused = is; }
  bool paused(ServerId id) const { return machines_.at(id).paused; }
  /// The leading meta server; if there is none, the last one that led.
  ServerId leader();
  /// Whether a meta server leads and all others hold the same, so that any one of them may lose what it has not synced.
  bool is_whole();
  coord::SimService& coordination() { return coordination_; }
  const ServerSettings& settings() const { return settings_; }

  // Clients.
  /// Starts a client on a new node of its own.
  ClientProcess& start_client();
  /// The same with other limits. `options` needs neither map nor key, but may have a user's key.
  ClientProcess& start_client(client::Options options);
  /// Starts a client on the machine of an io server. A crash of the machine ends both.
  ClientProcess& start_client_beside(ServerId server, client::Options options);
  /// The server on whose machine the client runs; nothing if it has a machine of its own.
  std::optional<ServerId> server_beside(std::uint32_t node) const;
  /// Bytes that clients have read and written by themselves.
  std::uint64_t bypassed_bytes() const { return bypassed_bytes_; }
  void kill_client(ClientProcess& client, bmi::sim::Death death);
  /// Null when the client has ended or was killed.
  ClientProcess* client(std::uint32_t node);

  bmi::sim::Fabric& fabric() { return fabric_; }
  RequestWatch& watch() { return watch_; }
  Ether ether() { return {clock_, fabric_, connect_}; }
  /// Random numbers for the world's own use.
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
  bool all_serve();
  bool step_all();
  bool is_paused(const Process& process) const;
  bool act();
  void bury_the_ended();
  void restart_the_resigned();
  MonoTime next_event_time();
  void advance_to(MonoTime when);
  trove::SimDisk* disk_of(int fd);
  LeaseMachine lease_machine();
  Result<std::size_t> read_file(std::uint32_t node, int fd, std::uint64_t offset, MutableByteView out);

  ManualClock clock_;
  SeededRandom random_;
  bmi::sim::Fabric fabric_;
  ConnectTimes connect_;
  RequestWatch watch_;
  coord::SimService coordination_;
  ServerId leader_ = kMetaServer;
  ServerSettings settings_;
  std::map<ServerId, Machine> machines_;
  std::vector<std::unique_ptr<ServerDisks>> replaced_disks_;  // dead processes may still use them
  std::uint32_t disks_made_ = 0;
  std::multimap<MonoTime, UniqueFunction<void()>> actions_;
  std::vector<std::unique_ptr<Process>> processes_;  // in the order of their start
  std::uint32_t next_client_node_ = 100;
  std::uint64_t bypassed_bytes_ = 0;
  std::map<std::uint32_t, ServerId> beside_;  // nodes of clients on servers' machines
};

}  // namespace spate::cluster
