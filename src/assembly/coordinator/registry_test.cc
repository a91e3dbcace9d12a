// SPDX-License-Identifier: Apache-2.0
// The private keys that a meta server accepts for etcd.
#include "assembly/coordinator/registry.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/expect.h"

namespace spate::assembly {
namespace {

using testing::HasSubstr;

class CoordinatorKeyTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "coordinator.XXXXXX";
    folder_ = ::mkdtemp(name.data());
    for (const char* const file : {"ca.pem", "cert.pem", "key.pem"}) std::ofstream(folder_ + "/" + file) << "x";
    ASSERT_EQ(::chmod(key().c_str(), 0600), 0);
    config_.meta.coordinator = {"https://127.0.0.1:1"};
    config_.meta.coordinator_tls = folder_;
    if (auto made = make(); made.code() == Errc::kNotSupported) GTEST_SKIP() << made.error().message();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string key() const { return folder_ + "/key.pem"; }
  Result<std::unique_ptr<coord::Coordinator>> make() { return make_coordinator(config_, executor_); }

  std::string folder_;
  ManualClock clock_;
  job::Executor executor_{clock_};
  config::FileSystemConfig config_;
};

TEST_F(CoordinatorKeyTest, AKeyThatOnlyItsOwnerOrItsGroupCanReadIsUsed) {
  for (const mode_t mode : {0400U, 0600U, 0640U, 0440U}) {
    ASSERT_EQ(::chmod(key().c_str(), mode), 0);
    EXPECT_OK(make()) << mode;
  }
}

TEST_F(CoordinatorKeyTest, AKeyThatOthersCanReadOrChangeIsRefused) {
  for (const mode_t mode : {0644U, 0604U, 0602U, 0660U, 0620U, 0601U}) {
    ASSERT_EQ(::chmod(key().c_str(), mode), 0);
    const auto made = make();
    ASSERT_ERRC(made, Errc::kPermissionDenied) << mode;
    EXPECT_THAT(made.error().message(), HasSubstr("meta.coordinator_tls"));
    EXPECT_THAT(made.error().message(), HasSubstr(key() + " can be read or changed by others; chmod 600 it"));
  }
}

TEST_F(CoordinatorKeyTest, AKeyOfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to give a file away";
  ASSERT_EQ(::chown(key().c_str(), 65504, 0), 0);
  const auto made = make();
  ASSERT_ERRC(made, Errc::kPermissionDenied);
  EXPECT_THAT(made.error().message(), HasSubstr("belongs to another user (uid 65504)"));
}

TEST_F(CoordinatorKeyTest, AFileThatIsNotThereIsNamed) {
  ASSERT_EQ(::unlink(key().c_str()), 0);
  const auto made = make();
  ASSERT_ERRC(made, Errc::kNotFound);
  EXPECT_THAT(made.error().message(), HasSubstr(key()));
}

}  // namespace
}  // namespace spate::assembly
