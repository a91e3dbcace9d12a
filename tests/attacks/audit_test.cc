// SPDX-License-Identifier: Apache-2.0
// The audit log of a server under attack. Each kind of refusal gets a line, no peer can forge lines, and a flood of
// requests neither fills the disk nor suppresses the lines about other peers.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/expect.h"
#include "bmi/sim/fabric.h"
#include "bmi/sim/network_interface.h"
#include "tests/attacks/site.h"

namespace spate::attacks {
namespace {

using bmi::sim::url_of;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class AuditTest : public ::testing::Test {
 protected:
  AuditTest() {
    std::string name = ::testing::TempDir() + "audit.XXXXXX";
    folder_ = ::mkdtemp(name.data());
    auto opened = log::LineFile::open(folder_ + "/audit");
    EXPECT_OK(opened);
    file_ = *std::move(opened);
    site_ = std::make_unique<Site>(at(1), executor_, random_, 1, url_of({1, 0}), kFs, client_key(),
                                   [this](rpc::ServerOptions& options) { options.audit = file_.get(); });
  }
  ~AuditTest() override {
    site_.reset();
    std::filesystem::remove_all(folder_);
  }
  MakeModule at(std::uint32_t node) {
    return [this, node] { return bmi::sim::attach(fabric_, node); };
  }
  std::unique_ptr<Victim> client() {
    return std::make_unique<Victim>(at(++nodes_), executor_, random_, wire::PeerKind::kClient,
                                    std::vector<std::string>{site_->url}, 1);
  }
  static UserKey alice() {
    UserKey key;
    key.id.fill(std::byte{0xA1});
    key.user = {1000, 100, {}};
    return key;
  }
  static ClientKey key_for(const UserKey& restrictions) {
    const wire::FileKey issuer(kFs, client_key());
    ClientKey key;
    key.issuer = issuer.id();
    key.restrictions = encoded(restrictions);
    key.secret = issuer.for_user(key.restrictions).secret;
    return key;
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
  std::vector<std::string> lines() const {
    std::ifstream file(folder_ + "/audit");
    std::vector<std::string> all;
    for (std::string line; std::getline(file, line);) all.push_back(line);
    return all;
  }

  ManualClock clock_;
  SeededRandom random_{5};
  job::Executor executor_{clock_};
  bmi::sim::Fabric fabric_{clock_, random_, {}};
  std::string folder_;
  std::unique_ptr<log::LineFile> file_;
  std::unique_ptr<Site> site_;
  std::uint32_t nodes_ = 1;
};

TEST_F(AuditTest, ASessionHasALineAndRequestsOfUsersHaveNone) {
  const auto user = client();
  user->identity.credential = {1000, 100, {}};
  for (int i = 0; i < 5; ++i) ASSERT_OK(ask(*user, wire::Op::kMkdir));
  ASSERT_EQ(lines().size(), 1U);
  EXPECT_THAT(lines()[0], AllOf(StartsWith("{\"time\":\""), HasSubstr(R"("server":1,"event":"session","outcome":"ok")"),
                                HasSubstr(R"("key":"client","uid":1000,"client":77,"description":"victim"})")));
}

TEST_F(AuditTest, AWrongKeyHasALine) {
  const auto unauthenticated = client();
  unauthenticated->identity.key = key_of(9);
  EXPECT_ERRC(ask(*unauthenticated, wire::Op::kMkdir), Errc::kUnauthenticated);
  EXPECT_THAT(lines(),
              Contains(AllOf(HasSubstr(R"("event":"refused","op":"hello","outcome":"unauthenticated")"),
                             HasSubstr("wrong client key"), HasSubstr(R"("key":"none")"), Not(HasSubstr("uid")))));
}

TEST_F(AuditTest, AKeyThatWasRevokedHasALineThatNamesIt) {
  const auto user = client();
  user->identity.key = key_for(alice());
  user->identity.credential = alice().user;
  ASSERT_OK(ask(*user, wire::Op::kMkdir));
  site_->server->set_revoked_keys({alice().id});
  EXPECT_ERRC(ask(*user, wire::Op::kMkdir), Errc::kUnauthenticated);
  EXPECT_THAT(lines(), Contains(AllOf(HasSubstr(R"("event":"refused","op":"mkdir")"), HasSubstr("was revoked"),
                                      HasSubstr(R"("key":"user a1a1a1a1a1a1a1a1","uid":1000)"))));
  EXPECT_THAT(lines(), Contains(AllOf(HasSubstr(R"("op":"hello")"), HasSubstr("was revoked"))));
}

TEST_F(AuditTest, ARequestInAnotherUsersNameHasALine) {
  const auto user = client();
  user->identity.key = key_for(alice());
  user->identity.credential = {0, 0, {}};
  EXPECT_ERRC(ask(*user, wire::Op::kMkdir), Errc::kUnauthenticated);
  EXPECT_THAT(lines(), Contains(AllOf(HasSubstr(R"("op":"authenticate")"), HasSubstr("is good for user 1000"))));
}

TEST_F(AuditTest, AnOperatorRequestFromAUserHasALine) {
  const auto user = client();
  user->identity.key = key_for(alice());
  user->identity.credential = alice().user;
  EXPECT_ERRC(ask(*user, wire::Op::kStats), Errc::kNotPermitted);
  EXPECT_THAT(lines(), Contains(AllOf(HasSubstr(R"("event":"refused","op":"stats","outcome":"not_permitted")"),
                                      HasSubstr("only the operator"))));
  const auto other = client();
  EXPECT_ERRC(ask(*other, wire::Op::kMetaScan), Errc::kNotPermitted);
  EXPECT_THAT(lines(), Contains(HasSubstr(R"("op":"meta_scan")")));
}

TEST_F(AuditTest, AChangeByTheOperatorHasALineWithItsOutcome) {
  const auto operators = client();
  site_->deeds.says = "turn it off\nand on";
  ASSERT_OK(ask(*operators, wire::Op::kReaddir));
  EXPECT_THAT(lines(), Contains(AllOf(HasSubstr(R"("event":"admin","op":"readdir","outcome":"ok")"),
                                      HasSubstr(R"("what":"turn it off\u000aand on")"))));
}

/// Only the description is text that a peer chooses itself.
TEST_F(AuditTest, RequestsCannotForgeLines) {
  const auto forger = client();
  forger->identity.description =
      "x\"}\n{\"time\":\"now\",\"event\":\"admin\",\"uid\":0}\r\x1b[2J" + std::string(100'000, 'y');
  forger->identity.description.resize(3000);
  ASSERT_OK(ask(*forger, wire::Op::kMkdir));
  ASSERT_EQ(lines().size(), 1U);
  EXPECT_LE(lines()[0].size(), 1024U);
  EXPECT_THAT(lines()[0], HasSubstr(R"("description":"x\"}\u000a{\"time\":\"now\",)"));
  EXPECT_TRUE(std::ranges::all_of(lines()[0], [](char c) { return c >= ' ' && c < 0x7f; })) << lines()[0];
}

TEST_F(AuditTest, AFloodOfUnauthenticatedPeersDoesNotSuppressTheLinesOfAnOperator) {
  const auto flooder = client();
  flooder->identity.key = key_of(9);
  for (int i = 0; i < 300; ++i) EXPECT_ERRC(ask(*flooder, wire::Op::kMkdir), Errc::kUnauthenticated);
  const std::size_t flood = lines().size();
  EXPECT_LE(flood, 250U);
  EXPECT_GE(flood, 20U);
  const auto operators = client();
  site_->deeds.says = "something";
  ASSERT_OK(ask(*operators, wire::Op::kReaddir));
  const auto all = lines();
  ASSERT_EQ(all.size(), flood + 2);
  EXPECT_THAT(all.back(), HasSubstr(R"("event":"admin")"));
  const auto later = client();
  later->identity.key = key_of(8);
  EXPECT_ERRC(ask(*later, wire::Op::kMkdir), Errc::kUnauthenticated);
  EXPECT_THAT(lines(), Contains(HasSubstr(R"("left_out":)")));
}

}  // namespace
}  // namespace spate::attacks
