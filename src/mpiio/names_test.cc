// SPDX-License-Identifier: Apache-2.0
#include "mpiio/names.h"

#include <optional>

#include "base/expect.h"

namespace spate::mpiio {
namespace {

constexpr uid_t kUser = 1000;

TEST(MpiioNames, ANameIsInSpateByItsSchemeOrAPrefix) {
  EXPECT_EQ(resolve("spate:/a//b/../c", "/spate", "/tmp"), (Name{"", "/a/c"}));
  EXPECT_EQ(resolve("spate:a", "/spate", "/tmp"), (Name{"", "/a"}));
  EXPECT_EQ(resolve("/spate/a", "/spate", "/tmp"), (Name{"", "/a"}));
  EXPECT_EQ(resolve("/spate", "/spate", "/tmp"), (Name{"", "/"}));
  EXPECT_EQ(resolve("/old/./a", "/data:/old=/srv/spate.toml", "/tmp"), (Name{"/srv/spate.toml", "/a"}));
  EXPECT_EQ(resolve("run/a", "/spate", "/spate/x"), (Name{"", "/x/run/a"}));
  EXPECT_EQ(resolve("../spate/a", "/spate", "/tmp"), (Name{"", "/a"}));
}

TEST(MpiioNames, OtherNamesAreLeftAlone) {
  EXPECT_EQ(resolve("/tmp/a", "/spate", "/"), std::nullopt);
  EXPECT_EQ(resolve("/spateful/a", "/spate", "/"), std::nullopt);
  EXPECT_EQ(resolve("/spate/../etc/a", "/spate", "/"), std::nullopt);
  EXPECT_EQ(resolve("ufs:/spate/a", "/spate", "/"), std::nullopt);
  EXPECT_EQ(resolve("a", "/spate", "/tmp"), std::nullopt);
  EXPECT_EQ(resolve("", "/spate", "/spate"), std::nullopt);
  EXPECT_EQ(resolve("/spate/a", "", "/"), std::nullopt);
}

TEST(MpiioNames, APathOnAMountIsInTheFileSystemOfItsSource) {
  const std::string mounts =
      "22 1 252:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
      "40 22 0:50 / /data rw,nosuid shared:9 master:3 - fuse.spate /srv/a/spate.toml rw,user_id=0,group_id=0\n"
      "41 22 0:51 / /read rw - fuse.spate /srv/a/spate.toml ro,user_id=0\n"
      "42 22 0:52 / /read2 ro - fuse.spate /srv/a/spate.toml rw,user_id=0\n"
      "43 22 0:53 / /named rw - fuse.spate store rw,user_id=0\n"
      "44 40 0:54 / /data/local rw - tmpfs tmpfs rw\n"
      "45 22 0:50 /sub /bound\\040here rw - fuse.spate /srv/with\\040blank rw,user_id=0\n"
      "46 22 0:55 / /over rw - tmpfs tmpfs rw\n"
      "47 46 0:50 / /over rw - fuse.spate /srv/b/spate.toml rw,user_id=0";
  EXPECT_EQ(resolve_on_mount("/data/x/y", mounts, kUser), (Name{"/srv/a/spate.toml", "/x/y"}));
  EXPECT_EQ(resolve_on_mount("/data", mounts, kUser), (Name{"/srv/a/spate.toml", "/"}));
  EXPECT_EQ(resolve_on_mount("/bound here/x", mounts, kUser), (Name{"/srv/with blank", "/sub/x"}));
  EXPECT_EQ(resolve_on_mount("/over/x", mounts, kUser), (Name{"/srv/b/spate.toml", "/x"}));
  for (const char* other : {"/database/x", "/data/local/x", "/read/x", "/read2/x", "/named/x", "/tmp/x"})
    EXPECT_EQ(resolve_on_mount(other, mounts, kUser), std::nullopt) << other;
}

/// A user who mounts by FUSE chooses the mount's type and source. So the source of another user's mount must not be
/// read as a configuration.
TEST(MpiioNames, OnlyMountsOfRootAndOfTheUserAreBelieved) {
  const auto mounted = [](const std::string& options) {
    return resolve_on_mount("/data/x", "40 22 0:50 / /data rw - fuse.spate /srv/a/spate.toml " + options, kUser);
  };
  for (const char* good : {"rw,user_id=0,group_id=0", "rw,user_id=1000,group_id=1000,allow_other"})
    EXPECT_EQ(mounted(good), (Name{"/srv/a/spate.toml", "/x"})) << good;
  for (const char* bad : {"rw,user_id=1001", "rw,user_id=10000", "rw,user_id=", "rw,user_id=0x",
                          "rw,user_id=99999999999", "rw,group_id=0", "rw"})
    EXPECT_EQ(mounted(bad), std::nullopt) << bad;
}

TEST(MpiioNames, OddTextOfMountsIsNoMount) {
  for (const char* text : {"", "\n", "1 2 3", "1 2 3 / / rw -", "- - - - - -", "1 2 0:1 / /data rw - fuse.spate",
                           "1 2 0:1 / \\ rw - fuse.spate /a rw", "1 2 0:1 /"})
    EXPECT_EQ(resolve_on_mount("/data/x", text, kUser), std::nullopt) << text;
}

}  // namespace
}  // namespace spate::mpiio
