// SPDX-License-Identifier: Apache-2.0
// The path that bytes take, by the counters; and storage faults during a stream.
#include <unistd.h>

#include "base/expect.h"
#include "base/expect_bytes.h"
#include "tests/io/paths_fixture.h"

namespace spate::io::testing {
namespace {

using flow::Direction;
using flow::Lane;
using trove::BytestreamFault;
using trove::BytestreamOp;
using wire::DataPath;

constexpr std::uint64_t kBytes = 200'000;

TEST_F(PathsTest, AForcedReadPathMovesAllBytesAndNoOtherPathMovesAny) {
  ASSERT_OK(write(0, pattern(1, kBytes)));
  ASSERT_OK(read(0, kBytes, DataPath::kCached));
  EXPECT_EQ(moved(Lane::kCached, Direction::kRead), kBytes);
  EXPECT_EQ(copied(Lane::kCached, Direction::kRead), 0U);
  EXPECT_EQ(moved(Lane::kBuffered, Direction::kRead), 0U);
  ASSERT_OK(read(0, kBytes, DataPath::kBuffered));
  EXPECT_EQ(moved(Lane::kCached, Direction::kRead), kBytes);
  EXPECT_EQ(moved(Lane::kBuffered, Direction::kRead), kBytes);
  EXPECT_EQ(copied(Lane::kBuffered, Direction::kRead), 2 * kBytes);
  EXPECT_EQ(world_.metric("spate_flow_bytes_total"), 3 * kBytes);  // the write is included
}

TEST_F(PathsTest, AutomaticSendsFromTheCache) {
  ASSERT_OK(write(0, pattern(1, kBytes)));
  ASSERT_OK(read(0, kBytes, DataPath::kAutomatic));
  EXPECT_EQ(moved(Lane::kCached, Direction::kRead), kBytes);
}

TEST_F(PathsTest, AutomaticGathersSmallPieces) {
  ASSERT_OK(write(0, pattern(1, kBytes)));
  const std::vector<datatype::Level> levels{{1000, 100}};
  wire::ReadRequest request = read_request(where_, *datatype::Description::strided(0, 10, levels));
  ASSERT_OK(world_.run(client_.read(request, client_.capability(kFile))));
  EXPECT_EQ(moved(Lane::kBuffered, Direction::kRead), 10'000U);
  EXPECT_EQ(moved(Lane::kCached, Direction::kRead), 0U);
}

TEST_F(PathsTest, SmallDataTravelsInTheMessages) {
  ASSERT_OK(write(0, pattern(1, 4096), true));
  ASSERT_OK(read(0, 4096, DataPath::kAutomatic, 4096));
  EXPECT_EQ(moved(Lane::kInline, Direction::kWrite), 4096U);
  EXPECT_EQ(moved(Lane::kInline, Direction::kRead), 4096U);
  ASSERT_OK(read(0, 4096, DataPath::kAutomatic, 4095));
  EXPECT_EQ(moved(Lane::kInline, Direction::kRead), 4096U);
  EXPECT_EQ(moved(Lane::kCached, Direction::kRead), 4096U);
}

TEST_F(PathsTest, ANamedPathRefusesInlineData) {
  ASSERT_OK(write(0, pattern(1, kBytes)));
  for (const DataPath path : {DataPath::kBuffered, DataPath::kCached, DataPath::kDirect, DataPath::kPeerToPeer}) {
    EXPECT_ERRC(read(0, 4096, path, 4096), Errc::kInvalidArgument);
    if (path != DataPath::kCached) {
      EXPECT_ERRC(write(0, pattern(2, 4096), true, path), Errc::kInvalidArgument);
    }
  }
  EXPECT_EQ(moved(Lane::kInline, Direction::kRead) + moved(Lane::kInline, Direction::kWrite), 0U);
  ASSERT_OK(read(0, 4096, DataPath::kBuffered));
  EXPECT_EQ(moved(Lane::kBuffered, Direction::kRead), 4096U);
}

/// The settings flow.read_path and flow.write_path are buffered.
class ConfiguredTest : public PathsTest {
 protected:
  static WorldOptions buffered() {
    WorldOptions options;
    options.io.policy.read_path = DataPath::kBuffered;
    options.io.policy.write_path = DataPath::kBuffered;
    return options;
  }
  ConfiguredTest() : PathsTest(buffered()) {}
};

TEST_F(ConfiguredTest, InlineDataUnderAConfiguredPathCountsAsAFallBack) {
  ASSERT_OK(write(0, pattern(1, kBytes)));
  ASSERT_OK(read(0, kBytes, DataPath::kAutomatic));
  const flow::Counters& counters = world_.io().counters();
  EXPECT_EQ(moved(Lane::kBuffered, Direction::kRead), kBytes);
  EXPECT_EQ(counters.fallbacks(Lane::kBuffered, Direction::kRead), 0U);
  EXPECT_EQ(counters.fallbacks(Lane::kBuffered, Direction::kWrite), 0U);
  ASSERT_OK(write(0, pattern(1, 4096), true));
  ASSERT_OK(read(0, 4096, DataPath::kAutomatic, 4096));
  EXPECT_EQ(counters.fallbacks(Lane::kBuffered, Direction::kRead), 1U);
  EXPECT_EQ(counters.fallbacks(Lane::kBuffered, Direction::kWrite), 1U);
}

TEST_F(PathsTest, ASmallReadIsOneStorageOperation) {
  ASSERT_OK(write(0, pattern(1, 4096), true));
  const std::uint64_t reads = world_.storage(0).posted(BytestreamOp::kRead);
  const std::uint64_t stats = world_.storage(0).posted(BytestreamOp::kStat);
  const auto outcome = read(0, 4096, DataPath::kAutomatic, 4096);
  ASSERT_OK(outcome);
  EXPECT_EQ(outcome->reply.datafiles[0].size, 4096U);
  EXPECT_EQ(world_.storage(0).posted(BytestreamOp::kRead), reads + 1);
  EXPECT_EQ(world_.storage(0).posted(BytestreamOp::kStat), stats);
}

TEST_F(PathsTest, AHotDatafileIsOpenedOnce) {
  ASSERT_OK(write(0, pattern(1, kBytes)));
  for (int i = 0; i < 3; ++i) ASSERT_OK(read(0, kBytes, DataPath::kCached));
  EXPECT_EQ(world_.storage(0).posted(BytestreamOp::kOpen), 1U);
}

TEST_F(PathsTest, ImpossiblePathsAreRefusedAndMoveNothing) {
  ASSERT_OK(write(0, pattern(1, kBytes)));
  for (const DataPath path : {DataPath::kDirect, DataPath::kBypass, DataPath::kPeerToPeer}) {
    const auto outcome = read(0, kBytes, path);
    EXPECT_ERRC(outcome, Errc::kNotSupported);
    EXPECT_ERRC(write(0, pattern(1, kBytes), false, path), Errc::kNotSupported);
  }
  EXPECT_ERRC(write(0, pattern(1, kBytes), false, DataPath::kCached), Errc::kNotSupported);
  EXPECT_EQ(moved(Lane::kCached, Direction::kRead) + moved(Lane::kBuffered, Direction::kRead), 0U);
  EXPECT_EQ(moved(Lane::kBuffered, Direction::kWrite), kBytes);
}

TEST_F(PathsTest, PiecesTooSmallForTheForcedCachedPathAreAnErrorNotAnotherPath) {
  ASSERT_OK(write(0, pattern(1, kBytes)));
  const std::vector<datatype::Level> levels{{60'000, 3}};
  wire::ReadRequest request = read_request(where_, *datatype::Description::strided(0, 1, levels));
  request.unit_bytes = 1 << 20;
  request.path = DataPath::kCached;
  const auto outcome = world_.run(client_.read(request, client_.capability(kFile)));
  EXPECT_ERRC(outcome, Errc::kNotSupported);
}

// Each read in turn fails, on both paths. The client must get the error, although some messages may have been sent.
TEST_F(PathsTest, AStorageErrorAnywhereInAStreamBecomesTheReply) {
  ASSERT_OK(write(0, pattern(1, kBytes)));
  for (const auto& [path, op] : {std::pair{DataPath::kBuffered, BytestreamOp::kRead},
                                 std::pair{DataPath::kCached, BytestreamOp::kMakeResident}}) {
    for (std::uint64_t nth = 1;; ++nth) {
      const std::uint64_t fired = world_.storage(0).fired();
      world_.storage(0).add({.op = op, .nth = nth, .status = Errc::kIoError});
      const auto outcome = read(0, kBytes, path);
      if (world_.storage(0).fired() == fired) {
        EXPECT_OK(outcome);
        EXPECT_EQ(nth, kBytes / 8192 + 2);  // a fault for each message, and one that was not hit
        break;
      }
      EXPECT_ERRC(outcome, Errc::kIoError);
    }
    // The fault that was not hit strikes this read.
    std::ignore = read(0, kBytes, path);
  }
  const auto outcome = read(0, kBytes, DataPath::kBuffered);
  ASSERT_OK(outcome);
  EXPECT_BYTES(outcome->streams[0], pattern(1, kBytes));
  EXPECT_EQ(world_.buffers_used(), 0U);
}

/// The pages of a bad sector may be in the page cache without their content. Then only the network meets the error,
/// when the server has promised the bytes to the client.
class UnreadableFileTest : public PathsTest, public ::testing::WithParamInterface<std::uint64_t> {
 protected:
  UnreadableFileTest() {
    world_.fabric().hosts().set_file_reader([this](std::uint32_t, int fd, std::uint64_t offset, MutableByteView out) {
      const ssize_t n = bad_ ? -1 : ::pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
      return n < 0 ? Result<std::size_t>(Errc::kIoError) : Result<std::size_t>(static_cast<std::size_t>(n));
    });
  }
  bool bad_ = true;
};

TEST_P(UnreadableFileTest, TheNextTryReadsItBeforeItIsAnswered) {
  const std::uint64_t bytes = GetParam();
  ASSERT_OK(write(0, pattern(1, bytes)));
  const MonoTime begun = world_.clock().now();
  auto outcome = read(0, bytes, DataPath::kAutomatic);
  if (outcome.code() == Errc::kIoError) outcome = read(0, bytes, DataPath::kAutomatic);
  ASSERT_OK(outcome);
  EXPECT_LT(world_.clock().now() - begun, std::chrono::seconds(1)) << "the client waits for bytes that never come";
  EXPECT_BYTES(outcome->streams[0], pattern(1, bytes));
  EXPECT_EQ(moved(Lane::kBuffered, Direction::kRead), bytes);
  EXPECT_ERRC(read(0, bytes, DataPath::kCached), Errc::kNotSupported);
}

TEST_P(UnreadableFileTest, AfterAMinuteItIsSentAgain) {
  ASSERT_OK(write(0, pattern(1, GetParam())));
  std::ignore = read(0, GetParam(), DataPath::kAutomatic);
  bad_ = false;
  world_.pass(std::chrono::minutes(2));
  const std::uint64_t before = moved(Lane::kCached, Direction::kRead);
  ASSERT_OK(read(0, GetParam(), DataPath::kAutomatic));
  EXPECT_EQ(moved(Lane::kCached, Direction::kRead), before + GetParam());
}

INSTANTIATE_TEST_SUITE_P(Messages, UnreadableFileTest, ::testing::Values(5000, kBytes),
                         [](const auto& info) { return info.param == kBytes ? "Many" : "One"; });

TEST_F(PathsTest, AShortReadIsContinued) {
  ASSERT_OK(write(0, pattern(1, kBytes)));
  for (const std::uint64_t nth : {1U, 3U}) {
    world_.storage(0).add(
        {.op = BytestreamOp::kRead, .nth = nth, .kind = BytestreamFault::Kind::kShortRead, .bytes = 100});
  }
  const auto outcome = read(0, kBytes, DataPath::kBuffered);
  ASSERT_OK(outcome);
  EXPECT_BYTES(outcome->streams[0], pattern(1, kBytes));
  EXPECT_EQ(world_.storage(0).fired(), 2U);
}

TEST_F(PathsTest, AStoreThatStaysShortIsAnErrorEvenAfterTheFirstMessage) {
  ASSERT_OK(write(0, pattern(1, kBytes)));
  for (std::uint64_t nth = 3; nth < 20; ++nth) {
    world_.storage(0).add(
        {.op = BytestreamOp::kRead, .nth = nth, .kind = BytestreamFault::Kind::kShortRead, .bytes = 0});
  }
  EXPECT_ERRC(read(0, kBytes, DataPath::kBuffered), Errc::kIoError);
}

TEST_F(PathsTest, AWriteThatFailsMidwayIsAnErrorAndGivesEverythingBack) {
  for (std::uint64_t nth = 1; nth < 30; nth += 3) {
    world_.storage(0).add({.op = BytestreamOp::kWrite, .nth = nth, .status = Errc::kIoError});
    const std::uint64_t fired = world_.storage(0).fired();
    const auto outcome = write(0, pattern(1, kBytes));
    if (world_.storage(0).fired() == fired) break;
    EXPECT_ERRC(outcome, Errc::kIoError);
    EXPECT_EQ(world_.buffers_used(), 0U);
  }
  EXPECT_GT(world_.storage(0).fired(), 5U);
}

TEST_F(PathsTest, AFallBackOfThePolicyIsCounted) {
  WorldOptions options;
  options.io.policy.direct_from_bytes = 1;
  options.io.policy.direct_piece_bytes = 1;
  World world(options);
  Client client(world);
  wire::WriteRequest request = write_request(where_, *datatype::Description::contiguous(0, kBytes));
  ASSERT_OK(world.run(client.write(request, {pattern(1, kBytes)}, client.capability(kFile))));
  EXPECT_EQ(world.io().counters().fallbacks(Lane::kDirect, Direction::kWrite), 1U);
  EXPECT_EQ(world.io().counters().bytes(Lane::kBuffered, Direction::kWrite), kBytes);
}

class FullTest : public PathsTest {
 protected:
  static WorldOptions small() {
    WorldOptions options;
    options.capacity_bytes = 100 * 1024;
    return options;
  }
  FullTest() : PathsTest(small()) {}
};

TEST_F(FullTest, ADeviceThatFillsUpMidwayFailsTheWriteAndKeepsEarlierData) {
  const Bytes before = pattern(1, 40'000);
  ASSERT_OK(write(0, before));
  EXPECT_ERRC(write(100'000, pattern(2, kBytes)), Errc::kNoSpace);
  EXPECT_EQ(world_.buffers_used(), 0U);
  const auto outcome = read(0, 40'000, DataPath::kBuffered);
  ASSERT_OK(outcome);
  EXPECT_BYTES(outcome->streams[0], before);
  ASSERT_OK(write(0, pattern(3, 40'000)));  // existing space can be overwritten
}

}  // namespace
}  // namespace spate::io::testing
