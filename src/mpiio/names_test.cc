// SPDX-License-Identifier: Apache-2.0
#include "mpiio/names.h"

#include "base/expect.h"

namespace spate::mpiio {
namespace {

TEST(Names, AreSpatesByTheirSchemeOrAPrefix) {
  EXPECT_EQ(resolve("spate:/a//b/../c", "/spate", "/tmp"), (Name{"", "/a/c"}));
  EXPECT_EQ(resolve("spate:a", "/spate", "/tmp"), (Name{"", "/a"}));
  EXPECT_EQ(resolve("/spate/a", "/spate", "/tmp"), (Name{"", "/a"}));
  EXPECT_EQ(resolve("/spate", "/spate", "/tmp"), (Name{"", "/"}));
  EXPECT_EQ(resolve("/old/./a", "/data:/old=/srv/spate.toml", "/tmp"), (Name{"/srv/spate.toml", "/a"}));
  EXPECT_EQ(resolve("run/a", "/spate", "/spate/x"), (Name{"", "/x/run/a"}));
  EXPECT_EQ(resolve("../spate/a", "/spate", "/tmp"), (Name{"", "/a"}));
}

TEST(Names, OthersAreLeftAlone) {
  EXPECT_FALSE(resolve("/tmp/a", "/spate", "/"));
  EXPECT_FALSE(resolve("/spateful/a", "/spate", "/"));
  EXPECT_FALSE(resolve("/spate/../etc/a", "/spate", "/"));
  EXPECT_FALSE(resolve("ufs:/spate/a", "/spate", "/"));
  EXPECT_FALSE(resolve("a", "/spate", "/tmp"));
  EXPECT_FALSE(resolve("", "/spate", "/spate"));
  EXPECT_FALSE(resolve("/spate/a", "", "/"));
}

}  // namespace
}  // namespace spate::mpiio
