// SPDX-License-Identifier: Apache-2.0
#include "seals/rounds.h"

#include <algorithm>

#include "base/clock.h"
#include "base/codec.h"
#include "base/random.h"
#include "bmi/tcp/tcp_module.h"
#include "rpc/channel.h"
#include "rpc/server.h"

namespace spate::bench {
namespace {

constexpr FsId kFs{0xF5};
constexpr wire::Op kEcho = wire::Op::kGetattr;

/// A service. The body of each request begins with the size of its reply.
class Echo final : public rpc::Service {
 public:
  Echo() {
    serve_encoded(kEcho, rpc::Access::kWriters, [](rpc::Call&, ByteView body) { return answer(body); });
  }
  job::Task<Result<void>> join(rpc::Peer&, const wire::AuthenticateRequest&, wire::AuthenticateReply&) override {
    co_return Result<void>();
  }

 private:
  static job::Task<Result<Bytes>> answer(ByteView body) {
    Decoder in(body);
    const std::uint32_t size = in.u32();
    if (!in.ok()) co_return Errc::kProtocol;
    co_return Bytes(size);
  }
};

std::unique_ptr<bmi::Network> tcp_network(const Clock& clock) {
  std::vector<std::unique_ptr<bmi::Module>> modules;
  modules.push_back(bmi::tcp::make_tcp_module(clock));
  return bmi::make_network(std::move(modules));
}

Key some_key(unsigned n) {
  Key key{};
  key.fill(static_cast<std::byte>(n));
  return key;
}

}  // namespace

class Rounds::Ends {
 public:
  explicit Ends(bool sealed)
      : server_network_(tcp_network(clock_)),
        server_context_(*server_network_, executor_),
        client_network_(tcp_network(clock_)),
        client_context_(*client_network_, executor_) {
    const auto url = server_network_->listen("tcp://127.0.0.1:0", server_context_.id());
    SPATE_CHECK(url);
    rpc::ServerOptions options;
    options.fs = kFs;
    options.server = ServerId(1);
    options.incarnation = Incarnation(1);
    if (!sealed) options.entrances = rpc::Proof::kNothing;
    if (sealed) options.client_key = some_key(1);
    options.server_key = some_key(2);
    server_.emplace(std::move(options), server_context_, random_, metrics_);
    server_->add(echo_);
    server_->start();
    identity_.fs = kFs;
    if (sealed) identity_.key = some_key(1);
    rpc::ChannelOptions to;
    to.urls = {*url};
    to.server = ServerId(1);
    channel_.emplace(std::move(to), client_context_, identity_, random_);
  }
  Ends(const Ends&) = delete;
  Ends& operator=(const Ends&) = delete;
  ~Ends() {
    channel_.reset();
    const auto stop = [](rpc::Server& server) -> job::Task<bool> {
      co_await server.stop();
      co_return true;
    };
    executor_.run(stop(*server_));
  }

  Result<void> run(std::uint64_t count, std::size_t request, std::size_t reply) {
    Bytes body;
    Encoder(body).u32(static_cast<std::uint32_t>(reply));
    body.resize(std::max(request, body.size()));
    return executor_.run(ask(count, body, static_cast<std::uint32_t>(reply)));
  }

 private:
  job::Task<Result<void>> ask(std::uint64_t count, ByteView body, std::uint32_t reply) {
    for (std::uint64_t i = 0; i < count; ++i) {
      rpc::CallOptions options;
      options.deadline = executor_.now() + std::chrono::seconds(30);
      options.reply_room = reply + 1024;
      options.trace = TraceId(i + 1);
      SPATE_CO_TRY(auto answer, co_await channel_->call(kEcho, body, options));
      if (answer.body.size() != reply) co_return Errc::kCorrupt;
    }
    co_return Result<void>();
  }

  SystemClock clock_;
  SystemRandom random_;
  metrics::Registry metrics_;
  job::Executor executor_{clock_};
  Echo echo_;
  std::unique_ptr<bmi::Network> server_network_;
  job::NetworkContext server_context_;
  std::unique_ptr<bmi::Network> client_network_;
  job::NetworkContext client_context_;
  rpc::Identity identity_;
  std::optional<rpc::Server> server_;
  std::optional<rpc::Channel> channel_;
};

Rounds::Rounds(bool sealed) : ends_(std::make_unique<Ends>(sealed)) {}
Rounds::~Rounds() = default;

Result<void> Rounds::run(std::uint64_t count, std::size_t request, std::size_t reply) {
  return ends_->run(count, request, reply);
}

}  // namespace spate::bench
