// SPDX-License-Identifier: Apache-2.0
// The handshake, message by message: attacks on it, and which side detects them.

#include <algorithm>
#include <set>

#include "base/expect.h"
#include "rpc/handshake_fixture.h"
#include "rpc/seals.h"

namespace spate::rpc {
namespace {

std::string reason(Meeting& meeting) {
  const Result<void> result = meeting.handshake();
  return result ? std::string("let in") : meeting.refused_by + ": " + result.error().message();
}

::testing::AssertionResult refused(Meeting& meeting, std::string_view by, std::string_view why) {
  const std::string said = reason(meeting);
  if (said.starts_with(by) && said.find(why) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << said << ", not: " << by << ": ..." << why;
}

TEST(Handshake, BothSidesHaveTheSameKeys) {
  Meeting meeting;
  const Result<void> result = meeting.handshake();
  ASSERT_OK(result);
  EXPECT_EQ(meeting.keys.initiator_seal, meeting.initiator_keys.initiator_seal);
  EXPECT_EQ(meeting.keys.acceptor_seal, meeting.initiator_keys.acceptor_seal);
  EXPECT_EQ(meeting.keys.link, meeting.initiator_keys.link);
  EXPECT_NE(meeting.keys.initiator_seal, meeting.keys.acceptor_seal);
  EXPECT_EQ(meeting.protect, wire::Protect::kControl);
  EXPECT_TRUE(meeting.both_alike);
}

TEST(Handshake, AServerProvesTheServerKey) {
  Meeting meeting;
  meeting.identity.kind = wire::PeerKind::kServer;
  meeting.identity.key = key_of(2);
  ASSERT_EQ(reason(meeting), "let in");
  EXPECT_EQ(meeting.accepted_kind, wire::PeerKind::kServer);
}

TEST(Handshake, MessagesOfLocalSocketsAreNotSealed) {
  Meeting meeting;
  meeting.dialled = meeting.reached = "shm:///run/spate/3";
  ASSERT_EQ(reason(meeting), "let in");
  EXPECT_EQ(meeting.protect, wire::Protect::kNone);
  EXPECT_TRUE(meeting.both_alike);
}

TEST(Handshake, DuringAKeyChangeBothKeysAreAccepted) {
  for (const unsigned used : {1U, 2U, 11U, 12U}) {
    const bool server = used % 10 == 2;
    Meeting meeting;
    meeting.options.client_key.others = {key_of(11), key_of(21)};
    meeting.options.server_key.others = {key_of(12)};
    meeting.identity.kind = server ? wire::PeerKind::kServer : wire::PeerKind::kClient;
    meeting.identity.key = key_of(used);
    ASSERT_EQ(reason(meeting), "let in") << used;
    EXPECT_EQ(meeting.accepted_kind, meeting.identity.kind);
    EXPECT_EQ(meeting.keys.link, meeting.initiator_keys.link);
    meeting.kind = server ? wire::PeerKind::kClient : wire::PeerKind::kServer;
    EXPECT_TRUE(refused(meeting, "acceptor", "wrong")) << "an old key gives the rights of its own role only";

    Meeting afterwards;
    afterwards.identity = meeting.identity;
    if (used > 10) {
      EXPECT_TRUE(refused(afterwards, "acceptor", "use the key files of this file system")) << "key " << used;
    }
  }
}

TEST(Handshake, Version1AcceptsEachKeyOfTheRing) {
  for (const unsigned used : {1U, 11U, 3U}) {
    Meeting meeting;
    meeting.version = 1;
    meeting.options.allow_version_1 = true;
    meeting.options.client_key.others = {key_of(11)};
    meeting.identity.key = key_of(used);
    if (used == 3) {
      EXPECT_TRUE(refused(meeting, "acceptor", "wrong client key")) << "key " << used;
    } else {
      EXPECT_EQ(reason(meeting), "let in") << used;
    }
  }
}

TEST(Handshake, TheHigherProtectionOfBothSidesIsUsed) {
  for (const bool client_wants : {true, false}) {
    Meeting meeting;
    (client_wants ? meeting.identity.policy.protect : meeting.options.protect) = wire::Protect::kData;
    ASSERT_EQ(reason(meeting), "let in");
    EXPECT_EQ(meeting.protect, wire::Protect::kData);
    EXPECT_TRUE(meeting.both_alike) << "the client wants it: " << client_wants;
    EXPECT_EQ(meeting.keys.initiator_data, meeting.initiator_keys.initiator_data);
    EXPECT_EQ(meeting.keys.acceptor_data, meeting.initiator_keys.acceptor_data);
    EXPECT_NE(meeting.keys.initiator_data, meeting.keys.acceptor_data);
    EXPECT_NE(meeting.keys.initiator_data, meeting.keys.initiator_seal);
  }
}

TEST(Handshake, ARelayCannotLowerTheProtectionOfData) {
  const auto changed = [](auto change) {
    return [change](Bytes& message) {
      wire::RequestHeader header;
      wire::Reader reader(message);
      reader(header);
      const ByteView body = ByteView(message).last(reader.decoder().remaining());
      auto both = wire::decode_body_and<wire::HelloRequest, wire::HelloOffer>(body).value();
      change(both.second);
      message.resize(message.size() - body.size());
      wire::encode_body(both.first, message);
      wire::encode_body(both.second, message);
    };
  };
  Meeting asked_for_less;
  asked_for_less.identity.policy.protect = wire::Protect::kData;
  asked_for_less.on_hello = changed([](wire::HelloOffer& offer) { offer.protect = wire::Protect::kControl; });
  EXPECT_TRUE(refused(asked_for_less, "initiator", "did not prove the key"));

  Meeting none_at_all;
  none_at_all.options.protect = wire::Protect::kData;
  none_at_all.asked = Proof::kNothing;
  none_at_all.identity.key.reset();
  EXPECT_TRUE(refused(none_at_all, "acceptor", "a key is required"));
  none_at_all.options.protect = wire::Protect::kControl;
  none_at_all.identity.policy.protect = wire::Protect::kData;
  EXPECT_TRUE(refused(none_at_all, "initiator", "requires a key"));

  Meeting of_version_1;
  of_version_1.options.protect = wire::Protect::kData;
  of_version_1.options.allow_version_1 = true;
  of_version_1.version = 1;
  EXPECT_TRUE(refused(of_version_1, "acceptor", "upgrade the older one"));
}

TEST(Handshake, LocalSocketsNeedNoProtectionOfData) {
  Meeting meeting;
  meeting.identity.policy.protect = meeting.options.protect = wire::Protect::kData;
  meeting.dialled = meeting.reached = "shm:///run/spate/3";
  ASSERT_EQ(reason(meeting), "let in");
  EXPECT_EQ(meeting.protect, wire::Protect::kNone);
}

TEST(Handshake, EveryFlippedByteIsDetected) {
  Meeting plain;
  ASSERT_EQ(reason(plain), "let in");
  const auto flip = [](std::size_t at) { return [at](Bytes& message) { message[at] ^= std::byte{0x10}; }; };
  for (std::size_t i = 0; i < plain.hello.size(); ++i) {
    Meeting meeting;
    meeting.on_hello = flip(i);
    EXPECT_NE(reason(meeting), "let in") << "hello, byte " << i;
  }
  for (std::size_t i = 0; i < plain.reply.size(); ++i) {
    Meeting meeting;
    meeting.on_reply = flip(i);
    EXPECT_TRUE(refused(meeting, "initiator", "")) << "reply, byte " << i;
  }
  for (std::size_t i = 0; i < plain.authenticate.size(); ++i) {
    Meeting meeting;
    meeting.on_authenticate = flip(i);
    EXPECT_TRUE(refused(meeting, "acceptor", "")) << "authenticate, byte " << i;
  }
}

TEST(Handshake, EveryTruncatedMessageIsDetected) {
  Meeting plain;
  ASSERT_EQ(reason(plain), "let in");
  const auto cut = [](std::size_t size) { return [size](Bytes& message) { message.resize(size); }; };
  for (std::size_t i = 0; i < plain.hello.size(); ++i) {
    Meeting meeting;
    meeting.on_hello = cut(i);
    EXPECT_NE(reason(meeting), "let in") << "hello, cut to " << i;
  }
  for (std::size_t i = 0; i < plain.reply.size(); ++i) {
    Meeting meeting;
    meeting.on_reply = cut(i);
    EXPECT_TRUE(refused(meeting, "initiator", "")) << "reply, cut to " << i;
  }
  for (std::size_t i = 0; i < plain.authenticate.size(); ++i) {
    Meeting meeting;
    meeting.on_authenticate = cut(i);
    EXPECT_TRUE(refused(meeting, "acceptor", "")) << "authenticate, cut to " << i;
  }
}

TEST(Handshake, TheErrorNamesTheServerThatAnsweredInstead) {
  Meeting meeting;
  meeting.wanted = ServerId(4);
  EXPECT_TRUE(refused(meeting, "acceptor", "this is server 3, not server 4"));
}

TEST(Handshake, AServerCannotClaimAnotherServersName) {
  Meeting meeting;
  meeting.wanted = ServerId(0);
  meeting.on_reply = [](Bytes& reply) {
    wire::ReplyHeader header;
    wire::Reader reader(reply);
    reader(header);
    const ByteView body = ByteView(reply).last(reader.decoder().remaining());
    auto both = wire::decode_body_and<wire::HelloReply, wire::HelloAnswer>(body).value();
    both.first.server = ServerId(4);
    reply.resize(reply.size() - body.size());
    wire::encode_body(both.first, reply);
    wire::encode_body(both.second, reply);
  };
  EXPECT_TRUE(refused(meeting, "initiator", "did not prove the key"));
}

TEST(Handshake, ARelayIsDetectedByTheAddress) {
  Meeting meeting;
  for (const std::string reached : {"tcp://10.0.0.7:7403", "tcp://[::1]:7400", "shm://spate-3", ""}) {
    meeting.reached = reached;
    EXPECT_TRUE(refused(meeting, "initiator", "a relay")) << reached;
  }
  meeting.identity.policy.behind_nat = true;
  meeting.reached = "tcp://192.168.0.1:7400";
  EXPECT_EQ(reason(meeting), "let in");
  meeting.reached = "shm://spate-3";  // an unsealed leg must never join a network leg
  EXPECT_TRUE(refused(meeting, "initiator", "a relay"));
}

TEST(Handshake, TheErrorSaysWhichKeyIsWrong) {
  Meeting client;
  client.identity.key = key_of(9);
  EXPECT_TRUE(refused(client, "acceptor", "wrong client key"));
  Meeting none;
  none.identity.key.reset();
  EXPECT_TRUE(refused(none, "acceptor", "a key is required"));
  Meeting other_fs;  // another file system whose key file holds the same key
  other_fs.options.fs = FsId(0xF6);
  other_fs.on_hello = [](Bytes& hello) { hello.resize(hello.size()); };
  EXPECT_TRUE(refused(other_fs, "acceptor", "another file system"));
}

TEST(Handshake, AClientKeyDoesNotGrantTheRightsOfAServer) {
  Meeting meeting;
  meeting.kind = wire::PeerKind::kServer;
  EXPECT_TRUE(refused(meeting, "acceptor", "wrong server key"));
  Meeting open;  // auth = "none" lets in clients without a key, but no servers
  open.asked = Proof::kNothing;
  open.identity.key.reset();
  EXPECT_EQ(reason(open), "let in");
  open.kind = wire::PeerKind::kServer;
  EXPECT_TRUE(refused(open, "acceptor", "wrong server key"));
}

TEST(Handshake, AnInitiatorWithAKeyRefusesAServerThatAsksForNone) {
  Meeting meeting;
  meeting.asked = Proof::kNothing;
  EXPECT_NE(reason(meeting), "let in");
}

TEST(Handshake, ANonceIsAcceptedOnce) {
  Meeting meeting;
  ASSERT_EQ(reason(meeting), "let in");
  EXPECT_EQ(meeting.second, Errc::kUnauthenticated);
  const Bytes replayed = meeting.authenticate;
  meeting.on_authenticate = [&](Bytes& message) { message = replayed; };
  EXPECT_TRUE(refused(meeting, "acceptor", ""));
}

TEST(Handshake, AReplayedHandshakeIsRefused) {
  Meeting meeting;
  ASSERT_EQ(reason(meeting), "let in");
  const Bytes hello = meeting.hello;
  const Bytes authenticate = meeting.authenticate;
  Meeting again;  // an attacker who replays ignores the reply
  const Acceptor acceptor(again.options);
  std::optional<Handshake> handshake(std::in_place);
  SeededRandom random(8);
  ASSERT_OK(acceptor.hello(Meeting::received(hello), {}, {again.reached}, random, *handshake));
  EXPECT_ERRC(acceptor.authenticate(Meeting::received(authenticate), handshake), Errc::kUnauthenticated);
}

TEST(Handshake, Version1NeedsThePermissionOfBothSides) {
  Meeting meeting;
  meeting.version = 1;
  EXPECT_NE(reason(meeting), "let in");
  meeting.options.allow_version_1 = true;
  ASSERT_EQ(reason(meeting), "let in");
  EXPECT_EQ(meeting.protect, wire::Protect::kNone);
  EXPECT_TRUE(meeting.both_alike);
}

/// A hello of version 1 does not name the wanted server, so any server of the file system answers it.
TEST(Handshake, InVersion1TheReplyNamesTheServer) {
  Meeting meeting;
  meeting.version = 1;
  meeting.options.allow_version_1 = true;
  meeting.wanted = ServerId(4);
  EXPECT_TRUE(refused(meeting, "initiator", "says that it is server 3"));
}

TEST(Handshake, ARelayCannotLowerTheOffer) {
  const auto change = [](void (*what)(wire::HelloRequest&, wire::HelloOffer&)) {
    return [what](Bytes& hello) {
      wire::RequestHeader header;
      wire::Reader reader(hello);
      reader(header);
      const ByteView body = ByteView(hello).last(reader.decoder().remaining());
      auto both = wire::decode_body_and<wire::HelloRequest, wire::HelloOffer>(body).value();
      what(both.first, both.second);
      hello.resize(hello.size() - body.size());
      wire::encode_body(both.first, hello);
      wire::encode_body(both.second, hello);
    };
  };
  Meeting features;
  features.on_hello = change([](wire::HelloRequest& r, wire::HelloOffer&) { r.features = 0; });
  EXPECT_TRUE(refused(features, "initiator", "did not prove the key"));
  Meeting protect;
  protect.on_hello = change([](wire::HelloRequest&, wire::HelloOffer& o) { o.protect = wire::Protect::kNone; });
  EXPECT_TRUE(refused(protect, "initiator", "did not prove the key"));
  Meeting suite;
  suite.on_hello = change([](wire::HelloRequest&, wire::HelloOffer& o) { o.suites = 0; });
  EXPECT_TRUE(refused(suite, "acceptor", "protection"));
  Meeting more;
  more.on_hello = change([](wire::HelloRequest&, wire::HelloOffer& o) { o.protect = static_cast<wire::Protect>(3); });
  EXPECT_TRUE(refused(more, "acceptor", "protection"));
  Meeting user;
  user.on_hello = change([](wire::HelloRequest&, wire::HelloOffer& o) { o.user_key = Bytes(1); });
  EXPECT_TRUE(refused(user, "acceptor", "version 0"));
}

// --- seals ---

TEST(TagWindow, TakesEachTagOnce) {
  TagWindow window(bmi::Tag(5ULL << kTagBitsPerRequest));
  const auto tag = [](std::uint64_t n) { return bmi::Tag((5 + n) << kTagBitsPerRequest); };
  EXPECT_FALSE(window.open(tag(0))) << "that of the authenticate itself";
  EXPECT_FALSE(window.open(bmi::Tag(tag(1).value + 1))) << "no request's tag";
  EXPECT_FALSE(window.open(bmi::Tag(4ULL << kTagBitsPerRequest)));
  for (const std::uint64_t n : {1ULL, 3ULL, 2ULL, 4000ULL, 2000ULL, 4097ULL}) {
    EXPECT_TRUE(window.open(tag(n))) << n;
    window.take(tag(n));
    EXPECT_FALSE(window.open(tag(n))) << n;
  }
  EXPECT_FALSE(window.open(tag(1)));
  EXPECT_TRUE(window.open(tag(5)));
  window.take(tag(10'000));
  EXPECT_FALSE(window.open(tag(5))) << "too far behind";
  EXPECT_FALSE(window.open(tag(10'000 - TagWindow::kSize)));
  EXPECT_TRUE(window.open(tag(10'001 - TagWindow::kSize)));
  EXPECT_FALSE(window.open(tag((1ULL << 48U) + 1)));
}

TEST(TagWindow, AgreesWithASetOfAllTags) {
  SeededRandom random(3);
  TagWindow window{bmi::Tag(0)};
  std::set<std::uint64_t> taken;
  std::uint64_t newest = 0;
  for (int i = 0; i < 200'000; ++i) {
    const std::uint64_t jump = random.chance(1, 500) ? random.below(10'000) : random.below(8);
    const std::uint64_t base = newest + jump;
    const std::uint64_t at = random.chance(1, 2) ? base : base - std::min(base, random.below(5000));
    const bool expected = at > 0 && (at > newest || newest - at < TagWindow::kSize) && !taken.contains(at);
    ASSERT_EQ(window.open(bmi::Tag(at << kTagBitsPerRequest)), expected) << at << " after " << newest;
    if (!expected) continue;
    window.take(bmi::Tag(at << kTagBitsPerRequest));
    taken.insert(at);
    newest = std::max(newest, at);
  }
}

TEST(Seals, AreGenuineForOneMessageOneTagAndOneDirection) {
  Meeting meeting;
  ASSERT_EQ(reason(meeting), "let in");
  Seals client(meeting.keys, End::kInitiator);
  Seals server(meeting.keys, End::kAcceptor);
  const Bytes body = to_bytes(as_bytes("a request"));
  const bmi::Tag tag(77ULL << kTagBitsPerRequest);
  const auto sealed = [&](Seals& by, bmi::Tag under) {
    Bytes message = body;
    const auto code = by.seal(under, {body});
    message.insert(message.end(), code.begin(), code.end());
    return message;
  };
  EXPECT_TRUE(server.genuine(tag, sealed(client, tag)));
  EXPECT_TRUE(client.genuine(tag, sealed(server, tag)));
  EXPECT_FALSE(server.genuine(bmi::Tag(78ULL << kTagBitsPerRequest), sealed(client, tag)));
  EXPECT_FALSE(server.genuine(tag, sealed(server, tag))) << "its own, sent back";
  EXPECT_FALSE(server.genuine(tag, body));
  EXPECT_FALSE(server.genuine(tag, ByteView(body).first(3)));
  for (std::size_t bit = 0; bit < (body.size() + Seals::kSize) * 8; ++bit) {
    Bytes message = sealed(client, tag);
    message[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_FALSE(server.genuine(tag, message)) << bit;
  }
  Meeting other;
  other.random = SeededRandom(99);
  ASSERT_EQ(reason(other), "let in");
  Seals elsewhere(other.keys, End::kAcceptor);
  EXPECT_FALSE(elsewhere.genuine(tag, sealed(client, tag))) << "of another connection";
}

}  // namespace
}  // namespace spate::rpc
