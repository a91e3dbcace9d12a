// SPDX-License-Identifier: Apache-2.0
// A client, three io servers and a stand-in for a meta server, over TCP in one process.
#pragma once

#include "base/expect.h"
#include "bmi/tcp/tcp_module.h"
#include "client/client.h"
#include "rpc/server.h"
#include "server/io/io_service.h"
#include "tests/client/stand_in_meta.h"
#include "trove/kvmem/memory_keyval.h"
#include "trove/mem/mem_store.h"

namespace spate::client::testing {

inline constexpr FsId kFs{0xF5};
inline constexpr std::uint64_t kStrip = 4096;

inline Key key(unsigned n) {
  Key k{};
  k[0] = static_cast<std::byte>(n);
  return k;
}

/// Network, rpc server and one service of one server process.
struct Host {
  explicit Host(job::Executor& executor, Clock& clock, Random& random, std::uint32_t id) {
    std::vector<std::unique_ptr<bmi::Module>> modules;
    modules.push_back(bmi::tcp::make_tcp_module(clock));
    network = bmi::make_network(std::move(modules));
    context = std::make_unique<job::NetworkContext>(*network, executor);
    url = *network->listen("tcp://127.0.0.1:0", context->id());
    rpc::ServerOptions options;
    options.fs = kFs;
    options.server = ServerId(id);
    options.incarnation = Incarnation(1000 + id);
    options.client_key = key(1);
    options.server_key = key(2);
    server = std::make_unique<rpc::Server>(options, *context, random, metrics);
  }
  metrics::Registry metrics;
  std::unique_ptr<bmi::Network> network;
  std::unique_ptr<job::NetworkContext> context;
  std::string url;
  std::unique_ptr<rpc::Server> server;
};

struct IoHost : Host {
  IoHost(job::Executor& executor, Clock& clock, Random& random, std::uint32_t id)
      : Host(executor, clock, random, id),
        streams(std::make_shared<trove::MemStore>(1ULL << 30U)),
        storage(streams, executor),
        keyval(trove::make_memory_keyval()),
        records(*keyval, executor) {
    io::IoOptions options;
    options.fs = kFs;
    options.server_key = key(2);
    std::vector<io::IoTarget> targets{{target_id(ServerId(id), 0), storage, 0}};
    service = std::make_unique<io::IoService>(options, std::move(targets), records, *context, metrics);
    server->add(*service);
    service->start();
    server->start();
  }
  trove::MemBytestreams streams;
  job::StorageContext storage;
  std::unique_ptr<trove::Keyval> keyval;
  job::KeyvalContext records;
  std::unique_ptr<io::IoService> service;
};

class ClientData : public ::testing::Test {
 protected:
  /// `rounds`: how many slots of a file lie on each io server.
  explicit ClientData(std::size_t rounds = 1)
      : executor_(clock_), random_(5), meta_host_(executor_, clock_, random_, 1) {
    std::vector<TargetId> targets;
    options_.map.fs = kFs;
    options_.map.servers.push_back({ServerId(1), {meta_host_.url}, {true, false}, {}});
    for (std::uint32_t id = 2; id <= 4; ++id) {
      io_.push_back(std::make_unique<IoHost>(executor_, clock_, random_, id));
      targets.push_back(target_id(ServerId(id), 0));
      options_.map.servers.push_back({ServerId(id), {io_.back()->url}, {false, true}, {targets.back()}});
    }
    for (std::size_t i = 0, once = targets.size(); i < (rounds - 1) * once; ++i) targets.push_back(targets[i]);
    meta_ = std::make_unique<StandInMeta>(kFs, key(2), targets, kStrip, clock_);
    meta_host_.server->add(*meta_);
    meta_host_.server->start();
    options_.client_key = key(1);
    options_.deadline = std::chrono::seconds(20);
    options_.inline_read_bytes = 8192;
    options_.inline_write_bytes = 8192;
    options_.unit_bytes = 16384;
    std::vector<std::unique_ptr<bmi::Module>> modules;
    modules.push_back(bmi::tcp::make_tcp_module(clock_));
    network_ = bmi::make_network(std::move(modules));
    context_ = std::make_unique<job::NetworkContext>(*network_, executor_);
    client_ = std::make_unique<Client>(options_, *context_, random_);
  }
  ~ClientData() override {
    executor_.run(client_->stop());
    for (auto& host : io_) {
      executor_.run(host->server->stop());
      executor_.run(host->service->stop());
    }
    executor_.run(meta_host_.server->stop());
  }

  std::unique_ptr<File> create(const std::string& path) {
    auto file = executor_.run(client_->create(path_from_root(path), wire::kOpenRead | wire::kOpenWrite, {}));
    EXPECT_OK(file);
    return file ? *std::move(file) : nullptr;
  }
  /// How many requests of this type all io servers have answered.
  std::uint64_t requests_of(const char* op) const {
    std::uint64_t sum = 0;
    for (const auto& host : io_) {
      const auto snapshot = host->metrics.snapshot();
      const auto* const sample = snapshot.find("spate_rpc_request_ns", {{"op", op}});
      sum += sample == nullptr ? 0 : sample->histogram.count();
    }
    return sum;
  }
  Bytes bytes(std::size_t size) {
    Bytes b(size);
    random_.fill(b);
    return b;
  }

  SystemClock clock_;
  job::Executor executor_;
  SeededRandom random_;
  Options options_;
  Host meta_host_;
  std::unique_ptr<StandInMeta> meta_;
  std::vector<std::unique_ptr<IoHost>> io_;
  std::unique_ptr<bmi::Network> network_;
  std::unique_ptr<job::NetworkContext> context_;
  std::unique_ptr<Client> client_;
};

}  // namespace spate::client::testing
