// SPDX-License-Identifier: Apache-2.0
// The direct path: whole blocks bypass the page cache, their unaligned ends do not; and the lock of such writes.

#include <optional>

#include "base/expect.h"
#include "base/expect_bytes.h"
#include "tests/io/model.h"
#include "tests/io/paths_fixture.h"

namespace spate::io::testing {
namespace {

using flow::Direction;
using flow::Lane;
using trove::BytestreamFault;
using trove::BytestreamOp;
using wire::DataPath;

/// Targets that can bypass the page cache, in blocks of 4096 bytes.
class DirectTest : public PathsTest {
 protected:
  static WorldOptions with_device() {
    WorldOptions options;
    options.direct_alignment = 4096;
    options.io.policy.direct_from_bytes = 1 << 20;
    options.io.policy.direct_piece_bytes = 4096;
    return options;
  }
  DirectTest() : PathsTest(with_device()) {}
  void expect_content(const Bytes& expected) {
    for (const DataPath path : {DataPath::kBuffered, DataPath::kDirect, DataPath::kCached}) {
      const auto outcome = read(0, expected.size() + 100, path);
      ASSERT_OK(outcome);
      ASSERT_BYTES(outcome->streams[0], expected) << static_cast<int>(path);
    }
  }
};

TEST_F(DirectTest, WholeBlocksMoveOnlyByTheDirectPath) {
  const Bytes data = pattern(1, 49 * 4096);
  ASSERT_OK(write(0, data, false, DataPath::kDirect));
  EXPECT_EQ(moved(Lane::kDirect, Direction::kWrite), data.size());
  EXPECT_EQ(copied(Lane::kDirect, Direction::kWrite), data.size());
  EXPECT_EQ(moved(Lane::kBuffered, Direction::kWrite), 0U);
  const auto outcome = read(0, data.size(), DataPath::kDirect);
  ASSERT_OK(outcome);
  EXPECT_BYTES(outcome->streams[0], data);
  EXPECT_EQ(moved(Lane::kDirect, Direction::kRead), data.size());
  EXPECT_EQ(moved(Lane::kBuffered, Direction::kRead) + moved(Lane::kCached, Direction::kRead), 0U);
}

TEST_F(DirectTest, EndsThatFillNoBlockAreWrittenThroughTheCacheAndCountedThere) {
  Bytes expected = pattern(1, 60'000);
  ASSERT_OK(write(0, expected));
  const std::uint64_t before = moved(Lane::kBuffered, Direction::kWrite);
  const Bytes data = pattern(2, 40'000);
  ASSERT_OK(write(5'000, data, false, DataPath::kDirect));
  std::copy(data.begin(), data.end(), expected.begin() + 5'000);
  expect_content(expected);
  EXPECT_EQ(moved(Lane::kDirect, Direction::kWrite), 8 * 4096U);  // from 8192 to 40960
  EXPECT_EQ(moved(Lane::kBuffered, Direction::kWrite) - before, 40'000 - 8 * 4096U);
}

TEST_F(DirectTest, RandomWritesByAllPathsEqualTheModel) {
  SeededRandom random(11);
  Bytes expected;
  for (int round = 0; round < 60; ++round) {
    const std::uint64_t offset = random.chance(1, 3) ? random.below(20) * 4096 : random.below(90'000);
    const Bytes data =
        pattern(static_cast<std::uint64_t>(round) + 100, 1 + random.below(random.chance(1, 4) ? 300 : 70'000));
    const DataPath path = random.chance(2, 3) ? DataPath::kDirect : DataPath::kBuffered;
    ASSERT_OK(write(offset, data, false, path));
    if (expected.size() < offset + data.size()) expected.resize(offset + data.size());
    std::copy(data.begin(), data.end(), expected.begin() + static_cast<std::ptrdiff_t>(offset));
    const std::uint64_t from = random.below(expected.size());
    const std::uint64_t size = 1 + random.below(100'000);
    const auto outcome = read(from, size, DataPath::kDirect);
    ASSERT_OK(outcome);
    const auto begin = expected.begin() + static_cast<std::ptrdiff_t>(from);
    const auto present = static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(size, expected.size() - from));
    ASSERT_BYTES(outcome->streams[0], Bytes(begin, begin + present)) << round;
  }
  expect_content(expected);
  EXPECT_EQ(world_.buffers_used(), 0U);
}

TEST_F(DirectTest, ListsOfPiecesAreReadExactly) {
  ASSERT_OK(write(0, pattern(1, kStreamBytes)));
  const wire::SlotSet where = slot_set(kFile, 1, 1 << 20);
  const auto distribution = distribution_of(where);
  Model model(*distribution);
  std::vector<std::uint64_t> all(kStreamBytes);
  for (std::uint64_t i = 0; i < kStreamBytes; ++i) all[i] = i;
  model.write(all, {pattern(1, kStreamBytes)});
  SeededRandom random(12);
  for (int round = 0; round < 100; ++round) {
    const datatype::DescriptionCase drawn = draw(random);
    wire::ReadRequest request = read_request(where, drawn.description);
    request.path = DataPath::kDirect;
    const auto outcome = world_.run(client_.read(request, client_.capability(kFile)));
    if (!outcome) {
      EXPECT_ERRC(outcome, Errc::kNotSupported);  // the pieces are too small for the path that was asked for by name
      continue;
    }
    ASSERT_BYTES(outcome->streams[0], model.expected(drawn.bytes, 0)) << round;
  }
  EXPECT_GT(moved(Lane::kDirect, Direction::kRead), 100'000U);
}

TEST_F(DirectTest, ThePolicyUsesTheDirectPathForDatafilesThatAreTooLargeForTheCache) {
  const Bytes data = pattern(1, 256 * 1024);
  ASSERT_OK(write(0, data));
  EXPECT_EQ(moved(Lane::kDirect, Direction::kWrite), 0U);
  ASSERT_OK(write(1 << 20, data));
  EXPECT_EQ(moved(Lane::kDirect, Direction::kWrite), data.size());
  // The storage in memory reports everything as cached.
  ASSERT_OK(read(0, data.size(), DataPath::kAutomatic));
  EXPECT_EQ(moved(Lane::kCached, Direction::kRead), data.size());
}

TEST_F(DirectTest, AnyStorageErrorInADirectStreamBecomesTheReply) {
  ASSERT_OK(write(0, pattern(1, kStreamBytes)));
  for (std::uint64_t nth = 1; nth < 20; nth += 3) {
    world_.storage(0).add({.op = BytestreamOp::kRead, .nth = nth, .status = Errc::kIoError});
    EXPECT_ERRC(read(0, kStreamBytes, DataPath::kDirect), Errc::kIoError);
    world_.storage(0).add({.op = BytestreamOp::kWrite, .nth = nth, .status = Errc::kIoError});
    EXPECT_ERRC(write(100, pattern(2, kStreamBytes), false, DataPath::kDirect), Errc::kIoError);
    EXPECT_EQ(world_.buffers_used(), 0U);
  }
}

/// A test may delay the first write in flight by three seconds at the device.
class DirectLockTest : public DirectTest {
 protected:
  using Outcome = std::optional<Result<wire::WriteReply>>;
  template <typename Reply>
  static job::Task<void> keep(job::Task<Result<Reply>> task, std::optional<Result<Reply>>& out) {
    out.emplace(co_await std::move(task));
  }
  void begin(std::uint64_t offset, std::uint64_t size, DataPath path, Outcome& out) {
    wire::WriteRequest request = write_request(where_, *datatype::Description::contiguous(offset, size));
    request.path = path;
    std::vector<Bytes> streams{pattern(offset, size)};
    world_.spawn(keep(client_.write(request, std::move(streams), client_.capability(kFile)), out));
    world_.pass(std::chrono::seconds(1));
  }
  void begin_held(std::uint64_t offset, std::uint64_t size, DataPath path, Outcome& out) {
    world_.storage(0).add(
        {.op = BytestreamOp::kWrite, .kind = BytestreamFault::Kind::kDelay, .delay = std::chrono::seconds(3)});
    begin(offset, size, path, out);
    ASSERT_EQ(out, std::nullopt);
  }
  std::uint64_t writes() { return world_.storage(0).posted(BytestreamOp::kWrite); }
};

TEST_F(DirectLockTest, DirectAndCachedWritesExcludeEachOtherButNotTheirOwnKind) {
  for (const DataPath first : {DataPath::kDirect, DataPath::kBuffered}) {
    for (const DataPath second : {DataPath::kDirect, DataPath::kBuffered}) {
      Outcome held;
      Outcome other;
      begin_held(0, 8192, first, held);
      const std::uint64_t before = writes();
      begin(65'536, 8192, second, other);
      ASSERT_EQ(held, std::nullopt);
      EXPECT_EQ(other.has_value(), first == second) << static_cast<int>(first) << static_cast<int>(second);
      EXPECT_EQ(writes() > before, first == second) << static_cast<int>(first) << static_cast<int>(second);
      world_.pass(std::chrono::seconds(5));
      ASSERT_OK(held);
      ASSERT_OK(other);
    }
  }
}

TEST_F(DirectLockTest, TheEndsOfADirectWriteThatFillNoBlockWaitForOtherDirectWrites) {
  Outcome held;
  Outcome ragged;
  begin_held(0, 8192, DataPath::kDirect, held);
  const std::uint64_t before = writes();
  begin(65'536 + 100, 8192, DataPath::kDirect, ragged);
  ASSERT_EQ(held, std::nullopt);
  EXPECT_EQ(writes(), before + 1) << "its whole block is written, and nothing else";
  EXPECT_EQ(moved(Lane::kBuffered, Direction::kWrite), 0U);
  EXPECT_EQ(ragged, std::nullopt);
  world_.pass(std::chrono::seconds(5));
  ASSERT_OK(held);
  ASSERT_OK(ragged);
  EXPECT_EQ(moved(Lane::kBuffered, Direction::kWrite), 4096U);
}

/// The truncation arrives while the write's whole blocks are being written. It must wait for the write's unaligned
/// ends, too.
TEST_F(DirectLockTest, ATruncateDoesNotFallBetweenTheBlocksAndTheEndsOfOneWrite) {
  Outcome ragged;
  begin_held(100, 20'000, DataPath::kDirect, ragged);
  wire::DatafileTruncateRequest request;
  request.handle = kFile;
  request.slots = where_.slots;
  request.sizes = {5'000};
  request.truncate_generation = 1;
  std::optional<Result<wire::DatafileTruncateReply>> cut;
  Client meta(world_, {.client = ClientId(), .kind = wire::PeerKind::kServer});
  world_.spawn(keep(meta.call<wire::DatafileTruncateReply>(request), cut));
  world_.pass(std::chrono::seconds(5));
  ASSERT_OK(ragged);
  ASSERT_OK(cut);
  EXPECT_EQ((*cut)->datafiles[0].size, 5'000U);
  Bytes expected(100);
  const Bytes data = pattern(100, 20'000);
  expected.insert(expected.end(), data.begin(), data.begin() + 4'900);
  expect_content(expected);
}

TEST_F(DirectTest, AStreamThatContinuesThroughTheCacheCountsAsAFallBack) {
  const Bytes all = pattern(1, 3 << 20);
  ASSERT_OK(write(0, all));
  // The storage does not know what is in the cache, so the policy chooses the direct path.
  world_.storage(0).add({.op = BytestreamOp::kProbeCache, .status = Errc::kNotSupported});
  const wire::ReadRequest request = read_request(where_, run_and_single_bytes());
  const auto outcome = world_.run(client_.read(request, client_.capability(kFile)));
  ASSERT_OK(outcome);
  EXPECT_BYTES(outcome->streams[0], run_and_single_bytes_of(all));
  EXPECT_EQ(moved(Lane::kDirect, Direction::kRead), kRun);
  EXPECT_EQ(moved(Lane::kBuffered, Direction::kRead), kSinglePieces);
  EXPECT_EQ(world_.io().counters().fallbacks(Lane::kDirect, Direction::kRead), 1U);
  EXPECT_EQ(world_.metric("spate_flow_fallbacks_total"), 1U);
}

TEST_F(DirectTest, ANamedDirectPathDoesNotFallBackToTheCache) {
  ASSERT_OK(write(0, pattern(1, 3 << 20)));
  wire::ReadRequest request = read_request(where_, run_and_single_bytes());
  request.path = DataPath::kDirect;
  EXPECT_ERRC(world_.run(client_.read(request, client_.capability(kFile))), Errc::kNotSupported);
  EXPECT_EQ(moved(Lane::kBuffered, Direction::kRead), 0U);
  EXPECT_EQ(world_.metric("spate_flow_fallbacks_total"), 0U);
}

}  // namespace
}  // namespace spate::io::testing
