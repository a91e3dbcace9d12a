// SPDX-License-Identifier: Apache-2.0
// A file system's client key is changed. A server refuses a client with the old key, unless the client finds the new
// key in its key file.
#include "bmi/tcp/tcp_module.h"
#include "tests/attacks/site.h"

namespace spate::attacks {
namespace {

class KeyChangeTest : public ::testing::Test {
 protected:
  Victim client() { return {make_, executor_, random_, wire::PeerKind::kClient, {site_.url}, 1}; }

  SystemClock clock_;
  job::Executor executor_{clock_};
  SystemRandom random_;
  MakeModule make_ = [this]() -> std::unique_ptr<bmi::Module> { return bmi::tcp::make_tcp_module(clock_); };
  Site site_{make_, executor_, random_, 1, "tcp://127.0.0.1:0", kFs, key_of(9)};
};

TEST_F(KeyChangeTest, AClientWithTheOldKeyIsRefusedByName) {
  Victim old = client();
  EXPECT_NE(old.reason(wire::Op::kMkdir).find("wrong client key"), std::string::npos);
  EXPECT_EQ(site_.deeds.joined, 0);
}

TEST_F(KeyChangeTest, AClientWithTheNewKeyInItsFileGoesOn) {
  Victim running = client();
  int looked = 0;
  running.identity.newer_key = [&looked]() -> Result<ClientKey> {
    ++looked;
    return ClientKey(key_of(9));
  };
  EXPECT_EQ(running.reason(wire::Op::kMkdir), "done");
  EXPECT_EQ(looked, 1);
  EXPECT_EQ(running.reason(wire::Op::kMkdir), "done");
  EXPECT_EQ(looked, 1) << "a key that is accepted is not looked for again";
}

TEST_F(KeyChangeTest, AllChannelsUseTheNewKeyThatOneHasFound) {
  Victim running = client();
  running.identity.newer_key = [&running]() -> Result<ClientKey> {
    running.identity.key = key_of(9);  // another channel finds the key while this one is refused
    return Errc::kNotFound;
  };
  EXPECT_EQ(running.reason(wire::Op::kMkdir), "done");
}

TEST_F(KeyChangeTest, AKeyFileWithoutTheNewKeyChangesNothing) {
  const std::vector<Result<ClientKey>> in_file = {ClientKey(client_key()), ClientKey(key_of(8)), Errc::kNotFound};
  for (const Result<ClientKey>& found : in_file) {
    Victim running = client();
    running.identity.newer_key = [&found] { return found; };
    EXPECT_NE(running.reason(wire::Op::kMkdir).find("wrong client key"), std::string::npos);
  }
  EXPECT_EQ(site_.deeds.joined, 0);
}

TEST_F(KeyChangeTest, TheNewKeyIsFoundAtOnceThoughAServerThatDoesNotLeadStillAcceptsTheOldOne) {
  Site follower{make_, executor_, random_, 2};
  follower.deeds.leads = false;
  Victim running{make_, executor_, random_, wire::PeerKind::kClient, {site_.url, follower.url}, 0};
  running.identity.newer_key = []() -> Result<ClientKey> { return ClientKey(key_of(9)); };
  EXPECT_OK(running.ask(wire::Op::kMkdir)) << "a refusal counts only when it has lasted";
}

}  // namespace
}  // namespace spate::attacks
