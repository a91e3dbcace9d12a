// SPDX-License-Identifier: Apache-2.0
#include "trove/rocksdb/reserve.h"

#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/expect.h"

namespace spate::trove {
namespace {

class ReserveTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/dev/shm/spate-reserve-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder_ = name;
    mounted_ = ::mount("spate-test", name, "tmpfs", 0, "size=16m,mode=0700") == 0;
    if (!mounted_) GTEST_SKIP() << "a small tmpfs cannot be mounted here (needs root)";
  }
  void TearDown() override {
    if (mounted_) ::umount2(folder_.c_str(), MNT_DETACH);
    std::filesystem::remove_all(folder_);
  }
  std::string file() const { return folder_ + "/" + SpaceReserve::kFileName; }
  std::uint64_t size() const { return std::filesystem::exists(file()) ? std::filesystem::file_size(file()) : 0; }
  void fill() {
    std::ofstream out(folder_ + "/ballast", std::ios::binary);
    const std::string piece(1U << 16U, 'b');
    while (out.write(piece.data(), static_cast<std::streamsize>(piece.size())).flush()) {
    }
  }

  std::string folder_;
  bool mounted_ = false;
};

TEST_F(ReserveTest, RoomIsKeptAndGivenBackOnAFullDevice) {
  SpaceReserve running(folder_);
  running.keep();
  EXPECT_EQ(size(), 1U << 20U);  // a sixteenth
  fill();
  SpaceReserve starting(folder_);
  starting.release_if_needed();
  EXPECT_EQ(size(), 0U);
  EXPECT_FALSE(starting.kept());
  std::ofstream log(folder_ + "/log");
  EXPECT_TRUE(log.write(std::string(1U << 19U, 'x').data(), 1U << 19U).flush());
}

TEST_F(ReserveTest, RoomIsKeptAgainOnlyWhenThereIsEnough) {
  fill();
  SpaceReserve reserve(folder_);
  reserve.keep();
  EXPECT_EQ(size(), 0U);
  std::filesystem::resize_file(folder_ + "/ballast", 8U << 20U);
  reserve.keep();
  EXPECT_TRUE(reserve.kept());
  EXPECT_EQ(size(), 1U << 20U);
}

TEST_F(ReserveTest, RoomStaysWhileTheDeviceHasSome) {
  SpaceReserve(folder_).keep();
  SpaceReserve starting(folder_);
  starting.release_if_needed();
  EXPECT_TRUE(starting.kept());
  EXPECT_EQ(size(), 1U << 20U);
}

}  // namespace
}  // namespace spate::trove
