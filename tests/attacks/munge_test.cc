// SPDX-License-Identifier: Apache-2.0
// Users authenticated by munge, with a real munged. Its word is believed. A credential that is expired, repeated, of
// another realm, for another server or readable by others is refused. Skipped without munged.
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/expect.h"
#include "bmi/sim/fabric.h"
#include "bmi/sim/network_interface.h"
#include "tests/attacks/site.h"

namespace spate::attacks {
namespace {

using bmi::sim::url_of;
using rpc::Munge;
using testing::HasSubstr;
using testing::Not;

constexpr uid_t kMungeUser = 65490;  // no account has this number
const ServerId kOne{1};

bool has_munged() { return ::access("/usr/sbin/munged", X_OK) == 0 && ::access("/usr/bin/munge", X_OK) == 0; }

/// One realm: a munged with its own key. It runs as a user of its own if this process is root.
class Realm {
 public:
  explicit Realm(const std::string& folder) : folder_(folder) {
    std::filesystem::create_directory(folder_);
    std::filesystem::permissions(folder_, static_cast<std::filesystem::perms>(0755));
    Bytes key(128);
    SystemRandom().fill(key);
    std::ofstream(folder_ + "/key", std::ios::binary).write(reinterpret_cast<const char*>(key.data()), 128);
    std::filesystem::permissions(folder_ + "/key", static_cast<std::filesystem::perms>(0600));
    if (::geteuid() == 0) {
      SPATE_CHECK(::chown(folder_.c_str(), kMungeUser, kMungeUser) == 0);
      SPATE_CHECK(::chown((folder_ + "/key").c_str(), kMungeUser, kMungeUser) == 0);
    }
    pid_ = ::fork();
    if (pid_ == 0) start();
    while (::access(socket().c_str(), R_OK) != 0 && ::waitpid(pid_, nullptr, WNOHANG) == 0) ::poll(nullptr, 0, 10);
  }
  ~Realm() { stop(); }
  Realm(const Realm&) = delete;
  Realm& operator=(const Realm&) = delete;
  void stop() {
    if (pid_ <= 0) return;
    // munged misses a signal that comes between its look for one and its wait for a client.
    do {
      ::kill(pid_, SIGTERM);
      ::poll(nullptr, 0, 10);
    } while (::waitpid(pid_, nullptr, WNOHANG) == 0);
    pid_ = 0;
  }
  std::string socket() const { return folder_ + "/socket"; }
  Munge munge(std::uint32_t server = ::geteuid()) const { return Munge({socket(), server}); }

 private:
  [[noreturn]] void start() const {
    if (::geteuid() == 0 && (::setgid(kMungeUser) != 0 || ::setuid(kMungeUser) != 0)) ::_exit(1);
    const auto option = [this](const char* name) { return std::string("--") + name + "=" + folder_ + "/" + name; };
    const std::string key = "--key-file=" + folder_ + "/key";
    const std::string log = option("log-file");
    const std::string pid = option("pid-file");
    const std::string seed = option("seed-file");
    const std::string at = "--socket=" + socket();
    SPATE_CHECK(std::freopen("/dev/null", "w", stderr) != nullptr);
    ::execl("/usr/sbin/munged", "munged", "--foreground", key.c_str(), log.c_str(), pid.c_str(), seed.c_str(),
            at.c_str(), nullptr);
    ::_exit(1);
  }
  const std::string folder_;
  pid_t pid_ = 0;
};

class MungeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_munged()) GTEST_SKIP() << "needs munged (package munge)";
    std::string name = ::testing::TempDir() + "munge.XXXXXX";
    folder_ = ::mkdtemp(name.data());
    std::filesystem::permissions(folder_, static_cast<std::filesystem::perms>(0755));
    realm_ = std::make_unique<Realm>(folder_ + "/one");
    ASSERT_OK(Munge::open({realm_->socket(), 0}));
  }
  void TearDown() override {
    realm_.reset();
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }
  /// A credential made by the program munge with these options. Its payload is a client's.
  Bytes credential_with(const std::string& options) {
    const Munge munge = realm_->munge();
    Bytes payload = to_bytes(as_bytes("spate munge 1"));
    Encoder out(payload);
    out.u64(kFs.value);
    out.u32(kOne.value);
    out.raw(Bytes(32));
    std::ofstream(folder_ + "/payload", std::ios::binary)
        .write(reinterpret_cast<const char*>(payload.data()), static_cast<std::streamsize>(payload.size()));
    const std::string command = "munge --socket=" + realm_->socket() + " --input=" + folder_ +
                                "/payload --output=" + folder_ + "/credential " + options;
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    std::ifstream file(folder_ + "/credential");
    std::string text;
    std::getline(file, text);
    return to_bytes(as_bytes(text));
  }
  static std::string restricted() { return "--restrict-uid=" + std::to_string(::geteuid()); }
  std::string reason(const Munge& munge, const Bytes& credential, ServerId self = kOne, FsId fs = kFs) {
    const auto read = munge.read(fs, self, credential);
    if (read) return "believed";
    EXPECT_EQ(read.code(), Errc::kUnauthenticated);
    return read.error().message();
  }
  std::string folder_;
  std::unique_ptr<Realm> realm_;
};

TEST_F(MungeTest, TheUserComesFromMungeAndRootIsMappedToNobody) {
  const Munge munge = realm_->munge();
  const auto key = munge.key_for(kFs, kOne);
  ASSERT_OK(key);
  const auto identity = munge.read(kFs, kOne, key->restrictions);
  ASSERT_OK(identity);
  EXPECT_EQ(identity->secret, key->secret);
  EXPECT_EQ(identity->key.user.uid, ::geteuid() == 0 ? 65534 : ::geteuid());
  EXPECT_EQ(fault_of(identity->key), "");
}

TEST_F(MungeTest, ACredentialIsAcceptedOnce) {
  const Munge munge = realm_->munge();
  const auto key = munge.key_for(kFs, kOne);
  ASSERT_OK(key);
  ASSERT_OK(munge.read(kFs, kOne, key->restrictions));
  EXPECT_THAT(reason(munge, key->restrictions), HasSubstr("Replayed"));
}

TEST_F(MungeTest, AnExpiredCredentialIsRefused) {
  const Bytes credential = credential_with("--ttl=1 " + restricted());
  ::poll(nullptr, 0, 2500);  // longer than the credential's life of one second
  EXPECT_THAT(reason(realm_->munge(), credential), HasSubstr("Expired"));
}

TEST_F(MungeTest, ACredentialOfAnotherRealmIsRefused) {
  const Realm other(folder_ + "/two");
  const auto key = other.munge().key_for(kFs, kOne);
  ASSERT_OK(key);
  EXPECT_THAT(reason(realm_->munge(), key->restrictions), HasSubstr("Invalid"));
}

TEST_F(MungeTest, ACredentialForAnotherServerOrFileSystemIsRefused) {
  const Munge munge = realm_->munge();
  EXPECT_THAT(reason(munge, munge.key_for(kFs, ServerId(2))->restrictions), HasSubstr("another server"));
  EXPECT_THAT(reason(munge, munge.key_for(FsId(99), kOne)->restrictions), HasSubstr("another server"));
}

/// A credential contains a secret. Any process that can read it can act as its user.
TEST_F(MungeTest, ACredentialThatOthersCanReadIsRefused) {
  const Munge munge = realm_->munge();
  EXPECT_EQ(reason(munge, credential_with(restricted())), "believed") << "made as a client makes it";
  EXPECT_THAT(reason(munge, credential_with("")), HasSubstr("users other than the server"));
  const std::string in_clear = reason(munge, credential_with("--cipher=none " + restricted()));
  EXPECT_THAT(in_clear, HasSubstr("not encrypted"));
  EXPECT_THAT(in_clear, Not(HasSubstr("munge_server_user"))) << "that setting is right";
  const Munge for_another = realm_->munge(::geteuid() + 1);
  EXPECT_THAT(reason(munge, for_another.key_for(kFs, kOne)->restrictions), HasSubstr("nauthorized"));
}

TEST_F(MungeTest, BytesThatAreNoCredentialAreRefused) {
  const Munge munge = realm_->munge();
  for (const char* const text : {"", "x", "MUNGE:AwQFAAB:", "MUNGE:AwQFAAC00000000000000000000000000000000:"})
    EXPECT_THAT(reason(munge, to_bytes(as_bytes(text))), HasSubstr("munge")) << text;
  EXPECT_THAT(reason(munge, Bytes(5000, std::byte{'x'})), HasSubstr("too long"));
  Bytes altered = munge.key_for(kFs, kOne)->restrictions;
  altered[altered.size() / 2] ^= std::byte{1};
  EXPECT_NE(reason(munge, altered), "believed");
}

TEST_F(MungeTest, WithoutMungedEveryCredentialIsRefused) {
  const Munge munge = realm_->munge();
  const auto key = munge.key_for(kFs, kOne);
  realm_->stop();
  EXPECT_ERRC(munge.read(kFs, kOne, key->restrictions), Errc::kBusy) << "he may come later";
  const auto none = munge.key_for(kFs, kOne);
  EXPECT_ERRC(none, Errc::kUnauthenticated);
  EXPECT_THAT(none.error().message(), HasSubstr("munged of this machine"));
}

/// Two servers and their clients, with a munged.
class MungeSiteTest : public MungeTest {
 protected:
  void SetUp() override {
    MungeTest::SetUp();
    if (IsSkipped()) return;
    for (const std::uint32_t number : {1U, 2U}) {
      sites_.push_back(std::make_unique<Site>(
          at(number), executor_, random_, number, url_of({number, 0}), kFs, client_key(),
          [this](rpc::ServerOptions& o) { o.munge = std::make_shared<const Munge>(realm_->munge()); }));
    }
  }
  void TearDown() override {
    sites_.clear();
    MungeTest::TearDown();
  }
  MakeModule at(std::uint32_t node) {
    return [this, node] { return bmi::sim::attach(fabric_, node); };
  }
  std::unique_ptr<Victim> client(const Site& site, std::uint32_t wanted = 1) {
    auto made = std::make_unique<Victim>(at(++nodes_), executor_, random_, wire::PeerKind::kClient,
                                         std::vector<std::string>{site.url}, wanted);
    made->identity.key.reset();
    made->identity.credential = who_;
    made->identity.fresh_key = [munge = realm_->munge()](ServerId server) { return munge.key_for(kFs, server); };
    return made;
  }
  /// munged uses the real clock. So simulated time advances only when nothing has happened for about 3 s.
  Result<void> ask(Victim& who, wire::Op op) {
    job::Gate gate(executor_);
    std::optional<Result<void>> out;
    job::spawn(gate, ask_into(who, op, out));
    for (int quiet = 0; gate.count() > 0;) {
      if (executor_.step()) continue;
      if (fabric_.next_event_time() != MonoTime::never() && fabric_.deliver_next()) continue;
      ::poll(nullptr, 0, 1);
      if (++quiet < 3000) continue;
      fabric_.run_until(executor_.next_timer());
    }
    return *std::move(out);
  }
  job::Task<void> ask_into(Victim& who, wire::Op op, std::optional<Result<void>>& out) {
    rpc::CallOptions options;
    options.deadline = executor_.now() + std::chrono::seconds(5);
    auto reply = co_await who.channel->call(op, {}, options);
    out.emplace(reply ? Result<void>() : Result<void>(reply.error()));
  }
  std::string reason_of(Victim& who, wire::Op op) {
    const auto result = ask(who, op);
    return result ? "done" : result.error().message();
  }

  const Credential who_ = squash_root({::geteuid(), ::getegid(), {}});
  ManualClock clock_;
  SeededRandom random_{5};
  job::Executor executor_{clock_};
  bmi::sim::Fabric fabric_{clock_, random_, {}};
  std::vector<std::unique_ptr<Site>> sites_;
  std::uint32_t nodes_ = 10;
};

TEST_F(MungeSiteTest, AUserWithoutAnyKeyIsLetInAsHimself) {
  const auto user = client(*sites_[0]);
  ASSERT_OK(ask(*user, wire::Op::kMkdir));
  EXPECT_EQ(sites_[0]->deeds.last, who_);
  EXPECT_ERRC(ask(*user, wire::Op::kStats), Errc::kNotPermitted) << "he is no operator";
}

TEST_F(MungeSiteTest, AClientGetsOnlyTheRightsThatMungeConfirms) {
  const auto liar = client(*sites_[0]);
  liar->identity.credential = {0, 0, {}};
  EXPECT_THAT(reason_of(*liar, wire::Op::kMkdir), HasSubstr("is good for user"));
  const auto member = client(*sites_[0]);
  member->identity.credential.groups = {0, 4321};
  ASSERT_OK(ask(*member, wire::Op::kMkdir));
  EXPECT_EQ(sites_[0]->deeds.last, who_) << "groups that this machine does not know for him are left out";
}

/// An attacker at server 1's address passes the connection on to server 2.
TEST_F(MungeSiteTest, AClientThatIsPassedOnToAnotherServerIsRefused) {
  const auto passed_on = client(*sites_[1], 1);
  EXPECT_THAT(reason_of(*passed_on, wire::Op::kMkdir), HasSubstr("this is server 2"));
  EXPECT_EQ(sites_[1]->deeds.joined, 0);
}

TEST_F(MungeSiteTest, AServerWithoutMungeRefusesItsCredentials) {
  const Site other(at(3), executor_, random_, 3, url_of({3, 0}));
  const auto user = client(other, 3);
  EXPECT_THAT(reason_of(*user, wire::Op::kMkdir), HasSubstr("admits nobody by munge"));
}

TEST_F(MungeSiteTest, AUserIsShutOutByRevocation) {
  const auto user = client(*sites_[0]);
  ASSERT_OK(ask(*user, wire::Op::kMkdir));
  sites_[0]->server->set_revoked_keys({rpc::munge_user({::geteuid(), 1, {}}).id});
  EXPECT_THAT(reason_of(*user, wire::Op::kMkdir), HasSubstr("was revoked"));
  EXPECT_THAT(reason_of(*client(*sites_[0]), wire::Op::kMkdir), HasSubstr("was revoked"));
}

/// Each handshake has its own secret, so an overheard credential is useless.
TEST_F(MungeSiteTest, ACredentialThatWasOverheardIsOfNoUse) {
  const auto key = realm_->munge().key_for(kFs, kOne);
  ASSERT_OK(key);
  const auto thief = client(*sites_[0]);
  thief->identity.fresh_key = [stolen = *key](ServerId) mutable -> Result<ClientKey> {
    stolen.secret.fill(std::byte{0});  // the thief cannot read it
    return stolen;
  };
  EXPECT_THAT(reason_of(*thief, wire::Op::kMkdir), HasSubstr("did not prove the key"));
  EXPECT_EQ(sites_[0]->deeds.joined, 0);
}

}  // namespace
}  // namespace spate::attacks
