// SPDX-License-Identifier: Apache-2.0
#include "frontends/memory_cluster.h"

#include "bmi/sim/fabric.h"
#include "bmi/sim/network_interface.h"
#include "trove/kvmem/memory_keyval.h"

namespace spate::bench {
namespace {

constexpr FsId kFs{0xFACE};
constexpr std::uint32_t kMetaServer = 1;
constexpr std::uint32_t kIoServer = 2;
constexpr std::uint32_t kClient = 3;
constexpr std::uint64_t kStoreBytes = 4ULL << 30U;

Key key_of(std::uint8_t byte) {
  Key key;
  key.fill(static_cast<std::byte>(byte));
  return key;
}

Key client_key() { return key_of(1); }
Key server_key() { return key_of(2); }

std::string url_of(std::uint32_t node) { return bmi::sim::url_of({node, 0}); }
TargetId the_target() { return target_id(ServerId(kIoServer), 0); }

ClusterMap the_map() {
  ClusterMap map;
  map.fs = kFs;
  map.servers.push_back({ServerId(kMetaServer), {url_of(kMetaServer)}, {true, false}, {}});
  map.servers.push_back({ServerId(kIoServer), {url_of(kIoServer)}, {false, true}, {the_target()}});
  return map;
}

bmi::sim::FabricOptions fabric_options() {
  bmi::sim::FabricOptions options;
  options.link.latency = Duration(0);
  options.chunk_bytes = 1U << 20U;
  options.immediate_per_mille = 1000;
  return options;
}

}  // namespace

std::size_t MemoryCluster::FabricSource::poll() {
  std::size_t delivered = 0;
  while (fabric_.deliver_next()) ++delivered;
  return delivered;
}

MemoryCluster::Host::Host(MemoryCluster& cluster, std::uint32_t number) {
  network = cluster.attach(number);
  context = std::make_unique<job::NetworkContext>(*network, cluster.executor_);
  SPATE_CHECK(network->listen(url_of(number), context->id()).has_value());
  keyval = trove::make_memory_keyval();
  records = std::make_unique<job::KeyvalContext>(*keyval, cluster.executor_);
  rpc::ServerOptions options;
  options.fs = kFs;
  options.server = ServerId(number);
  options.incarnation = Incarnation(number);
  options.client_key = client_key();
  options.server_key = server_key();
  server = std::make_unique<rpc::Server>(options, *context, cluster.random_, metrics);
}

MemoryCluster::MemoryCluster(job::Executor& executor)
    : executor_(executor),
      random_(1),
      fabric_(fabric_clock_, random_, fabric_options()),
      source_(fabric_, executor),
      meta_(*this, kMetaServer),
      io_(*this, kIoServer),
      streams_(std::make_shared<trove::MemStore>(kStoreBytes)),
      storage_(streams_, executor) {
  meta::IoServersOptions servers;
  servers.map = the_map();
  servers.server_key = server_key();
  io_servers_ = std::make_unique<meta::ChannelIoServers>(servers, *meta_.context, random_);
  meta::MetaOptions options;
  options.fs = kFs;
  options.server = ServerId(kMetaServer);
  options.server_key = server_key();
  options.map = the_map();
  meta_role_ = std::make_unique<meta::MetaRole>(options, *meta_.records, random_, meta_.metrics, *io_servers_);
  meta_.server->add(meta_role_->service());
  io::IoOptions io;
  io.fs = kFs;
  io.server = ServerId(kIoServer);
  io.server_key = server_key();
  std::vector<io::IoTarget> targets{{the_target(), storage_, 0}};
  io_service_ = std::make_unique<io::IoService>(io, std::move(targets), *io_.records, *io_.context, io_.metrics);
  io_.server->add(*io_service_);
}

MemoryCluster::~MemoryCluster() = default;

job::Task<Result<void>> MemoryCluster::start() {
  SPATE_CO_TRY(std::ignore, co_await io_service_->open(true));
  io_service_->start();
  io_.server->start();
  SPATE_CO_TRY(std::ignore, co_await meta_role_->start());
  meta_.server->start();
  co_return {};
}

job::Task<Result<void>> MemoryCluster::stop() {
  co_await meta_.server->stop();
  auto stopped = co_await meta_role_->stop();
  co_await io_.server->stop();
  co_await io_service_->stop();
  co_return stopped;
}

client::Options MemoryCluster::client_options() const {
  client::Options options;
  options.map = the_map();
  options.client_key = client_key();
  return options;
}

std::unique_ptr<bmi::Network> MemoryCluster::client_network() { return attach(kClient); }

std::unique_ptr<bmi::Network> MemoryCluster::attach(std::uint32_t node) {
  std::vector<std::unique_ptr<bmi::Module>> modules;
  modules.push_back(bmi::sim::attach(fabric_, node));
  return bmi::make_network(std::move(modules));
}

}  // namespace spate::bench
