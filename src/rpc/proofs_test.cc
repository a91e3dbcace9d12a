// SPDX-License-Identifier: Apache-2.0
// Each address asks for one proof. Both sides know it, and no other proof lets a client in.
#include "rpc/proofs.h"

#include "base/expect.h"
#include "rpc/handshake_fixture.h"

namespace spate::rpc {
namespace {

Entrances three_doors() {
  return Entrances({{"tcp://node1:7400", {"tcp://10.0.0.1:7400"}, Proof::kKey},
                    {"tcp://node1-fast:7400", {"tcp://10.1.0.1:7400", "tcp://10.1.0.2:7400"}, Proof::kMunge},
                    {"tcp://127.0.0.1:7401", {"tcp://127.0.0.1:7401"}, Proof::kNothing},
                    {"tcp+tls://node1:7401", {"tcp+tls://10.0.0.1:7401"}, Proof::kCertificate},
                    {"shm:///run/spate/1", {}, Proof::kNothing},
                    {"ofi+verbs://10.1.0.1:7400", {}, Proof::kMunge}});
}

TEST(Entrances, AConnectionsOwnAddressDecides) {
  const Entrances doors = three_doors();
  EXPECT_EQ(doors.at("tcp://10.0.0.9:50000", "tcp://10.0.0.1:7400"), Proof::kKey);
  EXPECT_EQ(doors.at("tcp://10.1.0.9:50000", "tcp://10.1.0.2:7400"), Proof::kMunge);
  EXPECT_EQ(doors.at("tcp://127.0.0.1:50000", "tcp://127.0.0.1:7401"), Proof::kNothing);
  EXPECT_EQ(doors.at("tcp+tls://10.0.0.9:50000", "tcp+tls://10.0.0.1:7401"), Proof::kCertificate);
  EXPECT_EQ(doors.at("shm:///run/spate/1#77", "shm:///run/spate/1"), Proof::kNothing);
  EXPECT_EQ(doors.at("ofi+verbs://10.1.0.9:1", ""), Proof::kMunge) << "libfabric names no address";
}

TEST(Entrances, AnAddressThatCannotBeToldApartAdmitsNobody) {
  const Entrances doors = three_doors();
  EXPECT_EQ(doors.at("tcp://127.0.0.1:50000", "tcp://127.0.0.1:7400"), std::nullopt) << "on neither list";
  EXPECT_EQ(doors.at("tcp://10.0.0.9:50000", "tcp://10.0.0.1:7499"), std::nullopt) << "another port";
  EXPECT_EQ(doors.at("tcp://10.0.0.9:50000", ""), std::nullopt) << "the kernel did not tell";
  EXPECT_EQ(doors.at("ofi+tcp://10.0.0.9:1", ""), std::nullopt) << "another provider";
  EXPECT_EQ(doors.at("", ""), std::nullopt);
  const Entrances twins(
      {{"tcp://a:1", {"tcp://10.0.0.1:1"}, Proof::kNothing}, {"tcp://b:1", {"tcp://10.0.0.1:1"}, Proof::kKey}});
  EXPECT_EQ(twins.at("tcp://10.0.0.9:50000", "tcp://10.0.0.1:1"), std::nullopt) << "two names for one address";
}

TEST(Entrances, AddressesThatAllAskForTheSameNeedNotBeToldApart) {
  EXPECT_EQ(Entrances(Proof::kMunge).at("", ""), Proof::kMunge);
  EXPECT_EQ(Entrances().at("tcp://10.0.0.9:50000", "tcp://10.0.0.1:7400"), Proof::kKey);
}

Identity client_of(const AskedProofs& asked) {
  Identity identity;
  identity.policy.asked = asked;
  return identity;
}

const std::vector<std::string> kUrls = {"tcp://127.0.0.1:1", "tcp://a:2", "tcp+tls://a:3", "tcp://b:4"};

AskedProofs mixed() {
  AskedProofs asked;
  asked.by_url = {{kUrls[0], Proof::kNothing}, {kUrls[1], Proof::kMunge}, {kUrls[2], Proof::kCertificate}};
  asked.munge_for_key = false;
  return asked;
}

TEST(AskedProofs, AnAddressWithoutAWordAsksForTheUsual) {
  EXPECT_EQ(mixed().at(kUrls[1]), Proof::kMunge);
  EXPECT_EQ(mixed().at(kUrls[3]), Proof::kKey);
  EXPECT_FALSE(mixed().alike(kUrls));
  EXPECT_TRUE(mixed().alike({kUrls[3], "tcp://c:5"})) << "both ask for the same";
}

TEST(AskedProofs, AClientDialsOnlyWhereItHasTheProof) {
  Identity client = client_of(mixed());
  EXPECT_EQ(usable_urls(kUrls, client), (std::vector{kUrls[0], kUrls[2]}));
  client.key = key_of(1);
  EXPECT_EQ(usable_urls(kUrls, client), (std::vector{kUrls[0], kUrls[2], kUrls[3]}));
  client.key.reset();
  client.fresh_key = [](ServerId) -> Result<ClientKey> { return ClientKey(key_of(5)); };
  EXPECT_EQ(usable_urls(kUrls, client), (std::vector{kUrls[0], kUrls[1], kUrls[2]}));
  client.policy.asked.munge_for_key = true;
  EXPECT_EQ(usable_urls(kUrls, client), kUrls);
  client.fresh_key = nullptr;
  EXPECT_EQ(usable_urls({kUrls[1], kUrls[3]}, client), (std::vector{kUrls[1], kUrls[3]})) << "a server says why";
  client.kind = wire::PeerKind::kServer;
  EXPECT_EQ(usable_urls(kUrls, client), kUrls);
}

TEST(AskedProofs, AnOpenAddressOfAnotherMachinesServerIsNotDialled) {
  Identity client = client_of(mixed());
  client.policy.asked.avoided = {kUrls[0]};
  EXPECT_EQ(usable_urls(kUrls, client), (std::vector{kUrls[2]}));
  EXPECT_EQ(usable_urls({kUrls[0], kUrls[1]}, client), (std::vector{kUrls[1]})) << "also if no other can be used";
}

TEST(AskedProofs, AClientOffersWhatTheAddressAsksForAndNothingElse) {
  Identity client = client_of(mixed());
  client.key = key_of(1);
  client.fresh_key = [](ServerId) -> Result<ClientKey> { return ClientKey(key_of(5)); };
  const auto offered = [&](Proof asked) { return key_to_offer(client, asked, ServerId(3)).value(); };
  EXPECT_EQ(offered(Proof::kKey), ClientKey(key_of(1)));
  EXPECT_EQ(offered(Proof::kMunge), ClientKey(key_of(5)));
  EXPECT_EQ(offered(Proof::kNothing), std::nullopt);
  EXPECT_EQ(offered(Proof::kCertificate), std::nullopt);
  client.policy.asked.munge_for_key = true;
  EXPECT_EQ(offered(Proof::kKey), ClientKey(key_of(5)));
  client.kind = wire::PeerKind::kServer;
  for (const Proof asked : {Proof::kKey, Proof::kNothing, Proof::kCertificate, Proof::kMunge})
    EXPECT_EQ(offered(asked), ClientKey(key_of(1)));
}

/// The proofs that a peer may offer in a handshake.
enum class Offer : std::uint8_t { kClientKey, kUserKey, kMunge, kNothing, kServerKey };

ClientKey by_munge() {
  ClientKey key = key_of(9);
  key.issuer = kMungeKeyId;
  key.restrictions = to_bytes(as_bytes("a credential"));
  return key;
}

UserKey alice() {
  UserKey user;
  user.id[0] = std::byte{1};
  user.user = {1000, 1000, {}};
  return user;
}

ClientKey key_of_alice() {
  ClientKey key;
  key.restrictions = encoded(alice());
  const wire::FileKey file(FsId(0xF5), key_of(1));
  key.issuer = file.id();
  key.secret = file.for_user(key.restrictions).secret;
  return key;
}

std::string outcome(Proof asked, Offer offer, bool munge_beside_keys = true) {
  Meeting meeting;
  meeting.asked = asked;
  meeting.options.munge_beside_keys = munge_beside_keys;
  meeting.munge_identity = MungeIdentity{munge_user({1000, 1000, {}}), key_of(9)};
  switch (offer) {
    case Offer::kClientKey: break;
    case Offer::kUserKey: meeting.identity.key = key_of_alice(); break;
    case Offer::kMunge: meeting.identity.key = by_munge(); break;
    case Offer::kNothing: meeting.identity.key.reset(); break;
    case Offer::kServerKey:
      meeting.identity.key = key_of(2);
      meeting.identity.kind = wire::PeerKind::kServer;
      break;
  }
  const auto met = meeting.handshake();
  if (met) return meeting.user_key ? "a user" : "let in";
  return meeting.refused_by + ": " + met.error().context();
}

TEST(ProofHandshake, AnAddressLetsInByItsOwnProofOnly) {
  const std::string no_key = ", not for a key";
  const std::string no_munge = "admits nobody by munge";
  const auto refuses = [](Proof asked, Offer offer, const std::string& why, bool beside = true) {
    const std::string said = outcome(asked, offer, beside);
    EXPECT_EQ(said.substr(0, said.find(':')), "acceptor") << said;
    EXPECT_NE(said.find(why), std::string::npos) << said << " for " << why;
  };
  EXPECT_EQ(outcome(Proof::kKey, Offer::kClientKey), "let in");
  EXPECT_EQ(outcome(Proof::kKey, Offer::kUserKey), "a user");
  EXPECT_EQ(outcome(Proof::kKey, Offer::kMunge), "a user");
  refuses(Proof::kKey, Offer::kMunge, no_munge, false);
  refuses(Proof::kKey, Offer::kNothing, "a key is required");
  EXPECT_EQ(outcome(Proof::kMunge, Offer::kMunge, false), "a user");
  refuses(Proof::kMunge, Offer::kClientKey, "for a credential of munge" + no_key);
  refuses(Proof::kMunge, Offer::kUserKey, "for a credential of munge" + no_key);
  refuses(Proof::kMunge, Offer::kNothing, "asks clients for a credential of munge");
  for (const Proof open : {Proof::kNothing, Proof::kCertificate}) {
    EXPECT_EQ(outcome(open, Offer::kNothing), "let in");
    refuses(open, Offer::kClientKey, std::string("for ") + std::string(name_of(open)) + no_key);
    refuses(open, Offer::kUserKey, no_key);
    refuses(open, Offer::kMunge, no_munge);
  }
  for (const Proof any : {Proof::kKey, Proof::kMunge, Proof::kNothing, Proof::kCertificate})
    EXPECT_EQ(outcome(any, Offer::kServerKey), "let in") << name_of(any);
}

TEST(ProofHandshake, VersionOneIsNoWayPastMunge) {
  Meeting meeting;
  meeting.version = 1;
  meeting.options.allow_version_1 = true;
  meeting.asked = Proof::kMunge;
  ASSERT_ERRC(meeting.handshake(), Errc::kUnauthenticated);
  EXPECT_EQ(meeting.refused_by, "acceptor");
}

/// Both addresses ask for the same proof, so the server takes it. The client sees that it did not get where it dialled.
TEST(ProofHandshake, AMungeClientThatIsPassedOnToAnotherAddressLeaves) {
  Meeting meeting;
  meeting.asked = Proof::kMunge;
  meeting.munge_identity = MungeIdentity{munge_user({1000, 1000, {}}), key_of(9)};
  meeting.identity.key = by_munge();
  meeting.reached = "tcp://10.1.0.7:7400";
  const auto met = meeting.handshake();
  ASSERT_ERRC(met, Errc::kUnauthenticated);
  EXPECT_EQ(meeting.refused_by, "initiator");
  EXPECT_NE(met.error().message().find("a relay, or address translation"), std::string::npos);
}

}  // namespace
}  // namespace spate::rpc
