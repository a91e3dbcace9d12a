// SPDX-License-Identifier: Apache-2.0
// Site: a server that requires keys. Victim: a process that sends requests to it.
#pragma once

#include "base/expect.h"
#include "rpc/channel.h"
#include "rpc/server.h"
#include "tests/attacks/relay.h"
#include "wire/check_messages.h"
#include "wire/meta_messages.h"

namespace spate::attacks {

inline constexpr FsId kFs{0xF5};
inline constexpr ClientId kSession{77};

inline Key key_of(std::uint8_t n) {
  Key key{};
  key.fill(static_cast<std::byte>(n));
  return key;
}
inline Key client_key() { return key_of(1); }
inline Key server_key() { return key_of(2); }

/// Makes the network module for all processes of a test. They all run on one thread.
using MakeModule = std::function<std::unique_ptr<bmi::Module>()>;

/// Counts the requests that were carried out. mkdir needs the right to write, getattr the right to read; readdir is for
/// operators, and meta_scan for servers.
class Deeds final : public rpc::Service {
 public:
  Deeds() {
    serve_encoded(wire::Op::kMkdir, rpc::Access::kWriters, [this](rpc::Call&, ByteView) { return done(made); });
    serve_encoded(wire::Op::kGetattr, rpc::Access::kReaders, [this](rpc::Call&, ByteView) { return done(looked); });
    serve_encoded(wire::Op::kReaddir, rpc::Access::kOperators, [this](rpc::Call& call, ByteView) {
      call.deed = says;
      return done(operated);
    });
    serve_encoded(wire::Op::kMetaScan, rpc::Access::kServersOnly,
                  [this](rpc::Call&, ByteView) { return done(scanned); });
  }
  job::Task<Result<void>> join(rpc::Peer& peer, const wire::AuthenticateRequest& request,
                               wire::AuthenticateReply& reply) override {
    if (!leads) co_return Errc::kNotPrimary;
    ++joined;
    last = peer.credential;
    if (request.kind == wire::PeerKind::kClient) {
      reply.client = kSession;
      reply.epoch = 1;
      reply.answer_slots = 1;
    }
    co_return Result<void>();
  }
  int made = 0;
  int looked = 0;
  int operated = 0;
  int scanned = 0;
  int joined = 0;
  bool leads = true;               // false: another server of its group does
  std::optional<Credential> last;  // the credential that joined last
  std::string says;                // what readdir reports to the audit log
  job::Event* hold = nullptr;      // if set, requests wait for this event

 private:
  job::Task<Result<Bytes>> done(int& counter) {
    if (hold != nullptr) std::ignore = co_await hold->wait({});
    ++counter;
    co_return Bytes();
  }
};

inline std::vector<std::unique_ptr<bmi::Module>> only(const MakeModule& make) {
  std::vector<std::unique_ptr<bmi::Module>> modules;
  modules.push_back(make());
  return modules;
}

/// One server process.
struct Site {
  Site(const MakeModule& make, job::Executor& executor, Random& random, std::uint32_t id,
       const std::string& listen = "tcp://127.0.0.1:0", FsId fs = kFs, const Key& key = client_key(),
       const std::function<void(rpc::ServerOptions&)>& adjust = nullptr)
      : network(bmi::make_network(only(make))), context(std::make_unique<job::NetworkContext>(*network, executor)) {
    url = *network->listen(listen, context->id());
    rpc::ServerOptions options;
    options.fs = fs;
    options.server = ServerId(id);
    options.incarnation = Incarnation(1000 + id);
    options.client_key = key;
    options.server_key = server_key();
    if (adjust) adjust(options);
    server = std::make_unique<rpc::Server>(options, *context, random, metrics);
    server->add(deeds);
    server->start();
  }
  ~Site() {
    const auto stop = [](rpc::Server& server) -> job::Task<bool> {
      co_await server.stop();
      co_return true;
    };
    context->executor().run(stop(*server));
  }
  metrics::Registry metrics;
  Deeds deeds;
  std::unique_ptr<bmi::Network> network;
  std::unique_ptr<job::NetworkContext> context;
  std::string url;
  std::unique_ptr<rpc::Server> server;
};

/// The process that attackers try to deceive: a client, or a server that sends requests to another server.
struct Victim {
  Victim(const MakeModule& make, job::Executor& executor, Random& random, wire::PeerKind kind,
         std::vector<std::string> urls, std::uint32_t server, Duration attempt_timeout = std::chrono::seconds(1))
      : network(bmi::make_network(only(make))), context(std::make_unique<job::NetworkContext>(*network, executor)) {
    identity.kind = kind;
    identity.fs = kFs;
    identity.key = kind == wire::PeerKind::kServer ? server_key() : client_key();
    identity.description = "victim";
    ServerEntry entry;
    entry.id = ServerId(server);
    entry.urls = std::move(urls);
    rpc::ChannelOptions options = rpc::channel_to(entry);
    options.attempt_timeout = attempt_timeout;
    channel = std::make_unique<rpc::Channel>(std::move(options), *context, identity, random);
  }
  /// Sends a request that needs the handshake, and waits for its outcome.
  Result<void> ask(wire::Op op, Duration timeout = std::chrono::seconds(2)) {
    rpc::CallOptions options;
    options.deadline = context->executor().now() + timeout;
    SPATE_TRY(std::ignore, context->executor().run(channel->call(op, {}, options)));
    return {};
  }
  /// The error message of a request, "done" for success. With one address, that is why the handshake failed.
  std::string reason(wire::Op op) {
    const Result<void> result = ask(op);
    return result ? std::string("done") : result.error().message();
  }
  std::unique_ptr<bmi::Network> network;
  std::unique_ptr<job::NetworkContext> context;
  rpc::Identity identity;
  std::unique_ptr<rpc::Channel> channel;
};

/// A request header that an attacker makes up, without a seal.
inline Bytes forged(wire::Op op, ClientId client, std::uint16_t version = wire::kProtocolVersion) {
  wire::RequestHeader header;
  header.version = version;
  header.op = op;
  header.fs = kFs;
  header.client = client;
  header.reply_room = 16 * 1024;
  Bytes bytes;
  wire::encode_body(header, bytes);
  return bytes;
}

inline Errc status_of(ByteView reply) {
  wire::ReplyHeader header;
  wire::Reader reader(reply);
  reader(header);
  return reader.decoder().ok() ? header.status : Errc::kCorrupt;
}

}  // namespace spate::attacks
