// SPDX-License-Identifier: Apache-2.0
// The client library's reads and writes against real io servers over TCP, in one process.
#include <gtest/gtest.h>

#include "bmi/tcp/tcp_module.h"
#include "client/client.h"
#include "rpc/server.h"
#include "server/io/io_service.h"
#include "tests/client/stand_in_meta.h"
#include "trove/kvmem/memory_keyval.h"
#include "trove/mem/mem_bytestreams.h"

namespace spate::client::testing {
namespace {

constexpr FsId kFs{0xF5};
constexpr std::uint64_t kStrip = 4096;

Key key(unsigned n) {
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
  ClientData() : executor_(clock_), random_(5), meta_host_(executor_, clock_, random_, 1) {
    std::vector<TargetId> targets;
    options_.map.fs = kFs;
    options_.map.servers.push_back({ServerId(1), {meta_host_.url}, {true, false}, {}});
    for (std::uint32_t id = 2; id <= 4; ++id) {
      io_.push_back(std::make_unique<IoHost>(executor_, clock_, random_, id));
      targets.push_back(target_id(ServerId(id), 0));
      options_.map.servers.push_back({ServerId(id), {io_.back()->url}, {false, true}, {targets.back()}});
    }
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
    EXPECT_TRUE(file.has_value()) << (file ? "" : file.error().message());
    return file ? *std::move(file) : nullptr;
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

TEST_F(ClientData, RandomReadsAndWritesEqualAModel) {
  auto file = create("a");
  ASSERT_NE(file, nullptr);
  Bytes model;
  for (int i = 0; i < 150; ++i) {
    const std::uint64_t offset = random_.below(200'000);
    const std::size_t size = 1 + random_.below(random_.chance(1, 4) ? 150'000 : 9'000);
    if (random_.chance(1, 2)) {
      const Bytes data = bytes(size);
      if (model.size() < offset + size) model.resize(offset + size);
      std::copy(data.begin(), data.end(), model.begin() + static_cast<std::ptrdiff_t>(offset));
      const auto written = executor_.run(file->write(offset, data));
      ASSERT_TRUE(written.has_value()) << written.error().message();
      continue;
    }
    Bytes got(size, std::byte{0xEE});
    const auto n = executor_.run(file->read(offset, got));
    ASSERT_TRUE(n.has_value()) << n.error().message();
    const std::size_t expected = offset >= model.size() ? 0 : std::min<std::size_t>(size, model.size() - offset);
    ASSERT_EQ(*n, expected) << i;
    ASSERT_TRUE(std::equal(got.begin(), got.begin() + static_cast<std::ptrdiff_t>(expected),
                           model.begin() + static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(offset, model.size()))))
        << i;
  }
  const auto attributes = executor_.run(file->stat());
  ASSERT_TRUE(attributes.has_value());
  EXPECT_EQ(attributes->size, model.size());
  EXPECT_TRUE(executor_.run(file->sync()).has_value());
  EXPECT_TRUE(executor_.run(file->close()).has_value());
  ASSERT_TRUE(meta_->closed_with.has_value());
  EXPECT_EQ(meta_->closed_with->size, model.size());
}

TEST_F(ClientData, AHoleReadsAsZerosAndTheEndIsTheFilesNotTheDatafiles) {
  auto file = create("sparse");
  ASSERT_NE(file, nullptr);
  const Bytes data = bytes(10);
  ASSERT_TRUE(executor_.run(file->write(5 * kStrip, data)).has_value());
  Bytes got(7 * kStrip, std::byte{0xEE});
  const auto n = executor_.run(file->read(0, got));
  ASSERT_TRUE(n.has_value());
  ASSERT_EQ(*n, 5 * kStrip + 10);
  for (std::size_t i = 0; i < 5 * kStrip; ++i) ASSERT_EQ(got[i], std::byte{0}) << i;
  EXPECT_TRUE(std::equal(data.begin(), data.end(), got.begin() + 5 * kStrip));
  EXPECT_TRUE(executor_.run(file->close()).has_value());
}

TEST_F(ClientData, AStridedReadIsOneRequestToEachServer) {
  auto file = create("strided");
  ASSERT_NE(file, nullptr);
  const Bytes data = bytes(64 * 1024);
  ASSERT_TRUE(executor_.run(file->write(0, data)).has_value());
  const std::vector<datatype::Level> levels{{100, 600}};
  const auto what = datatype::Description::strided(50, 100, levels);
  ASSERT_TRUE(what.has_value());
  const auto requests = [&] {
    std::uint64_t sum = 0;
    for (auto& host : io_) {
      const auto snapshot = host->metrics.snapshot();
      const auto* sample = snapshot.find("spate_rpc_request_ns", {{"op", "read"}});
      sum += sample == nullptr ? 0 : sample->histogram.count();
    }
    return sum;
  };
  const std::uint64_t before = requests();
  Bytes got(100 * 100);
  const std::array<MutableByteView, 1> memory{got};
  const auto n = executor_.run(file->read_list(*what, memory));
  ASSERT_TRUE(n.has_value()) << n.error().message();
  EXPECT_EQ(*n, got.size());
  EXPECT_EQ(requests() - before, io_.size());
  for (std::size_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(std::equal(got.begin() + static_cast<std::ptrdiff_t>(i * 100), got.begin() + static_cast<std::ptrdiff_t>(i * 100 + 100),
                           data.begin() + static_cast<std::ptrdiff_t>(50 + i * 600)))
        << i;
  }
  EXPECT_TRUE(executor_.run(file->close()).has_value());
}

TEST_F(ClientData, AnExpiredCapabilityIsRenewedUnseen) {
  meta_->expired_next = true;
  auto file = create("late");
  ASSERT_NE(file, nullptr);
  const auto written = executor_.run(file->write(0, bytes(100)));
  EXPECT_TRUE(written.has_value()) << written.error().message();
  EXPECT_TRUE(executor_.run(file->close()).has_value());
}

TEST_F(ClientData, ALostConnectionIsMadeAnewAndTheWriteSentAgain) {
  auto file = create("again");
  ASSERT_NE(file, nullptr);
  const Bytes data = bytes(100'000);
  ASSERT_TRUE(executor_.run(file->write(0, data)).has_value());
  for (auto& host : io_) {
    for (const auto& peer : host->server->peers()) host->network->disconnect(peer->address);
  }
  const Bytes more = bytes(100'000);
  const auto written = executor_.run(file->write(50'000, more));
  ASSERT_TRUE(written.has_value()) << written.error().message();
  Bytes got(100'000);
  ASSERT_TRUE(executor_.run(file->read(50'000, got)).has_value());
  EXPECT_EQ(got, more);
  EXPECT_TRUE(executor_.run(file->close()).has_value());
}

TEST_F(ClientData, ADeadServerIsNamedAfterTheDeadline) {
  auto file = create("dead");
  ASSERT_NE(file, nullptr);
  options_.deadline = std::chrono::milliseconds(300);
  const auto opened = executor_.run(client_->open(path_from_root("nowhere"), wire::kOpenRead));
  EXPECT_EQ(opened.code(), Errc::kNotFound);
  Options other = options_;
  other.map.servers[1].urls = {"tcp://127.0.0.1:1"};
  Client second(other, *context_, random_);
  auto again = executor_.run(second.open(path_from_root("dead"), wire::kOpenRead | wire::kOpenWrite));
  ASSERT_TRUE(again.has_value());
  const auto written = executor_.run((*again)->write(0, bytes(10)));
  EXPECT_FALSE(written.has_value());
  EXPECT_NE(written.error().message().find("server 2 (tcp://127.0.0.1:1)"), std::string::npos) << written.error().message();
  EXPECT_TRUE(executor_.run((*again)->close()).has_value());
  EXPECT_TRUE(executor_.run(file->close()).has_value());
  executor_.run(second.stop());
}

}  // namespace
}  // namespace spate::client::testing
