// SPDX-License-Identifier: Apache-2.0
// An attacker without a key listens at the address of a stopped server, and forwards the handshakes of connecting
// processes to another server, or to the same one.
#include "bmi/shm/shm_module.h"
#include "bmi/tcp/tcp_module.h"
#include "tests/attacks/site.h"

namespace spate::attacks {
namespace {

class RelayTest : public ::testing::Test {
 protected:
  Site& site(std::uint32_t id) {
    sites_.push_back(std::make_unique<Site>(make_, executor_, random_, id));
    return *sites_.back();
  }
  std::unique_ptr<Relay> relay_to(const std::string& target, const std::string& listen = "tcp://127.0.0.1:0") {
    return std::make_unique<Relay>(only(make_), executor_, RelayOptions{listen, target});
  }
  Victim victim(wire::PeerKind kind, const std::string& url, std::uint32_t server) {
    return {make_, executor_, random_, kind, {url}, server};
  }
  /// Whether the server carries out a request that the relay itself sends over its connection.
  template <typename Counter>
  bool steals(Relay& relay, wire::Op op, ClientId client, Counter& done) {
    const int before = done;
    std::ignore = executor_.run(relay.inject(forged(op, client)));
    return done != before;
  }

  SystemClock clock_;
  job::Executor executor_{clock_};
  SystemRandom random_;
  MakeModule make_ = [this]() -> std::unique_ptr<bmi::Module> { return bmi::tcp::make_tcp_module(clock_); };
  MakeModule make_shm_ = [this]() -> std::unique_ptr<bmi::Module> { return bmi::shm::make_shm_module(clock_); };
  std::vector<std::unique_ptr<Site>> sites_;
};

/// Changes the server's name in hellos and their replies. Version 1 neither protected that name nor asked for it.
bool call_it_server(Passing& passing, std::uint32_t id) {
  if (!passing.reply) {
    wire::RequestHeader header;
    wire::Reader reader(passing.bytes);
    reader(header);
    if (!reader.decoder().ok() || header.op != wire::Op::kHello) return true;
    auto hello = wire::decode_body_and<wire::HelloRequest, wire::HelloOffer>(
        ByteView(passing.bytes).last(reader.decoder().remaining()));
    if (!hello) return true;
    hello->second.server = ServerId(0);
    passing.bytes.clear();
    wire::encode_body(header, passing.bytes);
    wire::encode_body(hello->first, passing.bytes);
    wire::encode_body(hello->second, passing.bytes);
    return true;
  }
  wire::ReplyHeader header;
  wire::Reader reader(passing.bytes);
  reader(header);
  if (!reader.decoder().ok() || header.status != Errc::kOk) return true;
  auto hello = wire::decode_body_and<wire::HelloReply, wire::HelloAnswer>(
      ByteView(passing.bytes).last(reader.decoder().remaining()));
  if (!hello) return true;
  hello->first.server = ServerId(id);
  passing.bytes.clear();
  wire::encode_body(header, passing.bytes);
  wire::encode_body(hello->first, passing.bytes);
  wire::encode_body(hello->second, passing.bytes);
  return true;
}

// The attack that version 1 did not withstand: a relay changes the server's name in the reply.
TEST_F(RelayTest, ARelayAtAStoppedServersAddressGetsNoRightsOfAClient) {
  Site& meta = site(1);
  const auto relay = relay_to(meta.url);
  relay->on_passing = [](Passing& passing) { return call_it_server(passing, 2); };
  Victim client = victim(wire::PeerKind::kClient, relay->url(), 2);
  EXPECT_NE(client.reason(wire::Op::kMkdir).find("did not prove the key"), std::string::npos);
  EXPECT_FALSE(steals(*relay, wire::Op::kMkdir, kSession, meta.deeds.made)) << "with the client's rights";
  EXPECT_EQ(meta.deeds.joined, 0) << "the client's handshake of server 2 let somebody in at server 1";
}

TEST_F(RelayTest, ARelayAtAStoppedServersAddressGetsNoRightsOfAServer) {
  Site& meta = site(1);
  const auto relay = relay_to(meta.url);
  relay->on_passing = [](Passing& passing) { return call_it_server(passing, 2); };
  Victim server = victim(wire::PeerKind::kServer, relay->url(), 2);
  EXPECT_NE(server.reason(wire::Op::kMetaScan).find("did not prove the key"), std::string::npos);
  EXPECT_FALSE(steals(*relay, wire::Op::kMetaScan, ClientId(), meta.deeds.scanned)) << "on a server's connection";
  EXPECT_EQ(meta.deeds.joined, 0);
}

TEST_F(RelayTest, ARelayThatChangesNothingIsRefusedAsAnotherServer) {
  Site& meta = site(1);
  const auto relay = relay_to(meta.url);
  Victim client = victim(wire::PeerKind::kClient, relay->url(), 2);
  EXPECT_NE(client.reason(wire::Op::kMkdir).find("this is server 1, not server 2"), std::string::npos);
  EXPECT_EQ(meta.deeds.joined, 0);
}

TEST_F(RelayTest, ARelayToTheSameServerByAnotherPortIsDetected) {
  Site& meta = site(1);
  const auto relay = relay_to(meta.url);
  Victim client = victim(wire::PeerKind::kClient, relay->url(), 1);
  EXPECT_NE(client.reason(wire::Op::kMkdir).find("a relay"), std::string::npos);
  EXPECT_FALSE(steals(*relay, wire::Op::kMkdir, kSession, meta.deeds.made)) << meta.deeds.made << " directories";
  EXPECT_EQ(meta.deeds.joined, 0);
}

TEST_F(RelayTest, ARelayToTheSameServerByAnotherAddressIsDetected) {
  Site& meta = site(1);
  auto relay = relay_to(meta.url, "tcp://[::1]:0");
  Victim client = victim(wire::PeerKind::kClient, relay->url(), 1);
  EXPECT_NE(client.reason(wire::Op::kMkdir).find("a relay"), std::string::npos);
  EXPECT_EQ(meta.deeds.joined, 0);
}

/// The leg over shm is not sealed, since the kernel vouches for its peer. A relay must not join it to a TCP leg.
TEST_F(RelayTest, ARelayToTheSameServerByAnotherNetworkIsDetected) {
  sites_.push_back(std::make_unique<Site>(make_shm_, executor_, random_, 1, "shm://*"));
  Site& meta = *sites_.back();
  std::vector<std::unique_ptr<bmi::Module>> both = only(make_);
  both.push_back(make_shm_());
  Relay relay(std::move(both), executor_, RelayOptions{"tcp://127.0.0.1:0", meta.url});
  Victim client = victim(wire::PeerKind::kClient, relay.url(), 1);
  client.identity.policy.behind_nat = true;  // this permits another address, but not another network
  EXPECT_NE(client.reason(wire::Op::kMkdir).find("a relay"), std::string::npos);
  EXPECT_EQ(meta.deeds.joined, 0);
}

TEST_F(RelayTest, ARelayToTheSameServerByAnotherShmNameIsDetected) {
  sites_.push_back(std::make_unique<Site>(make_shm_, executor_, random_, 1, "shm://*"));
  Site& meta = *sites_.back();
  Relay relay(only(make_shm_), executor_, RelayOptions{"shm://*", meta.url});
  Victim client(make_shm_, executor_, random_, wire::PeerKind::kClient, {relay.url()}, 1);
  EXPECT_NE(client.reason(wire::Op::kMkdir).find("a relay"), std::string::npos);
  EXPECT_EQ(meta.deeds.joined, 0);
}

/// A server's handshake that is meant for another server is forwarded back to the same server.
TEST_F(RelayTest, AReflectedHandshakeIsRefused) {
  Site& meta = site(1);
  const auto relay = relay_to(meta.url);
  relay->on_passing = [](Passing& passing) { return call_it_server(passing, 2); };
  Victim itself(make_, executor_, random_, wire::PeerKind::kServer, {relay->url()}, 2);
  EXPECT_NE(itself.reason(wire::Op::kMetaScan).find("did not prove the key"), std::string::npos);
  EXPECT_EQ(meta.deeds.joined, 0);
}

TEST_F(RelayTest, AServerOfAnotherFileSystemWithTheSameKeysIsRefused) {
  sites_.push_back(std::make_unique<Site>(make_, executor_, random_, 1, "tcp://127.0.0.1:0", FsId(0xF6)));
  Victim client = victim(wire::PeerKind::kClient, sites_.back()->url, 1);
  EXPECT_ERRC(client.ask(wire::Op::kMkdir), Errc::kWrongFileSystem);
  EXPECT_EQ(sites_.back()->deeds.joined, 0);
}

/// A client skips an address at which another program listens, and uses the server's next address.
TEST_F(RelayTest, IfAnotherProgramListensTheNextAddressIsTried) {
  Site& meta = site(1);
  const auto relay = relay_to(meta.url);
  Victim client(make_, executor_, random_, wire::PeerKind::kClient, {relay->url(), meta.url}, 1);
  EXPECT_EQ(client.reason(wire::Op::kMkdir), "done");
  EXPECT_EQ(client.channel->peer_info().url, meta.url);
  EXPECT_EQ(meta.deeds.made, 1);
}

/// The same for an address at which another server listens, which refuses the hello.
TEST_F(RelayTest, IfAnotherServerListensTheNextAddressIsTried) {
  Site& meta = site(1);
  Site& other = site(2);
  Victim client(make_, executor_, random_, wire::PeerKind::kClient, {other.url, meta.url}, 1);
  EXPECT_EQ(client.reason(wire::Op::kMkdir), "done");
  EXPECT_EQ(meta.deeds.made, 1);
  EXPECT_EQ(other.deeds.joined, 0);
}

TEST_F(RelayTest, AWrongAnswerToAHelloDoesNotAffectTheSession) {
  Site& meta = site(1);
  const auto relay = relay_to(meta.url);
  relay->on_passing = [](Passing& passing) {
    if (!passing.reply) return true;
    wire::ReplyHeader header;
    header.status = Errc::kSessionUnknown;  // a client gives up its locks for this status
    passing.bytes.clear();
    wire::encode_body(header, passing.bytes);
    return true;
  };
  Victim client = victim(wire::PeerKind::kClient, relay->url(), 1);
  EXPECT_NE(client.ask(wire::Op::kMkdir, std::chrono::milliseconds(300)).code(), Errc::kSessionUnknown);
}

}  // namespace
}  // namespace spate::attacks
