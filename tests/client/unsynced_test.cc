// SPDX-License-Identifier: Apache-2.0
// Unsynced writes belong to the file, not to the open that made them: a sync through any other open covers them and
// reports losses.
#include "client/data/unsynced.h"

#include "base/expect.h"
#include "client/file/cached_pages.h"
#include "tests/client/client_fixture.h"

namespace spate::client::testing {
namespace {

class ClientUnsynced : public ClientData {
 protected:
  std::unique_ptr<File> open(const std::string& path, std::uint8_t flags = wire::kOpenRead | wire::kOpenWrite) {
    auto file = executor_.run(client_->open(path_from_root(path), flags));
    EXPECT_OK(file);
    return file ? *std::move(file) : nullptr;
  }
  Errc write(File& file) { return executor_.run(file.write(0, bytes(3 * kStrip))).code(); }
  Errc sync(File& file) { return executor_.run(file.sync()).code(); }
  Errc close(File& file) { return executor_.run(file.close()).code(); }
  std::uint64_t syncs() {
    std::uint64_t sum = 0;
    for (auto& host : io_) {
      const auto snapshot = host->metrics.snapshot();
      const auto* sample = snapshot.find("spate_rpc_request_ns", {{"op", "datafile_flush"}});
      sum += sample == nullptr ? 0 : sample->histogram.count();
    }
    return sum;
  }
  /// Restarts an io server with its machine, so that unsynced writes may be lost.
  void crash_io(std::size_t index) {
    IoHost& host = *io_[index];
    executor_.run(host.server->stop());
    rpc::ServerOptions options = host.server->options();
    options.incarnation = Incarnation(options.incarnation.value + 1000);
    host.server = std::make_unique<rpc::Server>(options, *host.context, random_, host.metrics);
    host.server->add(*host.service);
    host.server->start();
  }
};

TEST_F(ClientUnsynced, FsyncThroughAnotherOpenCoversTheWrite) {
  auto writer = create("f");
  auto other = open("f", wire::kOpenRead);
  ASSERT_EQ(write(*writer), Errc::kOk);
  EXPECT_EQ(sync(*other), Errc::kOk);
  EXPECT_EQ(syncs(), 3U);
  EXPECT_EQ(sync(*writer), Errc::kOk);
  EXPECT_EQ(syncs(), 3U);  // nothing new to sync
}

TEST_F(ClientUnsynced, FsyncAfterCloseAndReopenCoversTheWrite) {
  auto writer = create("f");
  ASSERT_EQ(write(*writer), Errc::kOk);
  ASSERT_EQ(close(*writer), Errc::kOk);
  auto later = open("f");
  EXPECT_EQ(sync(*later), Errc::kOk);
  EXPECT_EQ(syncs(), 3U);
}

TEST_F(ClientUnsynced, FsyncCoversTruncationsByName) {
  auto file = create("f");
  ASSERT_EQ(write(*file), Errc::kOk);
  ASSERT_EQ(sync(*file), Errc::kOk);
  NamePath where;
  where.start = file->handle();
  ASSERT_OK(executor_.run(client_->truncate(where, 10)));
  EXPECT_EQ(sync(*file), Errc::kOk);
  EXPECT_EQ(syncs(), 6U);
}

TEST_F(ClientUnsynced, EachOpenReportsALostWriteOnce) {
  auto writer = create("f");
  auto other = open("f");
  ASSERT_EQ(write(*writer), Errc::kOk);
  crash_io(1);
  EXPECT_EQ(sync(*other), Errc::kLostWrite);
  EXPECT_EQ(sync(*other), Errc::kOk);
  auto later = open("f");
  EXPECT_EQ(sync(*writer), Errc::kLostWrite);
  EXPECT_EQ(sync(*writer), Errc::kOk);
  EXPECT_EQ(sync(*later), Errc::kOk);  // it was reported before this open
}

TEST_F(ClientUnsynced, ALossAfterTheCloseIsReportedByTheNextOpen) {
  auto writer = create("f");
  ASSERT_EQ(write(*writer), Errc::kOk);
  ASSERT_EQ(close(*writer), Errc::kOk);
  crash_io(1);
  auto later = open("f");
  EXPECT_EQ(sync(*later), Errc::kLostWrite);
  EXPECT_EQ(sync(*later), Errc::kOk);
}

/// On a mount, the program's close(2) has returned before the kernel releases the file.
TEST_F(ClientUnsynced, ALossThatOnlyAnAbandonedCloseNoticedIsReportedByTheNextOpen) {
  auto writer = create("f");
  ASSERT_EQ(write(*writer), Errc::kOk);
  crash_io(1);
  auto other = create("g");
  ASSERT_EQ(write(*other), Errc::kOk);  // this reply tells the client of the crash
  std::array<client::CachedPages::PageRecord, 1> memory{};
  client::CachedPages pages(memory);
  EXPECT_OK(executor_.run(pages.close(*writer)));
  auto later = open("f");
  EXPECT_EQ(sync(*later), Errc::kLostWrite);
  EXPECT_EQ(sync(*later), Errc::kOk);
}

TEST_F(ClientUnsynced, SyncedWritesAreForgotten) {
  auto file = create("f");
  ASSERT_EQ(write(*file), Errc::kOk);
  ASSERT_EQ(sync(*file), Errc::kOk);
  ASSERT_EQ(close(*file), Errc::kOk);
  EXPECT_EQ(client_->cluster().unsynced().size(), 0U);
}

/// The state of slot 0 after a write or sync at a server of incarnation 7.
std::vector<SlotState> state_of_slot(std::uint64_t counter, std::uint64_t lost = 0) {
  SlotState state{0, {}, Incarnation(7)};
  state.state.change_counter = counter;
  state.lost = lost;
  return {state};
}

class UnsyncedWrites : public ::testing::Test {
 protected:
  /// Ends a sync of everything dirty. The server's reply says that writes up to counter `lost` are lost.
  void sync(std::uint64_t lost) {
    std::ignore = file_.take_dirty();
    file_.synced(state_of_slot(100, lost));
  }
  SystemClock clock_;
  job::Executor executor_{clock_};
  UnsyncedFile file_{Handle(1), 4, executor_};
};

TEST_F(UnsyncedWrites, AreLostWhenTheFirstIsNotAboveTheCounter) {
  file_.note_written(state_of_slot(20));
  file_.note_written(state_of_slot(10));
  sync(9);
  EXPECT_EQ(file_.losses(), 0U);
  file_.note_written(state_of_slot(20));
  file_.note_written(state_of_slot(10));
  sync(10);
  EXPECT_EQ(file_.losses(), 1U);
}

TEST_F(UnsyncedWrites, WritesBeforeASyncDoNotCountAnyMore) {
  file_.note_written(state_of_slot(10));
  sync(0);
  file_.note_written(state_of_slot(30));
  sync(20);
  EXPECT_EQ(file_.losses(), 0U);
}

TEST_F(UnsyncedWrites, DuringASyncCountForTheNext) {
  file_.note_written(state_of_slot(10));
  std::ignore = file_.take_dirty();
  file_.note_written(state_of_slot(30));
  file_.synced(state_of_slot(30));
  sync(20);
  EXPECT_EQ(file_.losses(), 0U);
  file_.note_written(state_of_slot(40));
  std::ignore = file_.take_dirty();
  file_.note_written(state_of_slot(60));
  file_.synced(state_of_slot(60, 50));
  EXPECT_EQ(file_.losses(), 1U);
  sync(60);
  EXPECT_EQ(file_.losses(), 2U);
}

TEST_F(UnsyncedWrites, StayWhenASyncFails) {
  file_.note_written(state_of_slot(10));
  file_.put_back(file_.take_dirty());
  file_.note_written(state_of_slot(30));
  sync(10);
  EXPECT_EQ(file_.losses(), 1U);
}

TEST_F(UnsyncedWrites, WritesWithAnUnknownCounterMayBeLost) {
  file_.note_written(state_of_slot(0));
  sync(0);
  EXPECT_EQ(file_.losses(), 0U);
  file_.note_written(state_of_slot(0));
  sync(5);
  EXPECT_EQ(file_.losses(), 1U);
}

TEST(UnsyncedFilesTest, TheOldestClosedFileIsSyncedWhole) {
  SystemClock clock;
  job::Executor executor(clock);
  UnsyncedFiles files(executor, 2);
  const std::vector<SlotState> first_slot{{0, {}, Incarnation(7), false}};
  for (std::uint64_t number = 1; number <= 3; ++number) {
    auto file = files.join(Handle(number), 4, true);
    file->note_written(first_slot);
    files.leave(std::move(file), false);
  }
  EXPECT_EQ(files.size(), 2U);
  EXPECT_EQ(files.join(Handle(1), 4, false)->take_dirty(), (std::vector<std::uint32_t>{0, 1, 2, 3}));
  EXPECT_EQ(files.join(Handle(2), 4, false)->take_dirty(), (std::vector<std::uint32_t>{0}));
  EXPECT_EQ(files.join(Handle(9), 4, true)->take_dirty(), (std::vector<std::uint32_t>{}));
}

/// Another client may have the file open, and this one may open it again by its handle.
TEST(UnsyncedFilesTest, AFileThatLostItsNameIsRememberedAndDroppedWithoutDoubtOfOthers) {
  SystemClock clock;
  job::Executor executor(clock);
  UnsyncedFiles files(executor, 2);
  const std::vector<SlotState> first_slot{{0, {}, Incarnation(7), false}};
  for (std::uint64_t number = 1; number <= 3; ++number) {
    auto file = files.join(Handle(number), 4, true);
    file->note_written(first_slot);
    files.leave(std::move(file), true);
  }
  EXPECT_EQ(files.join(Handle(3), 4, false)->take_dirty(), (std::vector<std::uint32_t>{0}));
  EXPECT_EQ(files.join(Handle(9), 4, false)->take_dirty(), (std::vector<std::uint32_t>{}));
}

TEST(UnsyncedFilesTest, AFileThatIsOnlyReadEvictsNoOther) {
  SystemClock clock;
  job::Executor executor(clock);
  UnsyncedFiles files(executor, 2);
  files.forget_some();
  for (std::uint64_t number = 1; number <= 3; ++number) files.leave(files.join(Handle(number), 4, false), false);
  EXPECT_EQ(files.size(), 0U);
}

}  // namespace
}  // namespace spate::client::testing
