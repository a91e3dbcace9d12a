// SPDX-License-Identifier: Apache-2.0
// The answer to `spate explain`: the path that a read or a write would take, for callers that may do it. Nothing is
// moved.
#include "base/expect.h"
#include "tests/io/paths_fixture.h"

namespace spate::io::testing {
namespace {

using flow::Direction;
using flow::Lane;
using trove::BytestreamFault;
using trove::BytestreamOp;
using wire::DataPath;

/// Targets with direct access in blocks of 4096, which large requests take.
class ExplainTest : public PathsTest {
 protected:
  static WorldOptions with_device() {
    WorldOptions options;
    options.direct_alignment = 4096;
    options.io.policy.direct_from_bytes = 100'000;
    options.io.policy.direct_piece_bytes = 4096;
    return options;
  }
  ExplainTest() : PathsTest(with_device()) {}

  wire::ExplainPathRequest request(bool is_write, DataPath path = DataPath::kAutomatic,
                                   std::uint64_t bytes = kStreamBytes) const {
    wire::ExplainPathRequest request;
    request.where = where_;
    request.what = *datatype::Description::contiguous(0, bytes);
    request.is_write = is_write;
    request.path = path;
    return request;
  }
  Result<wire::ExplainPathReply> ask(const wire::ExplainPathRequest& request, Rights rights = Rights::kReadWrite) {
    const Capability capability = client_.capability(kFile, rights);
    return client_.ask<wire::ExplainPathReply>(request, &capability);
  }
  /// kAutomatic: the request would be refused.
  DataPath explained(const wire::ExplainPathRequest& request) {
    const auto reply = ask(request);
    EXPECT_OK(reply);
    if (!reply || reply->slots.size() != 1) return DataPath::kBypass;
    EXPECT_NE(reply->slots[0].why, "");
    return reply->slots[0].path;
  }
  std::uint64_t written_by(Lane lane) { return moved(lane, Direction::kWrite); }
};

TEST_F(ExplainTest, AWriteTakesTheExplainedPath) {
  for (const auto& [bytes, path, lane] : {std::tuple{std::uint64_t{8192}, DataPath::kBuffered, Lane::kBuffered},
                                          std::tuple{kStreamBytes / 4096 * 4096, DataPath::kDirect, Lane::kDirect}}) {
    EXPECT_EQ(explained(request(true, DataPath::kAutomatic, bytes)), path) << bytes;
    const std::uint64_t before = written_by(lane);
    ASSERT_OK(write(0, pattern(1, bytes)));
    EXPECT_EQ(written_by(lane) - before, bytes) << bytes;
  }
}

TEST_F(ExplainTest, AReadOfTheSameBytesMayTakeAnotherPath) {
  ASSERT_OK(write(0, pattern(1, kStreamBytes)));
  EXPECT_EQ(explained(request(false, DataPath::kCached)), DataPath::kCached);
  EXPECT_EQ(explained(request(true, DataPath::kCached)), DataPath::kAutomatic) << "no write goes by the cache alone";
  EXPECT_ERRC(write(0, pattern(1, kStreamBytes), false, DataPath::kCached), Errc::kNotSupported);
}

/// Its blocks are no single range of the datafile.
TEST_F(ExplainTest, AWriteInPiecesIsNotDirect) {
  wire::ExplainPathRequest pieces = request(true, DataPath::kDirect);
  const std::vector<datatype::Level> levels{{8192, 30}};
  pieces.what = *datatype::Description::strided(0, 4096, levels);
  EXPECT_EQ(explained(pieces), DataPath::kAutomatic);
  pieces.path = DataPath::kAutomatic;
  EXPECT_EQ(explained(pieces), DataPath::kBuffered);
}

TEST_F(ExplainTest, NothingIsMovedMadeOrKept) {
  for (const DataPath path : {DataPath::kAutomatic, DataPath::kBuffered, DataPath::kDirect, DataPath::kPeerToPeer})
    std::ignore = explained(request(true, path));
  for (const BytestreamOp op : {BytestreamOp::kWrite, BytestreamOp::kRead}) EXPECT_EQ(world_.storage(0).posted(op), 0U);
  EXPECT_EQ(written_by(Lane::kBuffered) + written_by(Lane::kDirect) + written_by(Lane::kInline), 0U);
  EXPECT_EQ(world_.buffers_used(), 0U);
  wire::DatafileStatRequest stat;
  stat.handle = kFile;
  stat.slots = where_.slots;
  const Capability capability = client_.capability(kFile);
  const auto told = client_.ask<wire::DatafileStatReply>(stat, &capability);
  ASSERT_OK(told);
  EXPECT_EQ(told->datafiles[0].size, 0U);
}

TEST_F(ExplainTest, AnExplanationOfAWriteNeedsTheRightToWrite) {
  EXPECT_ERRC(ask(request(true), Rights::kRead), Errc::kCapabilityInvalid);
  EXPECT_ERRC(ask(request(false), Rights::kWrite), Errc::kCapabilityInvalid);
  EXPECT_OK(ask(request(true), Rights::kWrite));
  EXPECT_OK(ask(request(false), Rights::kRead));
  EXPECT_ERRC(client_.ask<wire::ExplainPathReply>(request(true)), Errc::kCapabilityInvalid);
}

TEST_F(ExplainTest, AnErrorOfTheStorageIsNoPath) {
  world_.storage(0).add({.op = BytestreamOp::kStat, .status = Errc::kIoError});
  EXPECT_ERRC(ask(request(true)), Errc::kIoError);
}

}  // namespace
}  // namespace spate::io::testing
