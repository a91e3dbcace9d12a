// SPDX-License-Identifier: Apache-2.0
// Streams between a target and another device's memory (the path p2p).
#include <sys/mman.h>

#include "base/expect.h"
#include "base/expect_bytes.h"
#include "base/unique_fd.h"
#include "tests/io/model.h"
#include "tests/io/paths_fixture.h"

namespace spate::io::testing {
namespace {

using flow::Direction;
using flow::Lane;
using trove::BytestreamOp;
using wire::DataPath;

/// The same targets, with a memory file as the other device's memory. The server uses the same code for both.
class PeerTest : public PathsTest {
 protected:
  static WorldOptions with_peer(DataPath configured) {
    WorldOptions options;
    options.direct_alignment = 4096;
    options.io.policy.read_path = configured;
    options.io.policy.write_path = configured;
    const UniqueFd fd(::memfd_create("peer", MFD_CLOEXEC));
    SPATE_CHECK(::ftruncate(fd.get(), 4 * flow::kPeerBufferBytes) == 0);
    options.io.peer_memory =
        flow::PeerMemory::map("/proc/self/fd/" + std::to_string(fd.get()), 4 * flow::kPeerBufferBytes).value();
    return options;
  }
  explicit PeerTest(DataPath configured = DataPath::kAutomatic) : PathsTest(with_peer(configured)) {}
  void expect_read(const Bytes& expected, DataPath path) {
    const auto outcome = read(0, expected.size() + 100, path);
    ASSERT_OK(outcome);
    EXPECT_BYTES(outcome->streams[0], expected);
  }
  std::uint64_t fallbacks(Direction direction) { return world_.io().counters().fallbacks(Lane::kPeer, direction); }
};

TEST_F(PeerTest, ARequestedP2pPathUsesOnlyTheDevicesMemory) {
  const Bytes data = pattern(1, 49 * 4096);
  ASSERT_OK(write(0, data, false, DataPath::kPeerToPeer));
  EXPECT_EQ(moved(Lane::kPeer, Direction::kWrite), data.size());
  EXPECT_EQ(copied(Lane::kPeer, Direction::kWrite), data.size());
  expect_read(data, DataPath::kPeerToPeer);
  EXPECT_EQ(moved(Lane::kPeer, Direction::kRead), data.size());
  EXPECT_EQ(copied(Lane::kPeer, Direction::kRead), data.size());
  EXPECT_EQ(world_.metric("spate_flow_bytes_total"), 2 * data.size());
  EXPECT_EQ(world_.buffers_used(), 0U) << "no buffer of main memory was left behind";
}

TEST_F(PeerTest, EndsThatFillNoBlockAreWrittenThroughTheCache) {
  Bytes expected = pattern(1, 60'000);
  ASSERT_OK(write(0, expected));
  const Bytes data = pattern(2, 40'000);
  ASSERT_OK(write(5'000, data, false, DataPath::kPeerToPeer));
  std::copy(data.begin(), data.end(), expected.begin() + 5'000);
  expect_read(expected, DataPath::kPeerToPeer);
  expect_read(expected, DataPath::kBuffered);
  EXPECT_EQ(moved(Lane::kPeer, Direction::kWrite), 8 * 4096U);
}

TEST_F(PeerTest, ForANamedPathARefusalOfTheDeviceIsAnErrorAndRemembered) {
  const Bytes data = pattern(1, kStreamBytes);
  ASSERT_OK(write(0, data));
  world_.storage(0).refuse_device_memory();
  const auto refused = read(0, kStreamBytes, DataPath::kPeerToPeer);
  EXPECT_ERRC(refused, Errc::kNotSupported);
  const std::uint64_t reads = world_.storage(0).posted(BytestreamOp::kRead);
  const auto again = read(0, kStreamBytes, DataPath::kPeerToPeer);
  EXPECT_ERRC(again, Errc::kNotSupported);
  EXPECT_NE(again.error().message().find("cannot reach"), std::string::npos) << again.error().message();
  EXPECT_EQ(world_.storage(0).posted(BytestreamOp::kRead), reads) << "the device is not asked again";
  EXPECT_ERRC(write(0, data, false, DataPath::kPeerToPeer), Errc::kNotSupported);
  EXPECT_EQ(moved(Lane::kPeer, Direction::kRead), 0U);
}

TEST_F(PeerTest, WithoutDeviceMemoryThePathIsRefusedWithTheReason) {
  WorldOptions options;
  options.direct_alignment = 4096;
  options.io.no_peer_memory = "nothing was mapped";
  World world(options);
  Client client(world);
  wire::ReadRequest request = read_request(where_, *datatype::Description::contiguous(0, kStreamBytes));
  request.path = DataPath::kPeerToPeer;
  wire::WriteRequest before = write_request(where_, *datatype::Description::contiguous(0, kStreamBytes));
  ASSERT_OK(world.run(client.write(before, {pattern(1, kStreamBytes)}, client.capability(kFile))));
  const auto outcome = world.run(client.read(request, client.capability(kFile)));
  EXPECT_ERRC(outcome, Errc::kNotSupported);
  EXPECT_NE(outcome.error().message().find("nothing was mapped"), std::string::npos);
}

/// The settings flow.read_path and flow.write_path are p2p.
class ConfiguredPeerTest : public PeerTest {
 protected:
  ConfiguredPeerTest() : PeerTest(DataPath::kPeerToPeer) {}
};

TEST_F(ConfiguredPeerTest, TheDevicesMemoryIsUsed) {
  const Bytes data = pattern(1, 49 * 4096);
  ASSERT_OK(write(0, data));
  expect_read(data, DataPath::kAutomatic);
  EXPECT_EQ(moved(Lane::kPeer, Direction::kWrite), data.size());
  EXPECT_EQ(moved(Lane::kPeer, Direction::kRead), data.size());
  EXPECT_EQ(fallbacks(Direction::kRead) + fallbacks(Direction::kWrite), 0U);
}

TEST_F(ConfiguredPeerTest, AReadThatTheDeviceRefusesContinuesThroughMainMemoryAndIsCounted) {
  const Bytes data = pattern(1, 49 * 4096);
  ASSERT_OK(write(0, data));
  world_.storage(0).refuse_device_memory();
  expect_read(data, DataPath::kAutomatic);
  EXPECT_EQ(fallbacks(Direction::kRead), 1U);
  EXPECT_EQ(moved(Lane::kPeer, Direction::kRead), 0U);
  EXPECT_EQ(moved(Lane::kDirect, Direction::kRead), data.size());
  expect_read(data, DataPath::kAutomatic);  // the policy now chooses another path
  EXPECT_EQ(fallbacks(Direction::kRead), 2U);
  EXPECT_EQ(moved(Lane::kDirect, Direction::kRead), 2 * data.size());
}

TEST_F(ConfiguredPeerTest, AWriteThatTheDeviceRefusesIsCopiedToMainMemoryAndCounted) {
  const Bytes data = pattern(1, 49 * 4096);
  world_.storage(0).refuse_device_memory();
  ASSERT_OK(write(0, data));
  EXPECT_EQ(fallbacks(Direction::kWrite), 1U);
  EXPECT_EQ(moved(Lane::kPeer, Direction::kWrite), 0U);
  EXPECT_EQ(moved(Lane::kDirect, Direction::kWrite), data.size());
  EXPECT_GT(copied(Lane::kDirect, Direction::kWrite), data.size()) << "what had arrived already was copied once more";
  EXPECT_LT(copied(Lane::kDirect, Direction::kWrite), 2 * data.size()) << "and the rest was not";
  expect_read(data, DataPath::kBuffered);
  EXPECT_EQ(world_.buffers_used(), 0U);
}

TEST_F(ConfiguredPeerTest, AStreamThatContinuesThroughTheCacheCountsAsAFallBackOfBoth) {
  const Bytes all = pattern(1, 3 << 20);
  ASSERT_OK(write(0, all));
  const wire::ReadRequest request = read_request(where_, run_and_single_bytes());
  const auto outcome = world_.run(client_.read(request, client_.capability(kFile)));
  ASSERT_OK(outcome);
  EXPECT_BYTES(outcome->streams[0], run_and_single_bytes_of(all));
  EXPECT_EQ(moved(Lane::kPeer, Direction::kRead), kRun);
  EXPECT_EQ(moved(Lane::kBuffered, Direction::kRead), kSinglePieces);
  EXPECT_EQ(fallbacks(Direction::kRead), 1U);
  EXPECT_EQ(world_.io().counters().fallbacks(Lane::kDirect, Direction::kRead), 1U);
}

TEST_F(ConfiguredPeerTest, ADeviceThatRefusesAtTheStartIsNotAskedLater) {
  world_.storage(0).refuse_device_memory();
  world_.restart();
  const Bytes data = pattern(1, 49 * 4096);
  ASSERT_OK(write(0, data));
  expect_read(data, DataPath::kAutomatic);
  EXPECT_EQ(copied(Lane::kDirect, Direction::kWrite), data.size());
  EXPECT_EQ(fallbacks(Direction::kRead), 1U);
  EXPECT_EQ(fallbacks(Direction::kWrite), 1U);
}

TEST_F(ConfiguredPeerTest, AnyStorageErrorBecomesTheReplyAndGivesTheBuffersBack) {
  ASSERT_OK(write(0, pattern(1, kStreamBytes)));
  for (std::uint64_t nth = 1; nth < 20; nth += 3) {
    world_.storage(0).add({.op = BytestreamOp::kRead, .nth = nth, .status = Errc::kIoError});
    EXPECT_ERRC(read(0, kStreamBytes, DataPath::kAutomatic), Errc::kIoError);
    world_.storage(0).add({.op = BytestreamOp::kWrite, .nth = nth, .status = Errc::kIoError});
    EXPECT_ERRC(write(100, pattern(2, kStreamBytes)), Errc::kIoError);
  }
  // PeerMemory's destructor checks that all buffers were returned.
}

}  // namespace
}  // namespace spate::io::testing
