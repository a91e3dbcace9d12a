// SPDX-License-Identifier: Apache-2.0
// Errors of write-back. The kernel reports each only once, but the server must report it to every client.
#include <algorithm>

#include "base/expect.h"
#include "server/io/records.h"
#include "tests/io/client.h"

namespace spate::io::testing {
namespace {

using trove::BytestreamFault;
using trove::BytestreamOp;

class FlushTest : public ::testing::Test {
 protected:
  explicit FlushTest(WorldOptions options = {}) : world_(std::move(options)) {}

  wire::WriteRequest small_write(std::uint64_t offset) {
    wire::WriteRequest request = write_request(where_, *datatype::Description::contiguous(offset, 100));
    request.has_inline_data = true;
    return request;
  }
  /// Writes 100 bytes. Returns the datafile's change counter after the write.
  std::uint64_t write(Client& who, std::uint64_t offset) {
    const auto reply = world_.run(who.write(small_write(offset), {pattern(1, 100)}, who.capability(kFile)));
    EXPECT_OK(reply);
    return reply ? reply->datafiles[0].change_counter : 0;
  }
  wire::DatafileFlushRequest flush_request() {
    wire::DatafileFlushRequest request;
    request.handle = kFile;
    request.slots = where_.slots;
    return request;
  }
  /// The counter up to which writes may be lost.
  Result<std::uint64_t> flush(Client& who) {
    const Capability capability = who.capability(kFile);
    SPATE_TRY(const auto reply, who.ask<wire::DatafileFlushReply>(flush_request(), &capability));
    return reply.lost[0];
  }
  void fail_next_sync() { world_.storage(0).add({.op = BytestreamOp::kSync, .status = Errc::kIoError}); }
  job::Task<void> flush_into(std::vector<Result<std::uint64_t>>& out) {
    const Capability capability = client_.capability(kFile);
    const wire::DatafileFlushRequest request = flush_request();
    const auto reply = co_await client_.call<wire::DatafileFlushReply>(request, &capability);
    out.push_back(reply ? Result<std::uint64_t>(reply->lost[0]) : reply.error());
  }

  job::Task<void> write_into(std::uint64_t& counter) {
    const wire::WriteRequest request = small_write(1000);
    std::vector<Bytes> streams;
    streams.push_back(pattern(1, 100));
    const Capability capability = other_.capability(kFile);
    const auto reply = co_await other_.write(request, std::move(streams), capability);
    counter = reply ? reply->datafiles[0].change_counter : 0;
  }

  World world_;
  Client client_{world_};
  Client other_{world_, {.client = ClientId(200)}};
  wire::SlotSet where_ = slot_set(kFile, 1, 1 << 20);
};

TEST_F(FlushTest, AnErrorOfWriteBackIsReportedToEveryClientEachTime) {
  const std::uint64_t first = write(client_, 0);
  const std::uint64_t second = write(other_, 1000);
  EXPECT_GT(second, first);
  fail_next_sync();
  const auto lost = flush(client_);
  ASSERT_OK(lost);
  EXPECT_GE(*lost, second);
  EXPECT_EQ(flush(client_).value(), *lost);  // a resend of the flush
  EXPECT_EQ(flush(other_).value(), *lost);
  EXPECT_GT(write(other_, 1000), *lost);
  EXPECT_EQ(flush(other_).value(), *lost);
}

TEST_F(FlushTest, TheErrorIsReportedUntilTheMachineIsRebooted) {
  write(client_, 0);
  fail_next_sync();
  const auto lost = flush(client_);
  ASSERT_OK(lost);
  world_.restart();
  EXPECT_EQ(flush(client_).value(), *lost);
  world_.restart(true);
  EXPECT_EQ(flush(client_).value(), 0U);
}

TEST_F(FlushTest, TheErrorConcernsOneDatafile) {
  write(client_, 0);
  fail_next_sync();
  ASSERT_OK(flush(client_));
  where_ = slot_set(Handle(43), 1, 1 << 20);
  wire::DatafileFlushRequest request = flush_request();
  request.handle = Handle(43);
  const Capability capability = client_.capability(Handle(43));
  const auto reply = client_.ask<wire::DatafileFlushReply>(request, &capability);
  ASSERT_OK(reply);
  EXPECT_EQ(reply->lost[0], 0U);
}

TEST_F(FlushTest, AWriteThatIsUnderWayWhenWriteBackFailsCountsAsLost) {
  write(client_, 0);
  world_.storage(0).add(
      {.op = BytestreamOp::kWrite, .kind = BytestreamFault::Kind::kDelay, .delay = std::chrono::seconds(2)});
  std::uint64_t late = 0;
  world_.spawn(write_into(late));
  world_.pass(std::chrono::milliseconds(100));
  fail_next_sync();
  const auto lost = flush(client_);
  ASSERT_OK(lost);
  EXPECT_GT(late, 0U);
  EXPECT_GE(*lost, late);
}

TEST_F(FlushTest, RequestsThatWaitForASyncShareTheNextOne) {
  write(client_, 0);
  world_.storage(0).add(
      {.op = BytestreamOp::kSync, .kind = BytestreamFault::Kind::kDelay, .delay = std::chrono::seconds(1)});
  world_.storage(0).add({.op = BytestreamOp::kSync, .nth = 2, .status = Errc::kIoError});
  std::vector<Result<std::uint64_t>> lost;
  for (int i = 0; i < 5; ++i) world_.spawn(flush_into(lost));
  world_.pass(std::chrono::seconds(2));
  ASSERT_EQ(lost.size(), 5U);
  EXPECT_EQ(world_.storage(0).posted(BytestreamOp::kSync), 3U);  // the second one failed and was repeated
  EXPECT_EQ(std::count_if(lost.begin(), lost.end(), [](const auto& each) { return each.value() == 0; }), 1);
}

TEST_F(FlushTest, ASecondFailureIsAnError) {
  write(client_, 0);
  for (const std::uint64_t nth : {1U, 2U})
    world_.storage(0).add({.op = BytestreamOp::kSync, .nth = nth, .status = Errc::kIoError});
  EXPECT_ERRC(flush(client_), Errc::kIoError);
  const auto lost = flush(client_);
  ASSERT_OK(lost);
  EXPECT_GT(*lost, 0U);
}

TEST_F(FlushTest, NoSyncSucceedsBeforeTheLossIsRecorded) {
  write(client_, 0);
  fail_next_sync();
  world_.records().order({.point = trove::FaultPoint::kCommit, .nth = 1, .status = Errc::kIoError});
  EXPECT_ERRC(flush(client_), Errc::kIoError);
  world_.records().order({.point = trove::FaultPoint::kCommit, .nth = 1, .status = Errc::kIoError});
  EXPECT_ERRC(flush(other_), Errc::kIoError);
  const auto lost = flush(other_);
  ASSERT_OK(lost);
  EXPECT_GT(*lost, 0U);
}

TEST_F(FlushTest, ALossWithAnUnknownCounterSurvivesTheProcess) {
  const std::uint64_t written = write(client_, 0);
  fail_next_sync();
  world_.records().order({.point = trove::FaultPoint::kCommit, .nth = 2, .status = Errc::kIoError});
  EXPECT_ERRC(flush(client_), Errc::kIoError);
  world_.restart();
  const auto lost = flush(other_);
  ASSERT_OK(lost);
  EXPECT_GE(*lost, written);
  EXPECT_NE(*lost, LossRecord::kUnsettled);
}

TEST_F(FlushTest, ASynchronousWriteThatWriteBackLostFails) {
  wire::WriteRequest request = small_write(0);
  request.sync = true;
  fail_next_sync();
  EXPECT_ERRC(world_.run(client_.write(request, {pattern(1, 100)}, client_.capability(kFile))), Errc::kLostWrite);
  EXPECT_OK(world_.run(client_.write(request, {pattern(1, 100)}, client_.capability(kFile))));
}

TEST_F(FlushTest, AClientWithoutFlushGetsTheErrorOnce) {
  write(client_, 0);
  wire::DatafileSyncRequest request;
  request.handle = kFile;
  request.slots = where_.slots;
  const Capability capability = client_.capability(kFile);
  fail_next_sync();
  EXPECT_ERRC(client_.ask<wire::DatafileSyncReply>(request, &capability), Errc::kIoError);
  EXPECT_OK(client_.ask<wire::DatafileSyncReply>(request, &capability));
}

}  // namespace
}  // namespace spate::io::testing
