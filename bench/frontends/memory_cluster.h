// SPDX-License-Identifier: Apache-2.0
// MemoryCluster: a meta server and an io server in the client's own process, on its executor, with their stores and the
// network in memory: what a call costs besides is the front end's.
#pragma once

#include <memory>

#include "base/random.h"
#include "bmi/sim/fabric.h"
#include "client/options.h"
#include "job/network.h"
#include "job/storage.h"
#include "metrics/metrics.h"
#include "rpc/server.h"
#include "server/io/io_service.h"
#include "server/meta/background/io_servers.h"
#include "server/meta/role.h"
#include "trove/mem/mem_bytestreams.h"

namespace spate::bench {

/// Life: construct -> start() awaited -> clients by client_network() -> those are gone -> stop() awaited -> destroyed.
/// One executor, which outlives it.
class MemoryCluster {
 public:
  explicit MemoryCluster(job::Executor& executor);
  MemoryCluster(const MemoryCluster&) = delete;
  MemoryCluster& operator=(const MemoryCluster&) = delete;
  ~MemoryCluster();

  job::Task<Result<void>> start();
  job::Task<Result<void>> stop();

  /// Map and key.
  client::Options client_options() const;
  /// The one client's; outlived by this.
  std::unique_ptr<bmi::Network> client_network();

 private:
  /// Packets arrive in the next turn: the fabric's own time does not matter.
  class FabricSource final : public job::Source {
   public:
    FabricSource(bmi::sim::Fabric& fabric, job::Executor& executor) : fabric_(fabric), executor_(executor) {
      executor_.add_source(*this);
    }
    FabricSource(const FabricSource&) = delete;
    FabricSource& operator=(const FabricSource&) = delete;
    ~FabricSource() override { executor_.remove_source(*this); }
    std::size_t poll() override;
    int wait_descriptor() const override { return -1; }
    bool prepare_to_wait() override { return fabric_.next_event_time() == MonoTime::never(); }

   private:
    bmi::sim::Fabric& fabric_;
    job::Executor& executor_;
  };

  /// Network, records and rpc server of one server.
  struct Host {
    Host(MemoryCluster& cluster, std::uint32_t number);
    metrics::Registry metrics;
    std::unique_ptr<bmi::Network> network;
    std::unique_ptr<job::NetworkContext> context;
    std::unique_ptr<trove::Keyval> keyval;
    std::unique_ptr<job::KeyvalContext> records;
    std::unique_ptr<rpc::Server> server;
  };

  std::unique_ptr<bmi::Network> attach(std::uint32_t node);

  job::Executor& executor_;
  SeededRandom random_;
  ManualClock fabric_clock_;
  bmi::sim::Fabric fabric_;
  FabricSource source_;
  Host meta_;
  Host io_;
  trove::MemBytestreams streams_;
  job::StorageContext storage_;
  std::unique_ptr<meta::IoServers> io_servers_;
  std::unique_ptr<meta::MetaRole> meta_role_;
  std::unique_ptr<io::IoService> io_service_;
};

}  // namespace spate::bench
