// SPDX-License-Identifier: Apache-2.0
#include "flow/policy.h"

#include <gtest/gtest.h>

namespace spate::flow {
namespace {

using wire::DataPath;

PathFacts large_pieces() { return {Direction::kRead, true, 1 << 20, 1}; }
PathFacts small_pieces() { return {Direction::kRead, true, 1 << 20, 1 << 10}; }

TEST(Policy, AutomaticSendsLargePiecesFromTheCacheAndGathersSmallOnes) {
  EXPECT_EQ(choose_path(DataPath::kAutomatic, large_pieces()).value(), DataPath::kCached);
  EXPECT_EQ(choose_path(DataPath::kAutomatic, small_pieces()).value(), DataPath::kBuffered);
}

TEST(Policy, AutomaticNeedsADescriptorToSendFrom) {
  PathFacts facts = large_pieces();
  facts.has_descriptor = false;
  EXPECT_EQ(choose_path(DataPath::kAutomatic, facts).value(), DataPath::kBuffered);
}

TEST(Policy, WhatIsAskedByNameIsTakenWhateverThePieces) {
  EXPECT_EQ(choose_path(DataPath::kCached, small_pieces()).value(), DataPath::kCached);
  EXPECT_EQ(choose_path(DataPath::kBuffered, large_pieces()).value(), DataPath::kBuffered);
}

TEST(Policy, WhatCannotBeHadIsRefusedWithASentence) {
  PathFacts no_file = large_pieces();
  no_file.has_descriptor = false;
  PathFacts write = large_pieces();
  write.direction = Direction::kWrite;
  const std::pair<DataPath, PathFacts> refused[] = {{DataPath::kCached, no_file},
                                                    {DataPath::kCached, write},
                                                    {DataPath::kDirect, large_pieces()},
                                                    {DataPath::kBypass, large_pieces()},
                                                    {DataPath::kPeerToPeer, large_pieces()}};
  for (const auto& [path, facts] : refused) {
    const auto chosen = choose_path(path, facts);
    EXPECT_EQ(chosen.code(), Errc::kNotSupported);
    EXPECT_FALSE(chosen.error().context().empty());
  }
  EXPECT_EQ(choose_path(static_cast<DataPath>(99), large_pieces()).code(), Errc::kInvalidArgument);
}

}  // namespace
}  // namespace spate::flow
