// SPDX-License-Identifier: Apache-2.0
// MemoryCluster: a meta server and an io server in the client's own process, on its executor, with stores and network
// in memory. So most of a call's remaining time is spent in the front end.
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
#include "trove/mem/mem_store.h"

namespace spate::bench {

/// Life cycle: construct -> start() awaited -> client_network() and a client -> both destroyed -> stop() awaited ->
/// destroyed. One executor, which outlives it.
class MemoryCluster {
 public:
  explicit MemoryCluster(job::Executor& executor);
  MemoryCluster(const MemoryCluster&) = delete;
  MemoryCluster& operator=(const MemoryCluster&) = delete;
  ~MemoryCluster();

  job::Task<Result<void>> start();
  job::Task<Result<void>> stop();

  /// The cluster map and the client key.
  client::Options client_options() const;
  /// The network for the one client. The cluster outlives it.
  std::unique_ptr<bmi::Network> client_network();

 private:
  /// Delivers packets in the next turn, whatever the simulated time of their arrival.
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

  /// The network, records and rpc server of one simulated host.
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
