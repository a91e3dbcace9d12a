// SPDX-License-Identifier: Apache-2.0
#include "trove/target_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <optional>

#include "base/expect.h"
#include "trove/datafile_name.h"

namespace spate::trove {
namespace {

constexpr TargetIdentity kThird{FsId(0x1122334455667788), TargetId(3)};

class TargetFolderTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(::mkdtemp(root_.data()), nullptr); }
  void TearDown() override { std::filesystem::remove_all(root_); }
  std::string path() const { return root_ + "/target"; }
  std::string identity_file() const { return path() + "/" + kTargetFileName; }

  /// Changes one byte of the identity file.
  void poke(std::size_t at, char value) {
    const UniqueFd fd(::open(identity_file().c_str(), O_WRONLY));
    ASSERT_EQ(::pwrite(fd.get(), &value, 1, static_cast<off_t>(at)), 1);
  }

  std::string root_ = "/dev/shm/spate-target-XXXXXX";
};

TEST_F(TargetFolderTest, FormatThenOpen) {
  ASSERT_OK(create_target(path(), kThird));
  const Result<TargetFolder> opened = open_target(path(), kThird);
  ASSERT_OK(opened);
  EXPECT_EQ(opened->identity, kThird);
  EXPECT_EQ(read_target_identity(path()).value(), kThird);
  struct stat st{};
  ASSERT_EQ(::stat(identity_file().c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777U, 0600U);
  EXPECT_EQ(st.st_size, 32);
  EXPECT_TRUE(std::filesystem::is_directory(path() + "/d/00"));
  EXPECT_TRUE(std::filesystem::is_directory(path() + "/d/ff"));
}

TEST_F(TargetFolderTest, AWrongTargetIsRefusedByName) {
  EXPECT_ERRC(open_target(path(), kThird), Errc::kNotFound);
  ASSERT_OK(create_target(path(), kThird));
  EXPECT_ERRC(create_target(path(), kThird), Errc::kExists);
  EXPECT_ERRC(create_target(root_ + "/other", {FsId(0), TargetId(1)}), Errc::kInvalidArgument);
  const Result<TargetFolder> other_fs = open_target(path(), {FsId(9), kThird.target});
  EXPECT_ERRC(other_fs, Errc::kWrongFileSystem);
  EXPECT_NE(other_fs.error().context().find("1122334455667788"), std::string::npos);
  EXPECT_ERRC(open_target(path(), {kThird.fs, TargetId(4)}), Errc::kWrongFileSystem);
}

TEST_F(TargetFolderTest, NewerFormatIsRefusedByItsNumber) {
  ASSERT_OK(create_target(path(), kThird));
  poke(8, 2);
  const Result<TargetFolder> opened = open_target(path(), kThird);
  EXPECT_ERRC(opened, Errc::kFormatTooNew);
  EXPECT_NE(opened.error().context().find("format 2"), std::string::npos);
}

TEST_F(TargetFolderTest, DamagedIdentityIsCorrupt) {
  ASSERT_OK(create_target(path(), kThird));
  for (std::size_t at = 12; at < 32; ++at) {
    poke(at, '\x5a');
    EXPECT_ERRC(open_target(path(), kThird), Errc::kCorrupt) << at;
    std::filesystem::remove(identity_file());
    ASSERT_OK(create_target(path(), kThird));
  }
  poke(0, 'x');
  EXPECT_ERRC(open_target(path(), kThird), Errc::kCorrupt);
  for (const off_t size : {0, 5, 31, 33}) {
    ASSERT_EQ(::truncate(identity_file().c_str(), size), 0);
    EXPECT_ERRC(open_target(path(), kThird), Errc::kCorrupt) << size;
  }
}

TEST_F(TargetFolderTest, HalfFormattedCanBeFormattedAgain) {
  std::filesystem::create_directories(path() + "/d/07");
  EXPECT_ERRC(open_target(path(), kThird), Errc::kNotFound);
  EXPECT_OK(create_target(path(), kThird));
  EXPECT_OK(open_target(path(), kThird));
}

TEST_F(TargetFolderTest, OneProcessAtATimeCanOpenIt) {
  ASSERT_OK(create_target(path(), kThird));
  {
    const Result<TargetFolder> first = open_target(path(), kThird);
    ASSERT_OK(first);
    EXPECT_ERRC(open_target(path(), kThird), Errc::kBusy);
  }
  EXPECT_OK(open_target(path(), kThird));
}

TEST(DatafileName, IsStable) {
  // These names are stored on disk, so they must never change.
  EXPECT_STREQ(DatafilePath({Handle(7), 0}).c_str(), "3d/0000000000000007.0");
  EXPECT_STREQ(DatafilePath({Handle(0xfedcba9876543210), 4294967295U}).c_str(), "77/fedcba9876543210.4294967295");
}

TEST(DatafileName, ParsesWhatItWrites) {
  for (std::uint64_t i = 1; i < 1000; ++i) {
    const DatafileId id{Handle(i * 0x9E3779B97F4A7C15ULL), static_cast<std::uint32_t>(i * i * i)};
    const std::string path = DatafilePath(id).c_str();
    EXPECT_EQ(parse_datafile_name(path.substr(3)), id);
    EXPECT_EQ(path.substr(0, 2), hash_folder_name(hash_folder(id)));
  }
}

TEST(DatafileName, RefusesEverythingElse) {
  for (const char* name :
       {"", ".", "0000000000000007", "0000000000000007.", "0000000000000007.00", "0000000000000007.-1",
        "0000000000000007.+1", "0000000000000007.4294967296", "0000000000000007.0x", "000000000000000A.0",
        "0000000000000000.0", "000000000000007.0", "00000000000000007.0", "0000000000000007.0 "}) {
    EXPECT_EQ(parse_datafile_name(name), std::nullopt) << name;
  }
}

}  // namespace
}  // namespace spate::trove
