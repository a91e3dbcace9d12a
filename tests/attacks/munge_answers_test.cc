// SPDX-License-Identifier: Apache-2.0
// Which credentials of munge a server believes. The libmunge of the test (fake_munge.cc) gives any answer that a test
// wants. munge_test.cc tests the same with a real munged.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/expect.h"
#include "rpc/munge.h"

namespace spate::attacks {
namespace {

using rpc::Munge;
using rpc::MungeIdentity;
using testing::HasSubstr;

constexpr FsId kFs{7};
constexpr ServerId kServer{3};
constexpr unsigned kUser = 65504;  // no account has this number

/// An answer of munged about a credential. Each test changes some fields of an honest client's one.
struct Said {
  int status = 0;
  int cipher = 4;
  long only_for = static_cast<long>(::geteuid());
  unsigned uid = kUser;
  unsigned gid = kUser;
  std::string purpose = "spate munge 1";
  FsId fs = kFs;
  ServerId server = kServer;
  std::size_t secret_bytes = sizeof(Key);
};

Bytes credential_of(const Said& said) {
  Bytes payload = to_bytes(as_bytes(said.purpose));
  Encoder out(payload);
  out.u64(said.fs.value);
  out.u32(said.server.value);
  out.raw(Bytes(said.secret_bytes, std::byte{9}));
  std::string text = fmt::format("status={} cipher={} for={} uid={} gid={} payload=", said.status, said.cipher,
                                 said.only_for, said.uid, said.gid);
  for (const std::byte one : payload) text += fmt::format("{:02x}", static_cast<unsigned>(one));
  return to_bytes(as_bytes(text));
}

class MungeReadTest : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = Munge::open({});
    ASSERT_OK(opened);
    munge_ = *std::move(opened);
  }
  Result<MungeIdentity> read(const Said& said) const { return munge_->read(kFs, kServer, credential_of(said)); }
  /// The reason why the server refuses the credential; "believed" if it does not.
  std::string refusal(const Said& said) const {
    const auto done = read(said);
    if (done) return "believed";
    EXPECT_EQ(done.code(), Errc::kUnauthenticated);
    return done.error().message();
  }
  std::shared_ptr<const Munge> munge_;
};

TEST_F(MungeReadTest, ACredentialOfAnHonestClientIsAccepted) {
  const auto identity = read({});
  ASSERT_OK(identity);
  EXPECT_EQ(identity->key.user.uid, kUser);
  EXPECT_EQ(identity->key.user.gid, kUser);
  Key secret{};
  secret.fill(std::byte{9});
  EXPECT_EQ(identity->secret, secret);
}

TEST_F(MungeReadTest, RootIsMappedToNobody) {
  const auto identity = read({.uid = 0, .gid = 0});
  ASSERT_OK(identity);
  EXPECT_EQ(identity->key.user.uid, 65534U);
  EXPECT_EQ(identity->key.user.gid, 65534U);
}

/// A credential contains a secret. Any process that can read it can act as its user.
TEST_F(MungeReadTest, ACredentialInClearIsRefused) {
  EXPECT_THAT(refusal({.cipher = 0}), HasSubstr("not encrypted"));
  EXPECT_THAT(refusal({.cipher = -1}), HasSubstr("not encrypted")) << "a libmunge that does not say";
}

TEST_F(MungeReadTest, ACredentialThatOthersCanReadIsRefused) {
  EXPECT_THAT(refusal({.only_for = -1}), HasSubstr("users other than the server"));
  EXPECT_THAT(refusal({.only_for = static_cast<long>(::geteuid()) + 1}), HasSubstr("users other than the server"));
}

TEST_F(MungeReadTest, ACredentialForSomethingElseIsRefused) {
  for (const Said& said :
       {Said{.purpose = "spate munge 2"}, Said{.fs = FsId(8)}, Said{.server = ServerId(4)}, Said{.secret_bytes = 31},
        Said{.secret_bytes = 33}, Said{.purpose = "", .secret_bytes = 0}}) {
    EXPECT_THAT(refusal(said), HasSubstr("for another server, or for another purpose"));
  }
}

TEST_F(MungeReadTest, ACredentialThatMungedRefusesIsRefused) {
  EXPECT_THAT(refusal({.status = 15}), HasSubstr("as ordered"));  // expired
  EXPECT_ERRC(read({.status = 6}), Errc::kBusy) << "munged does not answer";
  EXPECT_ERRC(munge_->read(kFs, kServer, Bytes(4097, std::byte{'x'})), Errc::kUnauthenticated);
}

/// A client's credential can be read only by the user that the servers run as.
TEST_F(MungeReadTest, AClientsCredentialIsForTheServersUserOnly) {
  const Munge to_another({.socket = "", .server_uid = ::geteuid() + 1});
  for (const Munge* const client : {munge_.get(), &to_another}) {
    const auto key = client->key_for(kFs, kServer);
    ASSERT_OK(key);
    const std::uint32_t reader = client == &to_another ? ::geteuid() + 1 : 0;
    EXPECT_THAT(std::string(as_text(key->restrictions)), HasSubstr(fmt::format(" for={} ", reader)));
  }
}

}  // namespace
}  // namespace spate::attacks
