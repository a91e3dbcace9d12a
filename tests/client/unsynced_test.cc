// SPDX-License-Identifier: Apache-2.0
// What is unsynced belongs to the file: whichever open wrote it, a sync through any other covers it and tells of
// losses.
#include "client/data/unsynced.h"

#include <gtest/gtest.h>

#include "tests/client/client_fixture.h"

namespace spate::client::testing {
namespace {

class ClientUnsynced : public ClientData {
 protected:
  std::unique_ptr<File> open(const std::string& path, std::uint8_t flags = wire::kOpenRead | wire::kOpenWrite) {
    auto file = executor_.run(client_->open(path_from_root(path), flags));
    EXPECT_EQ(file.code(), Errc::kOk);
    return file ? *std::move(file) : nullptr;
  }
  Errc write(File& file) { return executor_.run(file.write(0, bytes(3 * kStrip))).code(); }
  Errc sync(File& file) { return executor_.run(file.sync()).code(); }
  Errc close(File& file) { return executor_.run(file.close()).code(); }
  std::uint64_t syncs() {
    std::uint64_t sum = 0;
    for (auto& host : io_) {
      const auto snapshot = host->metrics.snapshot();
      const auto* sample = snapshot.find("spate_rpc_request_ns", {{"op", "datafile_sync"}});
      sum += sample == nullptr ? 0 : sample->histogram.count();
    }
    return sum;
  }
  /// An io server's machine goes down and comes back.
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
  EXPECT_EQ(syncs(), 3U);  // nothing new
}

TEST_F(ClientUnsynced, FsyncAfterCloseAndReopenCoversTheWrite) {
  auto writer = create("f");
  ASSERT_EQ(write(*writer), Errc::kOk);
  ASSERT_EQ(close(*writer), Errc::kOk);
  auto later = open("f");
  EXPECT_EQ(sync(*later), Errc::kOk);
  EXPECT_EQ(syncs(), 3U);
}

TEST_F(ClientUnsynced, FsyncCoversWhatWasCutByName) {
  auto file = create("f");
  ASSERT_EQ(write(*file), Errc::kOk);
  ASSERT_EQ(sync(*file), Errc::kOk);
  NamePath where;
  where.start = file->handle();
  ASSERT_EQ(executor_.run(client_->truncate(where, 10)).code(), Errc::kOk);
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
  EXPECT_EQ(sync(*later), Errc::kOk);  // it was told to somebody before this open
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

TEST_F(ClientUnsynced, WhatIsSyncedIsNotRemembered) {
  auto file = create("f");
  ASSERT_EQ(write(*file), Errc::kOk);
  ASSERT_EQ(sync(*file), Errc::kOk);
  ASSERT_EQ(close(*file), Errc::kOk);
  EXPECT_EQ(client_->cluster().unsynced().size(), 0U);
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

TEST(UnsyncedFilesTest, AFileThatIsOnlyReadDrivesNoOtherOut) {
  SystemClock clock;
  job::Executor executor(clock);
  UnsyncedFiles files(executor, 2);
  files.forget_some();
  for (std::uint64_t number = 1; number <= 3; ++number) files.leave(files.join(Handle(number), 4, false), false);
  EXPECT_EQ(files.size(), 0U);
}

}  // namespace
}  // namespace spate::client::testing
