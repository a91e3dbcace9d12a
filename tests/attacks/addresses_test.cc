// SPDX-License-Identifier: Apache-2.0
// A server whose addresses ask for different proofs: nobody gets in at one address by the proof of another one, and
// nobody leads a client from an address to one that asks for less.
#include <gmock/gmock.h>

#include "base/expect.h"
#include "bmi/tcp/tcp_module.h"
#include "tests/attacks/site.h"

namespace spate::attacks {
namespace {

using rpc::Proof;
using testing::HasSubstr;

/// A server with three addresses, each with its own proof.
struct Doors {
  Doors(const MakeModule& make, job::Executor& executor, Random& random, const Key& key = client_key())
      : network(bmi::make_network(only(make))), context(std::make_unique<job::NetworkContext>(*network, executor)) {
    std::vector<rpc::Entrance> entrances;
    for (const auto& [url, asked] :
         {std::pair(&strong, Proof::kKey), {&open, Proof::kNothing}, {&munge, Proof::kMunge}}) {
      *url = *network->listen("tcp://127.0.0.1:0", context->id());
      entrances.push_back({*url, {*url}, asked});
    }
    rpc::ServerOptions options;
    options.fs = kFs;
    options.server = ServerId(1);
    options.incarnation = Incarnation(1);
    options.client_key = key;
    options.server_key = server_key();
    options.entrances = rpc::Entrances(std::move(entrances));
    server = std::make_unique<rpc::Server>(options, *context, random, metrics);
    server->add(deeds);
    server->start();
  }
  ~Doors() {
    const auto stop = [](rpc::Server& one) -> job::Task<bool> {
      co_await one.stop();
      co_return true;
    };
    context->executor().run(stop(*server));
  }
  metrics::Registry metrics;
  Deeds deeds;
  std::unique_ptr<bmi::Network> network;
  std::unique_ptr<job::NetworkContext> context;
  std::string strong;  // asks for a key
  std::string open;    // asks for nothing
  std::string munge;
  std::unique_ptr<rpc::Server> server;
};

class AddressesTest : public ::testing::Test {
 protected:
  /// A client that takes these URLs for what their proofs say, in this order.
  std::unique_ptr<Victim> client(std::vector<std::pair<std::string, Proof>> urls, bool with_key = true,
                                 wire::PeerKind kind = wire::PeerKind::kClient) {
    std::vector<std::string> names;
    for (const auto& [url, asked] : urls) names.push_back(url);
    auto made = std::make_unique<Victim>(make_, executor_, random_, kind, names, 1);
    if (!with_key) made->identity.key.reset();
    made->identity.policy.asked.by_url.insert(urls.begin(), urls.end());
    rpc::ChannelOptions options;
    options.urls = names;
    options.server = ServerId(1);
    made->channel = std::make_unique<rpc::Channel>(std::move(options), *made->context, made->identity, random_);
    return made;
  }
  std::string closed_port() {
    const auto network = bmi::make_network(only(make_));
    const job::NetworkContext context(*network, executor_);
    return *network->listen("tcp://127.0.0.1:0", context.id());
  }

  SystemClock clock_;
  job::Executor executor_{clock_};
  SystemRandom random_;
  MakeModule make_ = [this]() -> std::unique_ptr<bmi::Module> { return bmi::tcp::make_tcp_module(clock_); };
};

TEST_F(AddressesTest, EachAddressLetsInByItsOwnProofOnly) {
  Doors doors(make_, executor_, random_);
  const auto says = [&](const std::string& url, Proof taken_for, bool with_key) {
    return client({{url, taken_for}}, with_key)->reason(wire::Op::kMkdir);
  };
  EXPECT_EQ(says(doors.strong, Proof::kKey, true), "done");
  EXPECT_EQ(says(doors.open, Proof::kNothing, true), "done");
  EXPECT_THAT(says(doors.strong, Proof::kNothing, true), HasSubstr("a key is required"));
  EXPECT_THAT(says(doors.strong, Proof::kKey, false), HasSubstr("a key is required"));
  EXPECT_THAT(says(doors.open, Proof::kKey, true), HasSubstr("asks clients for nothing, not for a key"));
  EXPECT_THAT(says(doors.munge, Proof::kKey, true), HasSubstr("asks clients for a credential of munge, not for a key"));
  EXPECT_THAT(says(doors.munge, Proof::kNothing, false), HasSubstr("asks clients for a credential of munge"));
  EXPECT_EQ(doors.deeds.joined, 2);
  for (const std::string& url : {doors.strong, doors.open, doors.munge})
    EXPECT_EQ(client({{url, Proof::kNothing}}, true, wire::PeerKind::kServer)->reason(wire::Op::kMetaScan), "done")
        << url;
}

/// Somebody at the address that asks for a key passes the connection on to the one that asks for nothing.
TEST_F(AddressesTest, ARelayToTheOpenAddressGetsNeitherTheClientNorItsProof) {
  Doors doors(make_, executor_, random_);
  Relay relay(only(make_), executor_, RelayOptions{"tcp://127.0.0.1:0", doors.open});
  EXPECT_THAT(client({{relay.url(), Proof::kKey}})->reason(wire::Op::kMkdir), HasSubstr("not for a key"));
  EXPECT_EQ(doors.deeds.joined, 0);
  EXPECT_EQ(doors.deeds.made, 0);
}

TEST_F(AddressesTest, AClientWhoseProofFailedTurnsToNoAddressThatAsksForLess) {
  Doors impostor(make_, executor_, random_, key_of(9));  // it has the server's number and not its keys
  Doors doors(make_, executor_, random_);
  const auto victim = client({{impostor.strong, Proof::kKey}, {doors.open, Proof::kNothing}});
  for (int attempt = 0; attempt < 2; ++attempt) {
    const std::string said = victim->reason(wire::Op::kMkdir);
    EXPECT_THAT(said, HasSubstr("asks for nothing at " + doors.open));
    EXPECT_THAT(said, HasSubstr("for more at an address where this has failed"));
    EXPECT_THAT(said, HasSubstr("wrong client key"));
  }
  EXPECT_EQ(doors.deeds.joined, 0);
  const auto other = client({{impostor.strong, Proof::kKey}, {doors.strong, Proof::kKey}});
  EXPECT_EQ(other->reason(wire::Op::kMkdir), "done") << "an address that asks for as much";
  Doors second(make_, executor_, random_, key_of(9));
  const auto upwards = client({{second.munge, Proof::kNothing}, {doors.strong, Proof::kKey}});
  EXPECT_EQ(upwards->reason(wire::Op::kMkdir), "done") << "one that asks for more";
}

/// This is not promised: an attacker who can make an address silent decides which of the others a client uses.
TEST_F(AddressesTest, AnAddressThatIsSilentIsPassedBy) {
  Doors doors(make_, executor_, random_);
  EXPECT_EQ(client({{closed_port(), Proof::kKey}, {doors.open, Proof::kNothing}})->reason(wire::Op::kMkdir), "done");
}

TEST_F(AddressesTest, AClientWithoutTheProofOfTheFirstAddressUsesTheNextOne) {
  Doors doors(make_, executor_, random_);
  const auto user =
      client({{doors.strong, Proof::kKey}, {doors.munge, Proof::kMunge}, {doors.open, Proof::kNothing}}, false);
  EXPECT_EQ(user->reason(wire::Op::kMkdir), "done");
  EXPECT_EQ(user->channel->peer_info().url, doors.open);
}

/// A peer that answers before the handshake has proved nothing: it learns of no session, and it is not believed.
TEST_F(AddressesTest, WhoAnswersBeforeTheHandshakeLearnsNoSessionAndIsNotBelieved) {
  Doors doors(make_, executor_, random_);
  std::vector<wire::RequestHeader> seen;
  Relay relay(only(make_), executor_, RelayOptions{"tcp://127.0.0.1:0", doors.strong});
  relay.on_passing = [&](Passing& passing) {
    if (passing.reply) {
      wire::ReplyHeader header;
      wire::Reader reader(passing.bytes);
      reader(header);
      header.incarnation = Incarnation(666);
      header.map_version = 1'000'000;
      Bytes forged;
      wire::encode_body(header, forged);
      const ByteView body = ByteView(passing.bytes).last(reader.decoder().remaining());
      forged.insert(forged.end(), body.begin(), body.end());
      passing.bytes = forged;
      return true;
    }
    wire::Reader reader(passing.bytes);
    reader(seen.emplace_back());
    return true;
  };
  const auto victim = client({{relay.url(), Proof::kKey}, {doors.open, Proof::kNothing}});
  victim->identity.client = kSession;
  victim->identity.epoch = 7;
  EXPECT_NE(victim->reason(wire::Op::kMkdir), "done");
  ASSERT_GT(seen.size(), 0U);
  EXPECT_EQ(seen.front().op, wire::Op::kPing);
  for (const wire::RequestHeader& header : seen) EXPECT_EQ(header.client, ClientId()) << op_name(header.op);
  EXPECT_EQ(seen.front().session_epoch, 0U);
  EXPECT_EQ(victim->channel->incarnation(), Incarnation());
  EXPECT_EQ(victim->channel->map_version(), 0U);
}

}  // namespace
}  // namespace spate::attacks
