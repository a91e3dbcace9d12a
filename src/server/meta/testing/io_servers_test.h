// SPDX-License-Identifier: Apache-2.0
// For tests: the requests of a meta server to io servers, over a simulated network with stand-in servers.
#pragma once

#include <optional>

#include "base/expect.h"
#include "bmi/sim/fabric.h"
#include "bmi/sim/network_interface.h"
#include "log/log.h"
#include "rpc/server.h"
#include "server/meta/background/io_servers.h"
#include "server/meta/testing/stand_in_io.h"

namespace spate::meta {

class MetaIoServers : public ::testing::Test {
 protected:
  static constexpr FsId kFs{7};
  static constexpr std::uint64_t kStrip = 4096;
  static constexpr std::uint32_t kServers = 3;

  static Key server_key() {
    Key key;
    key.fill(std::byte{5});
    return key;
  }

  MetaIoServers() : fabric(clock, random), executor(clock) {
    (void)log::set_level("rpc", log::Level::off);
    map.fs = kFs;
    for (std::uint32_t id = 1; id <= kServers; ++id) {
      ServerEntry entry;
      entry.id = ServerId(id);
      entry.urls = {bmi::sim::url_of({id, 0})};
      entry.roles = {id == 1, true};
      entry.targets = {target_id(entry.id, 0), target_id(entry.id, 1)};
      map.servers.push_back(entry);
      servers.push_back(std::make_unique<Process>(*this, id));
    }
    network = bmi::make_network(one_module(bmi::sim::attach(fabric, 100)), {});
    context = std::make_unique<job::NetworkContext>(*network, executor);
    IoServersOptions options;
    options.map = map;
    options.server_key = server_key();
    options.description = "meta server 1";
    io = std::make_unique<ChannelIoServers>(options, *context, random);
  }
  ~MetaIoServers() override {
    for (auto& server : servers) server->stop(*this);
  }

  /// One io server.
  struct Process {
    Process(MetaIoServers& world, std::uint32_t id)
        : network(bmi::make_network(one_module(bmi::sim::attach(world.fabric, id)), {})),
          context(std::make_unique<job::NetworkContext>(*network, world.executor)) {
      SPATE_CHECK(network->listen(bmi::sim::url_of({id, 0}), context->id()).has_value());
      rpc::ServerOptions options;
      options.fs = kFs;
      options.server = ServerId(id);
      options.incarnation = Incarnation(id);
      options.server_key = server_key();
      server = std::make_unique<rpc::Server>(std::move(options), *context, world.random, world.metrics);
      server->add(service);
      server->start();
    }
    void stop(MetaIoServers& world) {
      if (server == nullptr) return;
      world.run(ended(*server));
      server.reset();
      context.reset();
      network.reset();
    }
    static job::Task<bool> ended(rpc::Server& server) {
      co_await server.stop();
      co_return true;
    }
    StandInIo service;
    std::unique_ptr<bmi::Network> network;
    std::unique_ptr<job::NetworkContext> context;
    std::unique_ptr<rpc::Server> server;
  };

  static std::vector<std::unique_ptr<bmi::Module>> one_module(std::unique_ptr<bmi::Module> module) {
    std::vector<std::unique_ptr<bmi::Module>> modules;
    modules.push_back(std::move(module));
    return modules;
  }
  template <typename T>
  T run(job::Task<T> task) {
    std::optional<T> out;
    job::Gate gate(executor);
    job::spawn(gate, keep(std::move(task), out));
    while (gate.count() > 0) {
      if (executor.step()) continue;
      const MonoTime next = executor.next_timer();
      if (fabric.next_event_time() <= next) {
        SPATE_CHECK(fabric.deliver_next());  // otherwise nothing would ever happen again
      } else {
        fabric.run_until(next);
      }
    }
    return *std::move(out);
  }
  template <typename T>
  static job::Task<void> keep(job::Task<T> task, std::optional<T>& out) {
    out.emplace(co_await std::move(task));
  }

  job::Task<bool> rest(Duration span) {
    std::ignore = co_await executor.sleep(span, {});
    co_return true;
  }

  StandInIo& server(std::uint32_t id) { return servers[id - 1]->service; }
  void take_down(std::uint32_t id) { servers[id - 1]->stop(*this); }
  static TargetId target(std::uint32_t server, std::uint32_t index = 0) { return target_id(ServerId(server), index); }
  static Layout layout(std::vector<TargetId> targets) {
    Layout layout;
    layout.generation = 1;
    layout.strip_bytes = kStrip;
    for (const TargetId id : targets) layout.slots.push_back({{id}});
    return layout;
  }
  static TruncateIntent intent(std::uint64_t size, Layout layout) { return {size, 9, WallTime{77}, std::move(layout)}; }

  ManualClock clock;
  SeededRandom random{1};
  metrics::Registry metrics;
  bmi::sim::Fabric fabric;
  job::Executor executor;
  ClusterMap map;
  std::vector<std::unique_ptr<Process>> servers;
  std::unique_ptr<bmi::Network> network;
  std::unique_ptr<job::NetworkContext> context;
  std::unique_ptr<ChannelIoServers> io;
};

}  // namespace spate::meta
