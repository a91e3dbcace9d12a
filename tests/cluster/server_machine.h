// SPDX-License-Identifier: Apache-2.0
// The disks of a host, and ServerProcess: the server processes that run on it one after the other.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "assembly/meta_group.h"
#include "coord/sim/sim_coordinator.h"
#include "job/event.h"
#include "job/storage.h"
#include "metrics/metrics.h"
#include "rpc/server.h"
#include "server/io/io_service.h"
#include "server/meta/background/io_servers.h"
#include "server/meta/role.h"
#include "tests/cluster/mortal_bytestreams.h"
#include "tests/cluster/plants.h"
#include "tests/cluster/process.h"
#include "tests/cluster/watch.h"
#include "trove/kvsim/sim_keyval.h"
#include "trove/sim/sim_bytestreams.h"

namespace spate::cluster {

/// The settings of all servers of a file system.
struct ServerSettings {
  ClusterMap map;
  Key client_key{};
  Key server_key{};
  std::uint64_t strip_bytes = 4096;
  Duration meta_sync = std::chrono::milliseconds(100);
  Duration session_lease = std::chrono::seconds(3);
  Duration capability_life = std::chrono::hours(1);
  io::BypassPolicy bypass = io::BypassPolicy::kOff;
  flow::PolicyOptions policy;
  Plant plant = Plant::kNone;
  std::uint64_t features = wire::kOurFeatures;  // the protocol features that the servers know
  std::size_t max_requests = rpc::ServerOptions().max_requests;
  std::uint64_t rebuild_rate = 0;
  Duration rebuild_after{0};
  std::uint32_t replicas = 1;                 // of the data of new files
  std::uint32_t min_copies = 1;               // as many of them as a change needs
  std::uint32_t meta_min_copies = 1;          // as many copies of the name space as a change needs
  coord::SimService* coordination = nullptr;  // for several meta servers; null: there is one
  RequestWatch* watch = nullptr;              // learns of every request; never null, outlives the servers
};

/// The machine's disks, which survive its processes.
struct ServerDisks {
  std::vector<std::unique_ptr<trove::SimDisk>> targets;  // of an io server
  trove::SimKeyvalDisk records;
  std::uint64_t boot = 1;
  bool formatted = false;  // an io server has served from these disks
};

/// A process of `spated`, assembled from the roles as in assembly/server_process.cc.
class ServerProcess final : public Process {
 public:
  ServerProcess(Ether ether, ServerDisks& disks, const ServerSettings& settings, ServerEntry entry, std::uint64_t seed);
  ~ServerProcess() override;

  void die() override;
  bool ended() const override { return ended_ && gate_.count() == 0; }
  MonoTime next_event_time() const override { return keyval_->next_event_time(); }
  void run_until(MonoTime when) override { keyval_->run_until(when); }
  /// Whether it has read its stores and answers. If failed(), it never will, and must be restarted.
  bool serving() const { return serving_; }
  bool failed() const { return failed_; }
  /// Whether it is the only meta server, or the leader of several.
  bool leads() const { return serving_ && leads_; }
  /// Whether this meta server of several has led or has failed, and must therefore be restarted.
  bool is_to_restart() const { return restart_; }
  /// Hands the lead over and ends, as after `systemctl stop`.
  void end_in_order() { job::spawn(gate_, hand_over()); }
  /// Then it may end: nobody waits for it.
  bool handed_over() const { return handed_over_; }
  assembly::MetaGroup* group() { return group_.get(); }
  meta::MetaRole* meta() { return meta_.get(); }
  io::IoService* io() { return io_.get(); }
  Incarnation incarnation() const { return incarnation_; }

 private:
  struct Target {
    std::unique_ptr<MortalBytestreams> mortal;
    std::unique_ptr<trove::Bytestreams> planted;  // null: no plant
    std::unique_ptr<job::StorageContext> context;
  };
  void open_stores();
  void open_group(trove::Keyval& store);
  job::KeyvalContext& records() { return group_ != nullptr ? group_->records() : *records_; }
  void make_meta();
  job::Task<Result<void>> lead();
  job::Task<void> start_group();
  job::Task<void> hand_over();
  void make_io();
  job::Task<void> start();
  job::Task<void> stop();

  const ServerSettings& settings_;
  const ServerEntry entry_;
  ServerDisks& disks_;
  const Incarnation incarnation_;
  metrics::Registry metrics_;
  job::Gate gate_;
  job::Event started_;
  std::unique_ptr<trove::SimKeyval> keyval_;
  std::unique_ptr<trove::Keyval> planted_keyval_;
  std::unique_ptr<job::KeyvalContext> records_;
  std::unique_ptr<assembly::MetaGroup> group_;  // set in a meta server of several
  std::vector<Target> targets_;
  std::unique_ptr<meta::ChannelIoServers> io_servers_;
  std::unique_ptr<meta::IoServers> planted_io_servers_;
  std::unique_ptr<meta::Leases> planted_leases_;
  std::unique_ptr<meta::MetaRole> meta_;
  std::unique_ptr<io::IoService> io_;
  std::vector<std::unique_ptr<rpc::Service>> wrapped_;
  std::unique_ptr<rpc::Server> server_;
  bool serving_ = false;
  bool failed_ = false;
  bool leads_ = false;
  bool restart_ = false;
  bool handed_over_ = false;
  bool ended_ = false;
};

}  // namespace spate::cluster
