// SPDX-License-Identifier: Apache-2.0
// The memory of an open file, filled with values that could lead its reader astray.
#include "preload/shared_state.h"

#include <cstring>

#include "base/expect.h"

namespace spate::preload {
namespace {

TEST(SharedTextTest, EndsAtItsEnd) {
  char room[8] = "abc";
  EXPECT_EQ(shared_text(room), "abc");
  std::memset(room, 0, sizeof room);
  EXPECT_EQ(shared_text(room), "");
}

TEST(SharedTextTest, WithoutAnEndItIsAsLongAsItsRoom) {
  struct {
    char room[8];
    char behind[8];
  } memory{};
  std::memset(memory.room, 'x', sizeof memory.room);
  std::memset(memory.behind, 'y', sizeof memory.behind - 1);
  EXPECT_EQ(shared_text(memory.room), "xxxxxxxx");
}

}  // namespace
}  // namespace spate::preload
