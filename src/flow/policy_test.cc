// SPDX-License-Identifier: Apache-2.0
#include "flow/policy.h"

#include <gmock/gmock.h>

#include "base/expect.h"

namespace spate::flow {
namespace {

using wire::DataPath;

PathFacts pieces(std::size_t count) {
  PathFacts facts;
  facts.has_descriptor = true;
  facts.first_bytes = 1 << 20;
  facts.first_pieces = count;
  facts.direct_refusal = "there is no device";
  return facts;
}
PathFacts large_pieces() { return pieces(1); }
PathFacts small_pieces() { return pieces(1 << 10); }

/// A datafile larger than the page cache should hold, on a target with direct access.
PathFacts huge_file() {
  PathFacts facts = large_pieces();
  facts.direct_alignment = 4096;
  facts.datafile_bytes = 2000;
  facts.one_run = true;
  return facts;
}
PolicyOptions huge_from_1000() {
  PolicyOptions options;
  options.direct_from_bytes = 1000;
  return options;
}

TEST(Policy, AutomaticSendsLargePiecesFromTheCacheAndGathersSmallOnes) {
  EXPECT_EQ(choose_path(DataPath::kAutomatic, large_pieces()).value().path, DataPath::kCached);
  EXPECT_EQ(choose_path(DataPath::kAutomatic, small_pieces()).value().path, DataPath::kBuffered);
}

TEST(Policy, AutomaticNeedsADescriptorToSendFrom) {
  PathFacts facts = large_pieces();
  facts.has_descriptor = false;
  EXPECT_EQ(choose_path(DataPath::kAutomatic, facts).value().path, DataPath::kBuffered);
}

TEST(Policy, APathNamedByTheRequestIsTakenWhateverThePieces) {
  EXPECT_EQ(choose_path(DataPath::kCached, small_pieces()).value().path, DataPath::kCached);
  EXPECT_EQ(choose_path(DataPath::kBuffered, large_pieces()).value().path, DataPath::kBuffered);
}

TEST(Policy, APathThatIsNotPossibleIsRefusedWithAReason) {
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
    EXPECT_ERRC(chosen, Errc::kNotSupported);
    EXPECT_THAT(chosen.error().context(), testing::Not(testing::IsEmpty()));
  }
  EXPECT_ERRC(choose_path(static_cast<DataPath>(99), large_pieces()), Errc::kInvalidArgument);
}

TEST(Policy, LargeUncachedDatafilesTakeTheDirectPath) {
  const PolicyOptions options = huge_from_1000();
  for (const Direction direction : {Direction::kRead, Direction::kWrite}) {
    PathFacts facts = huge_file();
    facts.direction = direction;
    EXPECT_EQ(choose_path(DataPath::kAutomatic, facts, options).value().path, DataPath::kDirect);
    facts.datafile_bytes = 999;
    EXPECT_NE(choose_path(DataPath::kAutomatic, facts, options).value().path, DataPath::kDirect);
    facts = huge_file();
    facts.direction = direction;
    facts.bypass_writer = true;
    EXPECT_NE(choose_path(DataPath::kAutomatic, facts, options).value().path, DataPath::kDirect);
    facts = huge_file();
    facts.direction = direction;
    facts.first_pieces = 1000;
    EXPECT_NE(choose_path(DataPath::kAutomatic, facts, options).value().path, DataPath::kDirect);
  }
  PathFacts facts = huge_file();
  EXPECT_TRUE(wants_cache_state(DataPath::kAutomatic, facts, options));
  facts.cached = true;
  EXPECT_EQ(choose_path(DataPath::kAutomatic, facts, options).value().path, DataPath::kCached);
  facts.cached = false;
  EXPECT_EQ(choose_path(DataPath::kAutomatic, facts, options).value().path, DataPath::kDirect);
  EXPECT_FALSE(wants_cache_state(DataPath::kAutomatic, facts, PolicyOptions()));
}

TEST(Policy, AFallBackIsReportedWithItsReason) {
  PathFacts facts = huge_file();
  facts.direct_alignment = 0;
  const auto chosen = choose_path(DataPath::kAutomatic, facts, huge_from_1000());
  ASSERT_OK(chosen);
  EXPECT_EQ(chosen->path, DataPath::kCached);
  EXPECT_TRUE(chosen->fell_back) << chosen->why;
  EXPECT_NE(chosen->why.find("there is no device"), std::string::npos);
  EXPECT_FALSE(choose_path(DataPath::kAutomatic, large_pieces(), huge_from_1000())->fell_back);
}

TEST(Policy, DirectByNameIsTakenOrRefused) {
  EXPECT_EQ(choose_path(DataPath::kDirect, huge_file()).value().path, DataPath::kDirect);
  PathFacts scattered = huge_file();
  scattered.direction = Direction::kWrite;
  scattered.one_run = false;
  EXPECT_ERRC(choose_path(DataPath::kDirect, scattered), Errc::kNotSupported);
  const auto none = choose_path(DataPath::kDirect, large_pieces());
  EXPECT_ERRC(none, Errc::kNotSupported);
  EXPECT_NE(none.error().context().find("there is no device"), std::string::npos);
}

TEST(Policy, PeerToPeerByNameIsTakenOrRefused) {
  PathFacts facts = huge_file();
  const auto none = choose_path(DataPath::kPeerToPeer, facts);
  EXPECT_ERRC(none, Errc::kNotSupported);
  EXPECT_NE(none.error().context().find("flow.p2p_memory"), std::string::npos);
  facts.peer_refusal = {};
  EXPECT_EQ(choose_path(DataPath::kPeerToPeer, facts).value().path, DataPath::kPeerToPeer);
  EXPECT_TRUE(choose_path(DataPath::kPeerToPeer, facts).value().forced) << "nobody but the caller chose it";
  facts.direct_alignment = 0;
  EXPECT_ERRC(choose_path(DataPath::kPeerToPeer, facts), Errc::kNotSupported);
}

TEST(Policy, PeerToPeerInTheConfigurationGivesWayToTheNextBest) {
  PolicyOptions options;
  options.read_path = DataPath::kPeerToPeer;
  PathFacts facts = huge_file();
  facts.peer_refusal = {};
  const auto taken = choose_path(DataPath::kAutomatic, facts, options);
  EXPECT_EQ(taken.value().path, DataPath::kPeerToPeer);
  EXPECT_FALSE(taken.value().fell_back);
  EXPECT_FALSE(taken.value().forced);
  facts.peer_refusal = "it is out of reach";
  const auto direct = choose_path(DataPath::kAutomatic, facts, options);
  EXPECT_EQ(direct.value().path, DataPath::kDirect);
  EXPECT_TRUE(direct.value().fell_back);
  EXPECT_EQ(direct.value().wanted, DataPath::kPeerToPeer);
  EXPECT_NE(direct.value().why.find("it is out of reach"), std::string::npos);
  facts.direct_alignment = 0;
  const auto cached = choose_path(DataPath::kAutomatic, facts, options);
  EXPECT_EQ(cached.value().path, DataPath::kCached);
  EXPECT_EQ(cached.value().wanted, DataPath::kPeerToPeer);
  EXPECT_TRUE(cached.value().fell_back);
}

TEST(Policy, TheConfigurationForcesWhatTheRequestLeavesOpen) {
  PolicyOptions options;
  options.read_path = DataPath::kBuffered;
  EXPECT_EQ(choose_path(DataPath::kAutomatic, large_pieces(), options).value().path, DataPath::kBuffered);
  EXPECT_EQ(choose_path(DataPath::kCached, large_pieces(), options).value().path, DataPath::kCached);
  options.read_path = DataPath::kDirect;
  EXPECT_ERRC(choose_path(DataPath::kAutomatic, large_pieces(), options), Errc::kNotSupported);
}

}  // namespace
}  // namespace spate::flow
