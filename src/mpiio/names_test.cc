// SPDX-License-Identifier: Apache-2.0
#include "mpiio/names.h"

#include <optional>

#include "base/expect.h"

namespace spate::mpiio {
namespace {

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

}  // namespace
}  // namespace spate::mpiio
