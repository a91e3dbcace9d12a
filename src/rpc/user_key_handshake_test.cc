// SPDX-License-Identifier: Apache-2.0
// The handshake with a key that is good for one user. A peer that alters the key's restrictions, or uses it as another
// key, is refused.

#include "base/expect.h"
#include "rpc/handshake_fixture.h"

namespace spate::rpc {
namespace {

::testing::AssertionResult is_refused(Meeting& meeting, std::string_view by, std::string_view why) {
  const Result<void> result = meeting.handshake();
  const std::string said = result ? "let in" : meeting.refused_by + ": " + result.error().message();
  if (said.starts_with(by) && said.find(why) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << said << ", not: " << by << ": ..." << why;
}

UserKey some_user() {
  UserKey key;
  key.id.fill(std::byte{7});
  key.user = {1000, 100, {27}};
  key.read_only = true;
  return key;
}

ClientKey key_for(const UserKey& restrictions, const Key& file = key_of(1)) {
  const wire::FileKey issuer(FsId(0xF5), file);
  ClientKey key;
  key.issuer = issuer.id();
  key.restrictions = encoded(restrictions);
  key.secret = issuer.for_user(key.restrictions).secret;
  return key;
}

TEST(UserKeyHandshake, TheServerDerivesTheKeyAndItsRestrictions) {
  Meeting meeting;
  meeting.identity.key = key_for(some_user());
  ASSERT_OK(meeting.handshake());
  EXPECT_EQ(meeting.user_key, some_user());
  EXPECT_TRUE(meeting.both_alike);
  Meeting operators;
  ASSERT_OK(operators.handshake());
  EXPECT_EQ(operators.user_key, std::nullopt);
}

TEST(UserKeyHandshake, AKeyOfAnOlderClientKeyThatIsStillAcceptedIsGood) {
  Meeting meeting;
  meeting.identity.key = key_for(some_user());
  meeting.options.client_key.used = key_of(8);
  meeting.options.client_key.others = {key_of(1)};
  EXPECT_OK(meeting.handshake());
  Meeting gone;
  gone.identity.key = key_for(some_user());
  gone.options.client_key.used = key_of(8);
  EXPECT_TRUE(is_refused(gone, "acceptor", "does not have"));
}

TEST(UserKeyHandshake, AKeyThatReadsGetsNoBatches) {
  Meeting reads;
  reads.identity.key = key_for(some_user());
  ASSERT_OK(reads.handshake());
  EXPECT_EQ(reads.features & wire::kFeatureBatches, 0U);
  EXPECT_NE(reads.features & wire::kFeatureLeases, 0U);
  UserKey writing = some_user();
  writing.read_only = false;
  Meeting writes;
  writes.identity.key = key_for(writing);
  ASSERT_OK(writes.handshake());
  EXPECT_NE(writes.features & wire::kFeatureBatches, 0U);
}

/// Keys with other restrictions than some_user() has.
std::vector<UserKey> altered_keys() {
  std::vector<UserKey> all(6, some_user());
  all[0].user.uid = 1001;
  all[1].user.gid = 4;
  all[2].user.groups = {4, 27};
  all[3].read_only = false;
  all[4].until = WallTime{INT64_MAX};
  all[5].id.fill(std::byte{8});
  return all;
}

TEST(UserKeyHandshake, AlteredRestrictionsAreAnotherKey) {
  for (const UserKey& altered : altered_keys()) {
    Meeting meeting;
    ClientKey forged = key_for(some_user());
    forged.restrictions = encoded(altered);
    meeting.identity.key = forged;
    EXPECT_TRUE(is_refused(meeting, "initiator", "did not prove the key")) << "uid " << altered.user.uid;
  }
}

/// An attacker's client does not mind that the server has not proved the key.
TEST(UserKeyHandshake, TheServerRefusesAProofByAnotherKeyThanTheRestrictedOne) {
  for (const UserKey& altered : altered_keys()) {
    ClientKey forged = key_for(some_user());
    forged.restrictions = encoded(altered);
    Meeting meeting;
    meeting.identity.key = forged;
    ASSERT_FALSE(meeting.handshake()) << "uid " << altered.user.uid;
    const Acceptor acceptor(meeting.options);
    std::optional<Handshake> state(std::in_place);
    wire::ReplyHeader success;
    Bytes reply;
    wire::encode_body(success, reply);
    const auto body =
        acceptor.hello(Meeting::received(meeting.hello), reply, {meeting.reached}, meeting.random, *state);
    ASSERT_OK(body);
    reply.insert(reply.end(), body->begin(), body->end());
    wire::AuthenticateRequest claim;
    claim.server_nonce = state->server_nonce;
    wire::RequestHeader header = meeting.header;
    header.op = wire::Op::kAuthenticate;
    Bytes message;
    wire::encode_body(header, message);
    wire::encode_body(claim, message);
    const Key key = wire::FileKey(FsId(0xF5), forged).for_acceptor(wire::KeyRole::kClient, ServerId(3));
    wire::Transcript transcript(key, state->client_nonce, state->server_nonce, meeting.hello,
                                ByteView(reply).first(reply.size() - sizeof(wire::Proof)));
    wire::encode_body(wire::AuthenticateFinish{transcript.finish(message)}, message);
    EXPECT_ERRC(acceptor.authenticate(Meeting::received(message), state), Errc::kUnauthenticated);
  }
}

TEST(UserKeyHandshake, AUserIsNoServerAndIssuesNoKeys) {
  Meeting server;
  server.identity.key = key_for(some_user());
  server.kind = wire::PeerKind::kServer;
  EXPECT_TRUE(is_refused(server, "acceptor", "wrong server key"));
  // Derived from the server key, or from a user's key.
  Meeting other_role;
  other_role.identity.key = key_for(some_user(), key_of(2));
  EXPECT_TRUE(is_refused(other_role, "acceptor", "does not have"));
  ClientKey again = key_for(some_user());
  UserKey altered = some_user();
  altered.user.uid = 1001;
  const wire::FileKey own(FsId(0xF5), again);
  again.restrictions = encoded(altered);
  again.secret = own.for_user(again.restrictions).secret;
  Meeting derived;
  derived.identity.key = again;
  EXPECT_TRUE(is_refused(derived, "initiator", "did not prove the key"));
}

TEST(UserKeyHandshake, AUsersKeyIsNoKeyOfTheFile) {
  Meeting bare;
  bare.identity.key = key_for(some_user()).secret;
  EXPECT_TRUE(is_refused(bare, "acceptor", "wrong client key"));
  Meeting version_1;
  version_1.version = 1;
  version_1.options.allow_version_1 = true;
  version_1.identity.key = key_for(some_user());
  EXPECT_TRUE(is_refused(version_1, "acceptor", "wrong client key"));
}

}  // namespace
}  // namespace spate::rpc
