// SPDX-License-Identifier: Apache-2.0
// The holder of a user's key asks for more than the key allows: as another user, as root, in another group, for writing
// with a key for reading, after the key's end or revocation, and for an operator's requests.
#include <gmock/gmock.h>

#include "base/expect.h"
#include "bmi/sim/fabric.h"
#include "bmi/sim/network_interface.h"
#include "tests/attacks/site.h"

namespace spate::attacks {
namespace {

using bmi::sim::url_of;
using std::chrono::hours;
using testing::HasSubstr;

UserKey alice() {
  UserKey key;
  key.id.fill(std::byte{0xA1});
  key.user = {1000, 100, {27, 50}};
  return key;
}

ClientKey key_for(const UserKey& restrictions) {
  const wire::FileKey issuer(kFs, client_key());
  ClientKey key;
  key.issuer = issuer.id();
  key.restrictions = encoded(restrictions);
  key.secret = issuer.for_user(key.restrictions).secret;
  return key;
}

class UserKeysTest : public ::testing::Test {
 protected:
  MakeModule at(std::uint32_t node) {
    return [this, node] { return bmi::sim::attach(fabric_, node); };
  }
  std::unique_ptr<Victim> holder(const UserKey& key) { return holder(key, key.user); }
  /// A client with this key, which claims to be this user.
  std::unique_ptr<Victim> holder(const UserKey& key, const Credential& claim) {
    auto client = std::make_unique<Victim>(at(++nodes_), executor_, random_, wire::PeerKind::kClient,
                                           std::vector<std::string>{site_->url}, 1);
    client->identity.key = key_for(key);
    client->identity.credential = claim;
    return client;
  }
  Result<void> ask(Victim& who, wire::Op op) {
    job::Gate gate(executor_);
    std::optional<Result<void>> out;
    job::spawn(gate, ask_into(who, op, out));
    while (gate.count() > 0) {
      if (executor_.step()) continue;
      const MonoTime next = executor_.next_timer();
      if (fabric_.next_event_time() <= next) {
        SPATE_CHECK(fabric_.deliver_next());
      } else {
        fabric_.run_until(next);
      }
    }
    return *std::move(out);
  }
  job::Task<void> ask_into(Victim& who, wire::Op op, std::optional<Result<void>>& out) {
    rpc::CallOptions options;
    options.deadline = executor_.now() + std::chrono::seconds(5);
    auto reply = co_await who.channel->call(op, {}, options);
    out.emplace(reply ? Result<void>() : Result<void>(reply.error()));
  }
  std::string reason(Victim& who, wire::Op op) {
    const auto result = ask(who, op);
    return result ? "done" : result.error().message();
  }

  ManualClock clock_;
  SeededRandom random_{5};
  job::Executor executor_{clock_};
  bmi::sim::Fabric fabric_{clock_, random_, {}};
  std::unique_ptr<Site> site_ = std::make_unique<Site>(at(1), executor_, random_, 1, url_of({1, 0}));
  std::uint32_t nodes_ = 1;
};

TEST_F(UserKeysTest, AUserWithAKeyReadsAndWrites) {
  const auto user = holder(alice());
  EXPECT_OK(ask(*user, wire::Op::kGetattr));
  EXPECT_OK(ask(*user, wire::Op::kMkdir));
  EXPECT_EQ(site_->deeds.looked + site_->deeds.made, 2);
  EXPECT_EQ(site_->deeds.last, alice().user);
}

TEST_F(UserKeysTest, AUserActsInSomeOfTheGroups) {
  const auto user = holder(alice(), {1000, 27, {100}});
  EXPECT_OK(ask(*user, wire::Op::kMkdir));
}

TEST_F(UserKeysTest, NobodyActsAsAnotherUserOrInAnotherGroup) {
  const std::vector<Credential> claims = {{1001, 100, {}}, {0, 0, {}},        {0, 100, {}},     {1000, 0, {}},
                                          {1000, 101, {}}, {1000, 100, {51}}, {1000, 100, {0}}, {1000, 100, {27, 51}}};
  for (const Credential& claim : claims) {
    const auto liar = holder(alice(), claim);
    EXPECT_THAT(reason(*liar, wire::Op::kMkdir), HasSubstr("is good for user 1000")) << claim.uid << " " << claim.gid;
    EXPECT_THAT(reason(*liar, wire::Op::kGetattr), HasSubstr("server 1")) << "the message names the server";
  }
  EXPECT_EQ(site_->deeds.joined + site_->deeds.made + site_->deeds.looked, 0);
}

TEST_F(UserKeysTest, AKeyForReadingChangesNothing) {
  UserKey reads = alice();
  reads.read_only = true;
  const auto user = holder(reads);
  EXPECT_OK(ask(*user, wire::Op::kGetattr));
  EXPECT_ERRC(ask(*user, wire::Op::kMkdir), Errc::kReadOnly);
  EXPECT_EQ(site_->deeds.made, 0);
}

TEST_F(UserKeysTest, OnlyTheOperatorMaySendOperatorRequests) {
  const auto user = holder(alice());
  ASSERT_OK(ask(*user, wire::Op::kGetattr));
  for (const wire::Op op :
       {wire::Op::kReaddir, wire::Op::kMetaScan, wire::Op::kStats, wire::Op::kListLoads, wire::Op::kListFileLoads})
    EXPECT_ERRC(ask(*user, op), Errc::kNotPermitted) << wire::op_name(op);
  EXPECT_EQ(site_->deeds.operated + site_->deeds.scanned, 0);
  const auto server = holder(alice());
  server->identity.kind = wire::PeerKind::kServer;
  EXPECT_ERRC(ask(*server, wire::Op::kMetaScan), Errc::kUnauthenticated);
  Victim operators(at(++nodes_), executor_, random_, wire::PeerKind::kClient, {site_->url}, 1);
  EXPECT_OK(ask(operators, wire::Op::kReaddir));
  EXPECT_OK(ask(operators, wire::Op::kStats));
}

TEST_F(UserKeysTest, AKeyEndsAtItsTimeForRunningSessionsToo) {
  UserKey short_lived = alice();
  short_lived.until = WallTime{clock_.wall().ns + std::chrono::nanoseconds(hours(1)).count()};
  const auto user = holder(short_lived);
  ASSERT_OK(ask(*user, wire::Op::kMkdir));
  clock_.advance(hours(1));
  EXPECT_THAT(reason(*user, wire::Op::kMkdir), HasSubstr("has ended on"));
  EXPECT_THAT(reason(*user, wire::Op::kGetattr), HasSubstr("server 1"));
  EXPECT_THAT(reason(*holder(short_lived), wire::Op::kMkdir), HasSubstr("has ended on"));
  EXPECT_EQ(site_->deeds.made, 1);
  EXPECT_EQ(site_->deeds.joined, 1);
}

TEST_F(UserKeysTest, ARevokedKeyIsRefusedAtOnceInRunningSessionsToo) {
  UserKey other = alice();
  other.id.fill(std::byte{0xB2});
  const auto user = holder(alice());
  const auto remains = holder(other);
  ASSERT_OK(ask(*user, wire::Op::kMkdir));
  ASSERT_OK(ask(*remains, wire::Op::kMkdir));
  site_->server->set_revoked_keys({alice().id});
  EXPECT_THAT(reason(*user, wire::Op::kMkdir), HasSubstr("was revoked"));
  EXPECT_THAT(reason(*holder(alice()), wire::Op::kGetattr), HasSubstr("was revoked"));
  EXPECT_OK(ask(*remains, wire::Op::kMkdir));
  EXPECT_EQ(site_->deeds.made, 3);
}

TEST_F(UserKeysTest, ANewKeyInTheFileTakesOverFromOneThatHasEnded) {
  UserKey short_lived = alice();
  short_lived.until = WallTime{clock_.wall().ns + std::chrono::nanoseconds(hours(1)).count()};
  const auto user = holder(short_lived);
  ASSERT_OK(ask(*user, wire::Op::kMkdir));
  clock_.advance(hours(2));
  UserKey fresh = alice();
  fresh.id.fill(std::byte{0xC3});
  user->identity.newer_key = [fresh]() -> Result<ClientKey> { return key_for(fresh); };
  EXPECT_OK(ask(*user, wire::Op::kMkdir));
}

}  // namespace
}  // namespace spate::attacks
