// SPDX-License-Identifier: Apache-2.0
// Disks refuse operations permanently while clients have no deadline; and clients' wall clocks are set.

#include <array>

#include "base/expect.h"
#include "tests/cluster/calls.h"

namespace spate::cluster {
namespace {

using client::path_from_root;
using trove::BytestreamOp;

constexpr std::uint64_t kTooFar = std::uint64_t{900} << 40U;

class RefusalsTest : public ::testing::Test {
 protected:
  RefusalsTest() : client_(start()), other_(start()) {}

  ClientProcess& start() {
    client::Options options = small_client_options({}, {}, {});
    options.deadline = std::chrono::hours(24);  // as on a hard mount
    return world_.start_client(std::move(options));
  }
  template <typename T>
  T run(ClientProcess& process, job::Task<T> task) {
    return call(world_, process, std::move(task));
  }
  std::unique_ptr<client::File> create(const std::string& name) {
    auto made = run(client_, client_.client().create(path_from_root(name), wire::kOpenRead | wire::kOpenWrite, {}));
    EXPECT_OK(made);
    return made ? *std::move(made) : nullptr;
  }
  void make(const std::string& name, std::size_t size) {
    auto file = create(name);
    const Bytes data(size, std::byte{7});
    EXPECT_OK(run(client_, file->write(0, data)));
    EXPECT_OK(run(client_, file->close()));
  }
  Result<wire::ObjectReply> stat(const std::string& name) {
    return run(other_, other_.client().stat(path_from_root(name)));
  }
  void refuse(BytestreamOp op, Errc code) {
    for (auto& disk : world_.disks(ServerId(3)).targets) disk->faults().refuse(op, code);
  }
  void heal() {
    for (auto& disk : world_.disks(ServerId(3)).targets) disk->faults().clear();
  }

  World world_{WorldOptions()};
  ClientProcess& client_;
  ClientProcess& other_;
};

TEST_F(RefusalsTest, AFileThatIsTooLargeForADiskIsRefusedAtOnceInEveryWay) {
  make("f", 9000);
  const MonoTime before = world_.now();
  EXPECT_ERRC(run(client_, client_.client().truncate(path_from_root("f"), kTooFar)), Errc::kFileTooBig);
  EXPECT_EQ(stat("f")->attributes.size, 9000U);
  auto file = create("f");
  ASSERT_NE(file, nullptr);
  const Bytes data(100, std::byte{1});
  EXPECT_ERRC(run(client_, file->truncate(kTooFar)), Errc::kFileTooBig);
  EXPECT_ERRC(run(client_, file->write(kTooFar, data)), Errc::kFileTooBig);
  EXPECT_ERRC(run(client_, file->allocate(kTooFar, 100)), Errc::kFileTooBig);
  EXPECT_LT(world_.now() - before, std::chrono::seconds(5)) << "somebody tries again and again";
  EXPECT_EQ(run(client_, file->stat())->size, 9000U);
  EXPECT_OK(run(client_, file->close()));
}

TEST_F(RefusalsTest, ACopyThatIsTooLargeForADiskIsRefusedAtOnce) {
  make("from", 9000);
  auto from = create("from");
  auto to = create("to");
  ASSERT_NE(from, nullptr);
  ASSERT_NE(to, nullptr);
  const MonoTime before = world_.now();
  // The first offset is aligned to strips, so the servers copy; the second one is not, so the client copies.
  for (const std::uint64_t offset : {kTooFar, kTooFar + 100})
    EXPECT_ERRC(run(client_, to->copy_from(*from, {0, offset, 9000})), Errc::kFileTooBig) << offset;
  EXPECT_LT(world_.now() - before, std::chrono::seconds(5)) << "somebody tries again and again";
  EXPECT_EQ(run(client_, to->stat())->size, 0U);
  EXPECT_OK(run(client_, from->close()));
  EXPECT_OK(run(client_, to->close()));
}

TEST_F(RefusalsTest, AFileOfUnknownSizeIsNeverRefusedAsTooLarge) {
  make("f", 9000);
  auto mine = create("f");
  auto theirs = run(other_, other_.client().open(path_from_root("f"), wire::kOpenRead | wire::kOpenWrite));
  ASSERT_OK(theirs);
  refuse(BytestreamOp::kStat, Errc::kIoError);  // so that the close cannot find out the size
  EXPECT_OK(run(client_, mine->close()));
  EXPECT_OK(run(other_, (*theirs)->close()));
  auto cut = begin_call(client_, client_.client().truncate(path_from_root("f"), kTooFar));
  auto seen = begin_call(other_, other_.client().stat(path_from_root("f")));
  for (int i = 0; i < 20 && !*cut; ++i) {
    if (*seen) {
      if (**seen) EXPECT_EQ((**seen)->attributes.size, 9000U);
      seen = begin_call(other_, other_.client().stat(path_from_root("f")));
    }
    world_.run_for(std::chrono::microseconds(100));
  }
  heal();
  EXPECT_ERRC(end_call(world_, cut), Errc::kFileTooBig);
  const auto last = end_call(world_, seen);
  if (last) EXPECT_EQ(last->attributes.size, 9000U);
  if (!last) EXPECT_ERRC(last, Errc::kIoError) << "it may have met the disk before that was mended";
  EXPECT_EQ(stat("f")->attributes.size, 9000U);
}

TEST_F(RefusalsTest, ATruncationThatADiskKeepsRefusingFailsAndUnblocksTheFile) {
  for (const Errc code : {Errc::kIoError, Errc::kNoSpace, Errc::kReadOnly}) {
    make("f", 9000);
    refuse(BytestreamOp::kTruncate, code);
    EXPECT_EQ(run(client_, client_.client().truncate(path_from_root("f"), 10)).code(), code);
    auto file = run(other_, other_.client().open(path_from_root("f"), wire::kOpenRead));
    ASSERT_OK(file) << "the file is blocked";
    EXPECT_OK(run(other_, (*file)->close()));
    heal();
    EXPECT_OK(run(client_, client_.client().truncate(path_from_root("f"), 10)));
    EXPECT_EQ(stat("f")->attributes.size, 10U);
  }
}

TEST_F(RefusalsTest, AStepOfTheWallClockMovesNoTimeOfChange) {
  auto file = create("f");
  const Bytes data(100, std::byte{1});
  for (const Duration step : {Duration(std::chrono::hours(48)), Duration(std::chrono::hours(-96))}) {
    client_.step_wall_clock(step);
    world_.run_for(std::chrono::seconds(1));
    const WallTime before = world_.wall();
    EXPECT_OK(run(client_, file->write(0, data)));
    const auto seen = run(client_, file->stat());
    ASSERT_OK(seen);
    EXPECT_LE(seen->mtime, world_.wall());
    EXPECT_GE(seen->mtime.ns, before.ns - Duration(std::chrono::milliseconds(100)).count()) << "it lags behind";
  }
  EXPECT_OK(run(client_, file->close()));
}

}  // namespace
}  // namespace spate::cluster
