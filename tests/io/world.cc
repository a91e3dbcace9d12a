// SPDX-License-Identifier: Apache-2.0
#include "tests/io/world.h"

#include <algorithm>

#include "bmi/sim/fabric.h"
#include "bmi/sim/network_interface.h"
#include "bmi/tcp/tcp_module.h"
#include "trove/kvmem/memory_keyval.h"
#include "trove/mem/mem_store.h"

namespace spate::io::testing {
namespace {

Key key_of(std::uint8_t byte) {
  Key key;
  key.fill(static_cast<std::byte>(byte));
  return key;
}

}  // namespace

Key World::server_key() { return key_of(7); }
Key World::client_key() { return key_of(9); }

World::World(WorldOptions options)
    : options_(std::move(options)),
      clock_(options_.tcp ? std::unique_ptr<Clock>(std::make_unique<SystemClock>()) : std::make_unique<ManualClock>()),
      manual_(dynamic_cast<ManualClock*>(clock_.get())),
      random_(options_.seed),
      executor_(std::make_unique<job::Executor>(*clock_)),
      gate_(std::make_unique<job::Gate>(*executor_)) {
  if (manual_ != nullptr) fabric_ = std::make_unique<bmi::sim::Fabric>(*manual_, random_, options_.fabric);
  options_.io.fs = kFs;
  options_.io.server_key = server_key();
  options_.io.boot = 1000;
  network_ = make_network();
  context_ = std::make_unique<job::NetworkContext>(*network_, *executor_);
  auto listening = network_->listen(options_.tcp ? "tcp://127.0.0.1:0" : bmi::sim::url_of({nodes_, 0}), context_->id());
  SPATE_CHECK(listening.has_value());
  url_ = *listening;
  keyval_ = trove::make_memory_keyval();
  faulty_keyval_ = std::make_unique<trove::FaultKeyval>(*keyval_, *clock_);
  keyval_context_ = std::make_unique<job::KeyvalContext>(*faulty_keyval_, *executor_);
  for (std::size_t i = 0; i < options_.targets; ++i) {
    auto storage = std::make_unique<Storage>();
    storage->store = std::make_shared<trove::MemStore>(options_.capacity_bytes);
    auto streams = std::make_unique<trove::MemBytestreams>(storage->store, options_.direct_alignment);
    storage->streams =
        std::make_unique<trove::FaultyBytestreams>(std::move(streams), std::vector<trove::BytestreamFault>(), *clock_);
    storage->context = std::make_unique<job::StorageContext>(*storage->streams, *executor_);
    storages_.push_back(std::move(storage));
  }
  start_server();
}

World::~World() {
  stop_server();
  const auto idle = [](job::Gate& gate) -> job::Task<bool> {
    co_await gate.close();
    co_return true;
  };
  run(idle(*gate_));
}

std::unique_ptr<bmi::Network> World::make_network() {
  std::vector<std::unique_ptr<bmi::Module>> modules;
  if (options_.tcp) {
    modules.push_back(bmi::tcp::make_tcp_module(*clock_));
  } else {
    modules.push_back(bmi::sim::attach(*fabric_, ++nodes_));
  }
  return bmi::make_network(std::move(modules), options_.network);
}

void World::start_server() {
  std::vector<IoTarget> targets;
  for (std::size_t i = 0; i < storages_.size(); ++i) targets.push_back({target(i), *storages_[i]->context, 5});
  io_ = std::make_unique<IoService>(options_.io, std::move(targets), *keyval_context_, *context_, metrics_);
  rpc::ServerOptions options;
  options.fs = kFs;
  options.server = ServerId(1);
  options.incarnation = Incarnation(random_.next());
  options.client_key = client_key();
  options.server_key = server_key();
  options.roles = {"io"};
  options.max_requests = options_.max_requests;
  options.allow_version_1 = options_.allow_version_1;
  server_ = std::make_unique<rpc::Server>(std::move(options), *context_, random_, metrics_);
  server_->add(*io_);
  server_->start();
  io_->start();
}

void World::stop_server() {
  const auto stop = [](rpc::Server& server, IoService& io) -> job::Task<bool> {
    co_await server.stop();
    co_await io.stop();
    co_return true;
  };
  run(stop(*server_, *io_));
  server_.reset();
  io_.reset();
}

void World::restart(bool machine) {
  stop_server();
  if (machine) ++options_.io.boot;
  start_server();
}

/// One step of virtual time.
void World::turn() {
  if (executor_->step()) {
    ++turns_;
    return;
  }
  MonoTime next = executor_->next_timer();
  for (const auto& storage : storages_) next = std::min(next, storage->streams->next_event_time());
  if (fabric_->next_event_time() <= next) {
    SPATE_CHECK(fabric_->deliver_next());  // else nothing will ever happen again
  } else {
    fabric_->run_until(next);
  }
}

void World::pass(Duration span) {
  const auto sleep = [](job::Executor& executor, Duration how_long) -> job::Task<bool> {
    std::ignore = co_await executor.sleep(how_long);
    co_return true;
  };
  run(sleep(*executor_, span), span + std::chrono::hours(1));
}

std::uint64_t World::metric(std::string_view name) const {
  std::uint64_t sum = 0;
  const metrics::Snapshot snapshot = metrics_.snapshot();
  for (const auto& sample : snapshot.samples()) {
    if (sample.name == name) sum += static_cast<std::uint64_t>(sample.value);
  }
  return sum;
}

}  // namespace spate::io::testing
