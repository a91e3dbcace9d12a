// SPDX-License-Identifier: Apache-2.0
// Truncate generations; the order of truncations and writes; removals and tombstones; listing; sync.

#include <gmock/gmock.h>

#include <optional>

#include "base/expect.h"
#include "tests/io/client.h"

namespace spate::io::testing {
namespace {

using trove::BytestreamFault;
using trove::BytestreamOp;

constexpr Handle kOther(0x4f);

class TruncateRemoveTest : public ::testing::Test {
 protected:
  Errc write(std::uint64_t offset, const Bytes& data) {
    wire::WriteRequest request = write_request(where_, *datatype::Description::contiguous(offset, data.size()));
    request.has_inline_data = true;
    return world_.run(client_.write(request, {data}, client_.capability(kFile))).code();
  }
  wire::DatafileTruncateRequest truncate_request(std::uint64_t size, std::uint64_t generation) {
    wire::DatafileTruncateRequest request;
    request.handle = kFile;
    request.slots = where_.slots;
    request.sizes = {size};
    request.truncate_generation = generation;
    request.fs_time = WallTime{1'000'000'000'000'000'000};
    return request;
  }
  Result<wire::DatafileTruncateReply> truncate(std::uint64_t size, std::uint64_t generation) {
    return server_.ask<wire::DatafileTruncateReply>(truncate_request(size, generation));
  }
  Result<wire::DatafileStatReply> stat(Client& who, const Capability* capability = nullptr) {
    wire::DatafileStatRequest request;
    request.handle = kFile;
    request.slots = where_.slots;
    return who.ask<wire::DatafileStatReply>(request, capability);
  }
  /// The size that a server gets.
  std::uint64_t size() { return stat(server_)->datafiles[0].size; }
  Errc remove(std::vector<Handle> handles, Duration keep = std::chrono::hours(2)) {
    wire::DatafileRemoveRequest request;
    for (const Handle handle : handles) request.datafiles.push_back({handle, {0, World::target(0)}});
    request.tombstone_until.ns = world_.clock().wall().ns + keep.count();
    return server_.ask<wire::DatafileRemoveReply>(request).code();
  }
  /// A crash of the machine restores a datafile whose removal was not durable.
  void bring_back(Handle handle = kFile) {
    Bytes data = pattern(1, 1000);
    const Extent extent{0, data.size()};
    const MutableByteView memory(data);
    trove::BytestreamRequest request;
    request.op = BytestreamOp::kWrite;
    request.id = {handle, 0};
    request.extents = {&extent, 1};
    request.memory = {&memory, 1};
    trove::BytestreamCompletion done;
    ASSERT_TRUE(world_.storage(0).post(request, nullptr, done));
    ASSERT_THAT(datafiles(), ::testing::Contains(DatafileId{handle, 0}));
  }
  std::vector<DatafileId> datafiles() { return *world_.storage(0).list({}, 10); }
  template <typename T>
  static job::Task<void> keep(job::Task<Result<T>> task, std::optional<Result<T>>& out) {
    out.emplace(co_await std::move(task));
  }

  World world_;
  Client client_{world_};
  Client server_{world_, {.kind = wire::PeerKind::kServer}};
  wire::SlotSet where_ = slot_set(kFile, 1, 1 << 20);
};

TEST_F(TruncateRemoveTest, ATruncateWithTheSameGenerationRunsOnce) {
  ASSERT_EQ(write(0, pattern(1, 1000)), Errc::kOk);
  const auto first = truncate(300, 1);
  ASSERT_OK(first);
  EXPECT_EQ(first->datafiles[0].size, 300U);
  ASSERT_EQ(write(0, pattern(1, 1000)), Errc::kOk);
  const auto again = truncate(300, 1);
  ASSERT_OK(again);
  EXPECT_EQ(again->datafiles[0].size, 1000U);  // a resend, or a repetition after a crash, changes nothing
  EXPECT_EQ(truncate(100, 2)->datafiles[0].size, 100U);
  EXPECT_EQ(truncate(50, 1)->datafiles[0].size, 100U);  // an older one that was late changes nothing
}

TEST_F(TruncateRemoveTest, TheTruncateGenerationSurvivesARestart) {
  ASSERT_EQ(write(0, pattern(1, 1000)), Errc::kOk);
  ASSERT_OK(truncate(300, 1));
  ASSERT_EQ(write(0, pattern(1, 1000)), Errc::kOk);
  world_.restart();
  EXPECT_EQ(truncate(300, 1)->datafiles[0].size, 1000U);
}

// The truncation was not synced, so a crash of the machine may have undone it. The meta server's repetition must take
// effect, but not a late truncation of an older generation.
TEST_F(TruncateRemoveTest, AfterACrashOfTheMachineAnUnsyncedTruncateIsRunAgain) {
  ASSERT_EQ(write(0, pattern(1, 1000)), Errc::kOk);
  ASSERT_OK(truncate(300, 2));
  world_.restart(true);
  ASSERT_EQ(write(0, pattern(1, 1000)), Errc::kOk);  // as if the crash had undone the truncation
  EXPECT_EQ(truncate(200, 1)->datafiles[0].size, 1000U);
  EXPECT_EQ(truncate(300, 2)->datafiles[0].size, 300U);
}

// Data that was written and synced after the truncation must survive the meta server's repetition.
TEST_F(TruncateRemoveTest, AfterASyncATruncateIsDoneForEver) {
  wire::DatafileSyncRequest sync;
  sync.handle = kFile;
  sync.slots = where_.slots;
  const Capability capability = client_.capability(kFile);
  for (const bool by_write : {false, true}) {
    const std::uint64_t generation = by_write ? 2 : 1;
    ASSERT_EQ(write(0, pattern(1, 1000)), Errc::kOk);
    ASSERT_OK(truncate(300, generation));
    wire::WriteRequest request = write_request(where_, *datatype::Description::contiguous(0, 1000));
    request.has_inline_data = true;
    request.sync = by_write;
    ASSERT_OK(world_.run(client_.write(request, {pattern(1, 1000)}, capability)));
    if (!by_write) ASSERT_OK(client_.ask<wire::DatafileSyncReply>(sync, &capability));
    world_.restart(true);
    EXPECT_EQ(truncate(300, generation)->datafiles[0].size, 1000U);
  }
}

TEST_F(TruncateRemoveTest, ATruncateThatFailedIsRunAgain) {
  ASSERT_EQ(write(0, pattern(1, 1000)), Errc::kOk);
  world_.storage(0).add({.op = BytestreamOp::kTruncate, .status = Errc::kIoError});
  EXPECT_ERRC(truncate(300, 1), Errc::kIoError);
  EXPECT_EQ(truncate(300, 1)->datafiles[0].size, 300U);
}

// The truncation arrives while a write is carried out, and waits for it. A write that arrives later waits for the
// truncation.
TEST_F(TruncateRemoveTest, TruncatesWaitForWritesUnderWayAndLaterWritesForThem) {
  world_.storage(0).add(
      {.op = BytestreamOp::kWrite, .kind = BytestreamFault::Kind::kDelay, .delay = std::chrono::seconds(3)});
  wire::WriteRequest request = write_request(where_, *datatype::Description::contiguous(0, 1000));
  request.has_inline_data = true;
  std::optional<Result<wire::WriteReply>> early;
  std::optional<Result<wire::WriteReply>> late;
  std::optional<Result<wire::DatafileTruncateReply>> cut;
  const auto cut_request = truncate_request(10, 1);
  world_.spawn(keep(client_.write(request, {pattern(1, 1000)}, client_.capability(kFile)), early));
  world_.pass(std::chrono::seconds(1));
  world_.spawn(keep(server_.call<wire::DatafileTruncateReply>(cut_request), cut));
  world_.pass(std::chrono::milliseconds(500));
  request.what = *datatype::Description::contiguous(500, 100);
  world_.spawn(keep(client_.write(request, {pattern(2, 100)}, client_.capability(kFile)), late));
  world_.pass(std::chrono::milliseconds(500));
  EXPECT_EQ(early, std::nullopt);
  EXPECT_EQ(cut, std::nullopt);
  EXPECT_EQ(late, std::nullopt);
  world_.pass(std::chrono::seconds(4));
  ASSERT_OK(early);
  ASSERT_OK(cut);
  ASSERT_OK(late);
  EXPECT_EQ((**cut).datafiles[0].size, 10U);
  EXPECT_EQ((**late).datafiles[0].size, 600U);
}

TEST_F(TruncateRemoveTest, ARemovedDatafileIsGoneAndCannotComeBack) {
  ASSERT_EQ(write(0, pattern(1, 1000)), Errc::kOk);
  EXPECT_EQ(remove({kFile}), Errc::kOk);
  EXPECT_EQ(size(), 0U);
  EXPECT_EQ(write(0, pattern(1, 10)), Errc::kStaleHandle);
  wire::PunchRequest punch;
  punch.where = where_;
  punch.what = *datatype::Description::contiguous(0, 100);
  punch.allocate = true;
  const Capability capability = client_.capability(kFile);
  EXPECT_ERRC(client_.ask<wire::PunchReply>(punch, &capability), Errc::kStaleHandle);
  const auto cut = truncate(500, 1);  // succeeds: nothing is left to truncate, and nothing is made
  ASSERT_OK(cut);
  EXPECT_EQ(size(), 0U);
  EXPECT_EQ(remove({kFile}), Errc::kOk);  // a removal may be repeated
}

TEST_F(TruncateRemoveTest, ToAClientARemovedDatafileDoesNotLookLikeAHole) {
  ASSERT_EQ(write(0, pattern(1, 1000)), Errc::kOk);
  const Capability capability = client_.capability(kFile);
  wire::ReadRequest read;
  read.where = where_;
  read.what = *datatype::Description::contiguous(0, 100);
  read.inline_limit = 4096;
  EXPECT_OK(client_.ask<wire::ReadReply>(read, &capability));
  ASSERT_EQ(remove({kFile}), Errc::kOk);
  for (const bool again : {false, true}) {
    if (again) world_.restart();
    EXPECT_ERRC(client_.ask<wire::ReadReply>(read, &capability), Errc::kStaleHandle) << again;
    EXPECT_ERRC(stat(client_, &capability), Errc::kStaleHandle) << again;
    wire::DatafileRangesRequest ranges;
    ranges.handle = kFile;
    ranges.slots = where_.slots;
    ranges.offsets.resize(where_.slots.size());
    ranges.max_ranges = 1;
    EXPECT_ERRC(client_.ask<wire::DatafileRangesReply>(ranges, &capability), Errc::kStaleHandle) << again;
    wire::DatafileCopyRequest copy;
    copy.from = kFile;
    copy.to = kOther;
    copy.pieces = {{where_.slots[0].target, where_.slots[0].slot, where_.slots[0].slot, 0, 0, 100}};
    copy.from_capability = capability;
    const Capability other = client_.capability(kOther);
    EXPECT_ERRC(client_.ask<wire::DatafileCopyReply>(copy, &other), Errc::kStaleHandle) << again;
    EXPECT_ERRC(stat(client_), Errc::kStaleHandle) << again;  // the client has looked up the name, not opened the file
    EXPECT_EQ(size(), 0U);                                    // a meta server knows what it has removed
  }
}

TEST_F(TruncateRemoveTest, TombstonesOutliveTheProcess) {
  EXPECT_EQ(remove({kFile}), Errc::kOk);  // it has no datafile here
  world_.restart();
  EXPECT_EQ(write(0, pattern(1, 10)), Errc::kStaleHandle);
}

// The removal was answered but is not durable. The meta server does not repeat it.
TEST_F(TruncateRemoveTest, DatafilesThatACrashBringsBackAreRemovedAgain) {
  ASSERT_EQ(write(0, pattern(1, 1000)), Errc::kOk);
  ASSERT_EQ(remove({kFile}), Errc::kOk);
  world_.restart(true);
  world_.pass(std::chrono::seconds(1));  // now nothing is left to be done for this start of the machine
  bring_back();
  world_.restart();
  world_.pass(std::chrono::seconds(1));
  EXPECT_EQ(datafiles().size(), 1U);  // a killed process undoes nothing
  world_.restart(true);
  world_.pass(std::chrono::seconds(1));
  EXPECT_THAT(datafiles(), ::testing::IsEmpty());
}

TEST_F(TruncateRemoveTest, TombstonesStayUntilRemovalsWereRepeatedAfterACrash) {
  ASSERT_EQ(write(0, pattern(1, 1000)), Errc::kOk);
  ASSERT_EQ(remove({kFile}, std::chrono::minutes(2)), Errc::kOk);
  bring_back();
  for (std::uint64_t n = 1; n <= 10; ++n) world_.storage(0).add({.op = BytestreamOp::kRemove, .nth = n});
  world_.restart(true);
  world_.pass(std::chrono::minutes(4));  // the tombstone has expired meanwhile
  ASSERT_EQ(datafiles().size(), 1U);
  world_.pass(std::chrono::minutes(10));
  EXPECT_THAT(datafiles(), ::testing::IsEmpty());
}

// The removals are repeated page by page. The process is stopped while the last removal of the first page is under way:
// that one ends well, so nothing has failed, and the other pages have not been looked at.
TEST_F(TruncateRemoveTest, AStopBetweenTwoPagesLeavesTheOtherRemovalsToBeRepeated) {
  constexpr std::uint64_t kPage = 256;
  std::vector<Handle> files;
  for (std::uint64_t i = 0; i <= kPage; ++i) files.emplace_back(1000 + i);
  ASSERT_EQ(remove(files), Errc::kOk);
  bring_back(files.back());
  world_.storage(0).add({.op = BytestreamOp::kRemove,
                         .nth = kPage,
                         .kind = BytestreamFault::Kind::kDelay,
                         .delay = std::chrono::seconds(10)});
  const std::uint64_t before = world_.storage(0).posted(BytestreamOp::kRemove);
  world_.restart(true);
  world_.pass(std::chrono::seconds(1));
  ASSERT_EQ(world_.storage(0).posted(BytestreamOp::kRemove), before + kPage);
  ASSERT_EQ(datafiles().size(), 1U);
  world_.restart();
  world_.pass(std::chrono::seconds(1));
  EXPECT_THAT(datafiles(), ::testing::IsEmpty());
}

TEST_F(TruncateRemoveTest, ExpiredTombstonesArePurgedAndOthersStay) {
  EXPECT_EQ(remove({kFile}, std::chrono::minutes(10)), Errc::kOk);
  EXPECT_EQ(remove({Handle(43)}, std::chrono::minutes(10)), Errc::kOk);
  EXPECT_EQ(remove({Handle(43)}, std::chrono::minutes(30)), Errc::kOk);  // a longer one counts
  EXPECT_EQ(remove({Handle(43)}, std::chrono::minutes(5)), Errc::kOk);   // a shorter one does not
  world_.pass(std::chrono::minutes(20));                                 // the background comes by itself
  world_.restart();
  EXPECT_EQ(write(0, pattern(1, 10)), Errc::kOk);
  where_ = slot_set(Handle(43), 1, 1 << 20);
  wire::WriteRequest request = write_request(where_, *datatype::Description::contiguous(0, 10));
  request.has_inline_data = true;
  EXPECT_ERRC(world_.run(client_.write(request, {pattern(1, 10)}, client_.capability(Handle(43)))), Errc::kStaleHandle);
}

TEST_F(TruncateRemoveTest, ADatafileThatCannotBeRemovedDoesNotKeepOthers) {
  std::vector<Handle> files;
  for (std::uint64_t i = 0; i < 100; ++i) {
    files.emplace_back(1000 + i);
    wire::WriteRequest request =
        write_request(slot_set(files.back(), 1, 1 << 20), *datatype::Description::contiguous(0, 10));
    request.has_inline_data = true;
    ASSERT_OK(world_.run(client_.write(request, {pattern(1, 10)}, client_.capability(files.back()))));
  }
  world_.storage(0).add({.op = BytestreamOp::kRemove, .status = Errc::kIoError});  // the first one
  EXPECT_EQ(remove(files), Errc::kIoError);
  EXPECT_EQ(datafiles().size(), 1U);
  EXPECT_EQ(remove(files), Errc::kOk);
  EXPECT_THAT(datafiles(), ::testing::IsEmpty());
}

TEST_F(TruncateRemoveTest, ADatafileInUseDoesNotKeepOthersFromBeingRemoved) {
  ASSERT_EQ(write(0, pattern(1, 1000)), Errc::kOk);
  bring_back(kOther);
  world_.storage(0).add(
      {.op = BytestreamOp::kWrite, .kind = BytestreamFault::Kind::kDelay, .delay = std::chrono::seconds(60)});
  wire::WriteRequest request = write_request(where_, *datatype::Description::contiguous(0, 1000));
  request.has_inline_data = true;
  std::optional<Result<wire::WriteReply>> under_way;
  world_.spawn(keep(client_.write(request, {pattern(1, 1000)}, client_.capability(kFile)), under_way));
  world_.pass(std::chrono::seconds(1));
  const MonoTime before = world_.clock().now();
  EXPECT_EQ(remove({kFile, kOther}), Errc::kTryAgain);
  EXPECT_LT(world_.clock().now() - before, std::chrono::seconds(10));  // before the caller's deadline
  EXPECT_EQ(datafiles(), std::vector<DatafileId>({{kFile, 0}}));
  world_.pass(std::chrono::seconds(60));
  EXPECT_EQ(remove({kFile, kOther}), Errc::kOk);
  EXPECT_THAT(datafiles(), ::testing::IsEmpty());
}

TEST_F(TruncateRemoveTest, ARemovalWaitsForWritesUnderWay) {
  ASSERT_EQ(write(0, pattern(1, 1000)), Errc::kOk);
  world_.storage(0).add(
      {.op = BytestreamOp::kWrite, .kind = BytestreamFault::Kind::kDelay, .delay = std::chrono::seconds(3)});
  wire::WriteRequest request = write_request(where_, *datatype::Description::contiguous(0, 1000));
  request.has_inline_data = true;
  std::optional<Result<wire::WriteReply>> under_way;
  world_.spawn(keep(client_.write(request, {pattern(1, 1000)}, client_.capability(kFile)), under_way));
  world_.pass(std::chrono::seconds(1));
  EXPECT_EQ(remove({kFile}), Errc::kOk);
  EXPECT_NE(under_way, std::nullopt);
  EXPECT_EQ(size(), 0U);
}

TEST_F(TruncateRemoveTest, ListingComesInPages) {
  for (std::uint64_t i = 1; i <= 5; ++i) {
    const Handle handle(100 + i);
    wire::WriteRequest request = write_request(slot_set(handle, 1), *datatype::Description::contiguous(0, 10));
    request.has_inline_data = true;
    ASSERT_OK(world_.run(client_.write(request, {pattern(i, 10)}, client_.capability(handle))));
  }
  wire::DatafileListRequest request;
  request.target = World::target(0);
  request.max = 2;
  std::vector<std::uint64_t> handles;
  for (bool end = false; !end;) {
    const auto page = server_.ask<wire::DatafileListReply>(request);
    ASSERT_OK(page);
    ASSERT_LE(page->datafiles.size(), 2U);
    for (const auto& ref : page->datafiles) handles.push_back(ref.handle.value);
    end = page->end;
    if (!end) {
      request.after_handle = page->datafiles.back().handle;
      request.after_slot = page->datafiles.back().slot.slot;
    }
  }
  EXPECT_EQ(handles, (std::vector<std::uint64_t>{101, 102, 103, 104, 105}));
}

TEST_F(TruncateRemoveTest, SyncReachesTheStoreAndReturnsItsErrors) {
  ASSERT_EQ(write(0, pattern(1, 1000)), Errc::kOk);
  wire::DatafileSyncRequest request;
  request.handle = kFile;
  request.slots = where_.slots;
  const Capability capability = client_.capability(kFile, Rights::kRead);
  const auto reply = client_.ask<wire::DatafileSyncReply>(request, &capability);
  ASSERT_OK(reply);
  EXPECT_EQ(reply->datafiles[0].size, 1000U);
  EXPECT_EQ(world_.storage(0).posted(BytestreamOp::kSync), 1U);
  world_.storage(0).add({.op = BytestreamOp::kSync, .status = Errc::kIoError});
  EXPECT_ERRC(client_.ask<wire::DatafileSyncReply>(request, &capability), Errc::kIoError);
}

TEST_F(TruncateRemoveTest, ASynchronousWriteSyncs) {
  wire::WriteRequest request = write_request(where_, *datatype::Description::contiguous(0, 100));
  request.has_inline_data = true;
  request.sync = true;
  ASSERT_OK(world_.run(client_.write(request, {pattern(1, 100)}, client_.capability(kFile))));
  EXPECT_EQ(world_.storage(0).posted(BytestreamOp::kSync), 1U);
}

}  // namespace
}  // namespace spate::io::testing
