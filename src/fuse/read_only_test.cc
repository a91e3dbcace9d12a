// SPDX-License-Identifier: Apache-2.0
#include "fuse/read_only.h"

#include <gmock/gmock.h>

#include "base/expect.h"

namespace spate::fuse {
namespace {

constexpr const char* kMounts =
    "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,errors=remount-ro\n"
    "61 22 0:40 / /a\\040b ro,nosuid master:1 propagate_from:2 - fuse.spate /fs\\054 rw,user_id=0\n"
    "62 22 0:41 / /b rw,nosuid - fuse.spate /fs/spate.toml ro,user_id=0,allow_other\n"
    "63 22 0:4\n";

TEST(ReadOnly, FollowsTheOptionsOfTheFileSystem) {
  EXPECT_FALSE(is_read_only(kMounts, "0:40", true)) << "only one of its mount points is read-only";
  EXPECT_TRUE(is_read_only(kMounts, "0:41", false)) << "the file system is read-only";
}

TEST(ReadOnly, IsUnchangedIfTheMountIsNotFound) {
  for (const char* device : {"0:42", "0:4", "254:0", ""}) {
    EXPECT_TRUE(is_read_only(kMounts, device, true)) << device;
    EXPECT_FALSE(is_read_only(kMounts, device, false)) << device;
  }
  EXPECT_TRUE(ReadOnly(true, "").now()) << "it was mounted read-only, and no device says otherwise";
  EXPECT_FALSE(ReadOnly(false, "").now()) << "it was mounted for writing, and no device says otherwise";
}

TEST(ReadOnly, FindsTheDeviceOfAMount) {
  const std::string device = device_of_mount("/proc");
  EXPECT_THAT(device, testing::Not(testing::IsEmpty()));
  EXPECT_EQ(device_of_mount("/proc/none/there"), "");
  EXPECT_TRUE(ReadOnly(true, device).now()) << "not a FUSE mount, so what it was mounted with counts";
}

}  // namespace
}  // namespace spate::fuse
