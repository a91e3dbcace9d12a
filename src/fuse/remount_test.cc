// SPDX-License-Identifier: Apache-2.0
#include "fuse/remount.h"

#include <gmock/gmock.h>
#include <sys/mount.h>

#include <optional>

#include "base/expect.h"

namespace spate::fuse {
namespace {

Remount parsed(const std::string& list) {
  const auto remount = parse_remount({"fs", "/d", "-o", list, "-n", "-t", "fuse.spate"});
  EXPECT_OK(remount) << list;
  EXPECT_NE(*remount, std::nullopt) << list;
  return **remount;
}

/// A request as mount(8) makes it: `wanted` with the options that the kernel shows for the mount.
Remount by_mount(const std::string& wanted) {
  return parsed("rw,nosuid,nodev,relatime," + wanted + ",user_id=0,group_id=0,default_permissions");
}

Remount by_itself(const std::string& wanted) {
  const auto parsed = parse_remount({"fs", "/d", "-o", wanted});
  EXPECT_OK(parsed) << wanted;
  EXPECT_NE(*parsed, std::nullopt) << wanted;
  return **parsed;
}

TEST(Remount, IsRecognisedByItsOption) {
  const auto none = parse_remount({"fs", "/d", "-o", "ro,nodev"});
  ASSERT_OK(none);
  EXPECT_EQ(*none, std::nullopt);
  EXPECT_EQ(by_itself("remount,ro").directory, "/d");
  EXPECT_ERRC(parse_remount({"/d", "-o", "remount"}), Errc::kInvalidArgument);
  EXPECT_ERRC(parse_remount({"fs", "/d", "-o"}), Errc::kInvalidArgument);
}

TEST(Remount, ChangesOnlyTheGivenOptions) {
  constexpr const char* kNow = "rw,nosuid,noexec,relatime,user_id=0,group_id=0,allow_other";
  EXPECT_EQ(remount_flags(by_itself("remount,ro"), kNow),
            static_cast<unsigned long>(MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NOEXEC));
  EXPECT_EQ(remount_flags(by_itself("remount,exec,noexec,exec"), kNow),
            static_cast<unsigned long>(MS_REMOUNT | MS_BIND | MS_NOSUID));
  EXPECT_EQ(remount_flags(by_itself("remount,nodev"), "ro,nosymfollow"),
            static_cast<unsigned long>(MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NODEV | 256));
  EXPECT_EQ(remount_flags(by_itself("remount,rw,nosuid,suid"), "ro,nosuid,nodev"),
            static_cast<unsigned long>(MS_REMOUNT | MS_NODEV));
}

TEST(Remount, OptionsThatMountAddsFromThePresentMountAreIgnored) {
  EXPECT_THAT(by_mount("remount").others, testing::IsEmpty());
  EXPECT_EQ(by_mount("remount,noatime").others, std::vector<std::string>{"noatime"});
  EXPECT_EQ(by_itself("remount,relatime").others, std::vector<std::string>{"relatime"});
}

TEST(Remount, OptionsThatMountLeavesOutAreTurnedOff) {
  constexpr const char* kNow = "rw,nosuid,nodev,noexec,relatime,user_id=0,group_id=0";
  EXPECT_EQ(remount_flags(parsed("ro,nosuid,relatime,remount,user_id=0"), kNow),
            static_cast<unsigned long>(MS_REMOUNT | MS_RDONLY | MS_NOSUID));
  // nodev and nosuid hold even if the line of fstab does not name them.
  EXPECT_EQ(remount_flags(parsed("rw,remount,cache=none"), kNow),
            static_cast<unsigned long>(MS_REMOUNT | MS_NODEV | MS_NOSUID));
}

TEST(Remount, OptionsAsTheyWereMountedAreNotRefused) {
  constexpr const char* kMounted = "allow_other,cache=none,noatime,_netdev";
  for (const char* same : {"allow_other", "cache=none", "noatime", "_netdev", "hard", "readahead=4096K", "x-systemd.y"})
    EXPECT_THAT(refusals(by_mount(std::string("remount,") + same), kMounted), testing::IsEmpty()) << same;
}

TEST(Remount, OptionsThatCannotChangeAreRefusedByName) {
  for (const char* other :
       {"allow_other", "cache=none", "noatime", "soft", "attr_cache=kernel", "threads=9", "acces"}) {
    const auto lines = refusals(by_mount(std::string("remount,ro,") + other), "cache=auto");
    ASSERT_EQ(lines.size(), 1U) << other;
    EXPECT_NE(lines[0].find(other), std::string::npos) << lines[0];
  }
  EXPECT_EQ(refusals(by_itself("remount,relatime"), "noatime").size(), 1U);
}

}  // namespace
}  // namespace spate::fuse
