// SPDX-License-Identifier: Apache-2.0
// Clients on an io server's machine read and write its datafiles themselves. Step by step: leases are granted, recalled
// and fenced; holders and servers die.

#include <optional>

#include "base/expect.h"
#include "tests/cluster/calls.h"
#include "tests/cluster/data_model.h"
#include "tests/cluster/gathered_writes_fixture.h"

namespace spate::cluster {
namespace {

using bmi::sim::Death;
using FilePtr = std::unique_ptr<client::File>;

constexpr ServerId kLender{2};
constexpr std::uint64_t kWritten = 6000;

WorldOptions lending_options(Plant plant, std::uint32_t io_servers = 1) {
  WorldOptions options;
  options.io_servers = io_servers;
  options.doubled = 0;
  options.bypass = io::BypassPolicy::kWrite;
  options.plant = plant;
  return options;
}

client::Options bypass_options() {
  client::Options options = small_client_options({}, {}, {});
  options.bypass = client::BypassMode::kWrite;
  options.bypass_when = {0, 0, Duration(0)};
  return options;
}

class BypassTest : public ::testing::Test {
 protected:
  explicit BypassTest(WorldOptions options = lending_options(Plant::kNone))
      : world_(std::move(options)),
        holder_(&world_.start_client_beside(kLender, bypass_options())),
        other_(world_.start_client()) {}

  template <typename T>
  T end(const Outcome<T>& outcome) {
    return end_call(world_, outcome);
  }
  template <typename T>
  T run(ClientProcess& client, job::Task<T> task) {
    return call(world_, client, std::move(task));
  }

  FilePtr create(ClientProcess& client, const std::string& name) {
    auto made = run(client, client.client().create(client::path_from_root(name), kReadWrite, {}));
    SPATE_CHECK(made.has_value());
    return *std::move(made);
  }
  FilePtr open(ClientProcess& client, const std::string& name) {
    auto opened = run(client, client.client().open(client::path_from_root(name), kReadWrite));
    SPATE_CHECK(opened.has_value());
    return *std::move(opened);
  }
  Errc write(ClientProcess& client, client::File& file, char what) {
    const Bytes data = filled(what);
    return run(client, file.write(0, data)).code();
  }
  Bytes read(ClientProcess& client, client::File& file) {
    Bytes memory(2 * kWritten);
    const auto got = run(client, file.read(0, memory));
    memory.resize(got.value());
    return memory;
  }
  static Bytes filled(char what) { return Bytes(kWritten, static_cast<std::byte>(what)); }

  /// Makes a file whose datafiles the holder writes by itself from now on.
  FilePtr lend(const std::string& name) {
    FilePtr file = create(*holder_, name);
    for (const char what : {'a', 'b', 'c'}) EXPECT_EQ(write(*holder_, *file, what), Errc::kOk);
    const std::uint64_t before = world_.bypassed_bytes();
    EXPECT_EQ(write(*holder_, *file, 'd'), Errc::kOk);
    EXPECT_EQ(world_.bypassed_bytes(), before + kWritten);
    return file;
  }
  /// Begins a write of the holder that does not end as long as the device is stuck.
  auto begin_stuck_write(client::File& file, const Bytes& data) {
    holder_->leased().stick(true);
    auto writing = begin_call(*holder_, file.write(0, data));
    world_.run_for(std::chrono::milliseconds(10));
    EXPECT_EQ(holder_->leased().writing(), 1U);
    return writing;
  }

  World world_;
  ClientProcess* holder_;
  ClientProcess& other_;
};

TEST_F(BypassTest, WritesOfTheLeaseHolderAreReadByOthers) {
  const FilePtr mine = lend("file");
  const FilePtr theirs = open(other_, "file");
  EXPECT_EQ(read(other_, *theirs), filled('d'));
  EXPECT_EQ(write(*holder_, *mine, 'e'), Errc::kOk);
  EXPECT_EQ(read(other_, *theirs), filled('e'));
}

TEST_F(BypassTest, AWriteOfAnotherClientEndsTheLease) {
  const FilePtr mine = lend("file");
  const FilePtr theirs = open(other_, "file");
  EXPECT_EQ(write(other_, *theirs, 'x'), Errc::kOk);
  const std::uint64_t before = world_.bypassed_bytes();
  EXPECT_EQ(write(*holder_, *mine, 'y'), Errc::kOk);
  EXPECT_EQ(world_.bypassed_bytes(), before);
  EXPECT_EQ(read(other_, *theirs), filled('y'));
}

TEST_F(BypassTest, AfterARecallNobodyGetsAWriteLeaseForAWhile) {
  const FilePtr mine = lend("file");
  const FilePtr theirs = open(other_, "file");
  EXPECT_EQ(write(other_, *theirs, 'x'), Errc::kOk);
  mine->force_path(wire::DataPath::kBypass);
  const Bytes data = filled('y');
  const auto refused = run(*holder_, mine->write(0, data));
  EXPECT_ERRC(refused, Errc::kNotSupported);
  EXPECT_NE(refused.error().message().find("other clients write"), std::string::npos) << refused.error().message();
  world_.run_for(std::chrono::seconds(1));
  EXPECT_EQ(write(*holder_, *mine, 'z'), Errc::kOk);
  EXPECT_EQ(read(other_, *theirs), filled('z'));
}

TEST_F(BypassTest, ASilentHolderIsFencedAndGetsAnError) {
  const FilePtr mine = lend("file");
  const FilePtr theirs = open(other_, "file");
  const Bytes late = filled('L');
  const auto writing = begin_stuck_write(*mine, late);
  EXPECT_EQ(write(other_, *theirs, 'x'), Errc::kOk);  // waits for the holder, but with a limit
  EXPECT_EQ(*writing, std::nullopt);
  holder_->leased().stick(false);
  EXPECT_ERRC(end(writing), Errc::kLostWrite);
  EXPECT_EQ(read(other_, *theirs), filled('x'));
  EXPECT_EQ(write(*holder_, *mine, 'z'), Errc::kOk);
  EXPECT_EQ(read(other_, *theirs), filled('z'));
}

TEST_F(BypassTest, TheLastWriteOfAKilledHolderHasNoEffectAfterItsFence) {
  const FilePtr mine = lend("file");
  const FilePtr theirs = open(other_, "file");
  const Bytes late = filled('L');
  begin_stuck_write(*mine, late);
  world_.kill_client(*holder_, Death::kProcess);
  EXPECT_EQ(write(other_, *theirs, 'x'), Errc::kOk);
  world_.run_for(std::chrono::seconds(10));  // meanwhile the killed process's system call ends
  EXPECT_EQ(read(other_, *theirs), filled('x'));
}

TEST_F(BypassTest, AServerThatIsStartedAgainEndsWhatAnEarlierOneGranted) {
  const FilePtr mine = lend("file");
  const Bytes late = filled('L');
  const auto writing = begin_stuck_write(*mine, late);
  world_.kill_server(kLender, Death::kProcess);
  world_.start_server(kLender);
  const FilePtr theirs = open(other_, "file");
  EXPECT_EQ(write(other_, *theirs, 'x'), Errc::kOk);
  EXPECT_EQ(*writing, std::nullopt);
  holder_->leased().stick(false);
  EXPECT_ERRC(end(writing), Errc::kLostWrite);
  EXPECT_EQ(read(other_, *theirs), filled('x'));
}

TEST_F(BypassTest, ATruncationWaitsForTheHolder) {
  const FilePtr mine = lend("file");
  const Bytes data = filled('e');
  const auto writing = begin_stuck_write(*mine, data);
  const auto cutting = begin_call(other_, other_.client().truncate(client::path_from_root("file"), 100));
  world_.run_for(std::chrono::milliseconds(100));
  EXPECT_EQ(*cutting, std::nullopt);
  holder_->leased().stick(false);
  EXPECT_OK(end(writing));
  EXPECT_OK(end(cutting));
  const FilePtr theirs = open(other_, "file");
  EXPECT_EQ(read(other_, *theirs), Bytes(100, std::byte{'e'}));
}

/// A client that waits for a minute after a refusal.
class RefusedBypassTest : public BypassTest {
 protected:
  RefusedBypassTest() : patient_(world_.start_client_beside(kLender, options())) {
    const FilePtr file = create(patient_, "to be connected");
    SPATE_CHECK(write(patient_, *file, 'a') == Errc::kOk);
  }
  static client::Options options() {
    client::Options options = bypass_options();
    options.bypass_when.ask_again_after = std::chrono::minutes(1);
    return options;
  }
  void expect_bypass(client::File& file, bool expected) {
    const std::uint64_t before = world_.bypassed_bytes();
    EXPECT_EQ(write(patient_, file, 'x'), Errc::kOk);
    EXPECT_EQ(world_.bypassed_bytes() - before, expected ? kWritten : 0);
  }

  ClientProcess& patient_;
};

TEST_F(RefusedBypassTest, ANewFileIsLentFromItsSecondWriteOn) {
  const FilePtr made = create(patient_, "new");
  expect_bypass(*made, false);
  expect_bypass(*made, true);
  expect_bypass(*made, true);
}

TEST_F(RefusedBypassTest, AnEmptyFileIsLentFromItsSecondWriteOn) {
  {
    const FilePtr made = create(other_, "empty");
  }
  const FilePtr opened = open(patient_, "empty");
  expect_bypass(*opened, false);
  expect_bypass(*opened, true);
}

TEST_F(RefusedBypassTest, AClientThatWasRefusedAfterItsFirstWriteWaits) {
  const FilePtr mine = lend("file");
  const FilePtr theirs = open(patient_, "file");
  expect_bypass(*theirs, false);  // recalls the holder's lease
  expect_bypass(*theirs, false);  // is refused for that
  world_.run_for(std::chrono::seconds(10));
  expect_bypass(*theirs, false);
  world_.run_for(std::chrono::minutes(1));
  expect_bypass(*theirs, true);
}

/// A mount that may gather small writes, on the io server's machine.
class GatheringBypassTest : public BypassTest {
 protected:
  GatheringBypassTest() : mount_(world_.start_client_beside(kLender, options(*memory_))) {
    EXPECT_ERRC(run(mount_, mount_.client().stat(client::path_from_root("file"))), Errc::kNotFound);
    std::ignore = gathered().has_room();
    world_.run_for(std::chrono::milliseconds(20));
    EXPECT_TRUE(gathered().has_room()) << "the targets have no room to gather";
    file_ = create(mount_, "file");
  }
  static client::Options options(client::GatherMemory& memory) {
    client::Options options = bypass_options();
    options.keep_attributes = true;
    options.gather = &memory;
    options.bypass_when = {8192, 4, std::chrono::minutes(1)};
    return options;
  }
  client::GatheredWrites& gathered() { return mount_.client().cluster().gathered(); }
  std::uint64_t bypassed(std::uint64_t offset, std::size_t size) {
    const std::uint64_t before = world_.bypassed_bytes();
    const Bytes bytes = pattern(offset, size);
    EXPECT_OK(run(mount_, file_->gathering()->write(offset, bytes)));
    return world_.bypassed_bytes() - before;
  }

  std::unique_ptr<client::GatherMemory> memory_ = memory_of(-1);
  ClientProcess& mount_;
  FilePtr file_;
};

TEST_F(GatheringBypassTest, LargeWritesGoPastTheServerAndAreNotGathered) {
  EXPECT_EQ(bypassed(0, 65536), 0U);
  EXPECT_FALSE(gathered().has(file_->handle())) << "a large write is gathered";
  EXPECT_EQ(bypassed(65536, 65536), 65536U);
  EXPECT_FALSE(gathered().has(file_->handle())) << "a large write is gathered";
  Bytes all(2 * 65536);
  EXPECT_EQ(run(mount_, file_->read(0, all)).value(), all.size());
  EXPECT_BYTES(all, pattern(0, all.size()));
}

TEST_F(GatheringBypassTest, SmallWritesAreGatheredAfterAFewThatCouldNotBe) {
  for (std::uint64_t i = 0; i < 10; ++i) EXPECT_EQ(bypassed(8192 * (i % 2), 4096), 0U);
  EXPECT_EQ(bypassed(3 * 4096, 4096), 0U);
  EXPECT_TRUE(gathered().has(file_->handle())) << "a small write is not gathered";
}

TEST_F(GatheringBypassTest, ASmallNewFileIsWrittenThroughTheServer) {
  for (std::uint64_t i = 0; i < 8; ++i) {
    const Bytes bytes = pattern(i * 8192, 8192);
    ASSERT_OK(run(mount_, file_->write(i * 8192, bytes)));
  }
  EXPECT_EQ(world_.bypassed_bytes(), 0U);
  const Bytes bytes = pattern(65536, 8192);
  ASSERT_OK(run(mount_, file_->write(65536, bytes)));
  EXPECT_EQ(world_.bypassed_bytes(), 8192U);
}

class TwoServersBypassTest : public BypassTest {
 protected:
  TwoServersBypassTest() : BypassTest(lending_options(Plant::kNone, 2)) {
    world_.watch().on_arrival([this](const WatchedRequest& request) { ++asked_[request.op]; });
  }
  std::map<wire::Op, std::uint64_t> asked_;
};

TEST_F(TwoServersBypassTest, ACloseAsksOnlyTheServerThatWasBypassed) {
  const FilePtr file = create(*holder_, "file");
  for (const char what : {'a', 'b', 'c'}) EXPECT_EQ(write(*holder_, *file, what), Errc::kOk);
  EXPECT_GT(world_.bypassed_bytes(), 0U);
  asked_.clear();
  client::CloseOptions options;
  options.learn_data = true;
  const auto closed = run(*holder_, file->close(std::move(options)));
  ASSERT_OK(closed);
  EXPECT_EQ(closed->size, kWritten);
  EXPECT_EQ(asked_[wire::Op::kDatafileStat], 1U);
}

class FalseFenceTest : public BypassTest {
 protected:
  FalseFenceTest() : BypassTest(lending_options(Plant::kFalseFence)) {}
};

/// Without this plant, the tests above could not show that the simulated holder writes through a descriptor of its own.
TEST_F(FalseFenceTest, ALateWriteIsSeenIfTheDatafileIsNotReplaced) {
  const FilePtr mine = lend("file");
  const FilePtr theirs = open(other_, "file");
  const Bytes late = filled('L');
  const auto writing = begin_stuck_write(*mine, late);
  EXPECT_EQ(write(other_, *theirs, 'x'), Errc::kOk);
  holder_->leased().stick(false);
  std::ignore = end(writing);
  EXPECT_EQ(read(other_, *theirs), late);
}

}  // namespace
}  // namespace spate::cluster
