// SPDX-License-Identifier: Apache-2.0
// Single faults at chosen moments, step by step. The data model checks the resulting data and the reported results.

#include <gmock/gmock.h>

#include <optional>

#include "base/expect.h"
#include "tests/cluster/calls.h"
#include "tests/cluster/data_model.h"

namespace spate::cluster {
namespace {

using bmi::sim::Death;
using trove::BytestreamOp;
using FilePtr = std::unique_ptr<client::File>;

constexpr std::uint64_t kSmall = 3000;   // bytes that fit in the request
constexpr std::uint64_t kLarge = 40000;  // bytes that go in bulk messages, to all servers

WorldOptions directed_options() {
  WorldOptions options;
  options.fabric.chunk_bytes = 4096;
  return options;
}

class DirectedTest : public ::testing::Test {
 protected:
  explicit DirectedTest(const WorldOptions& options = directed_options())
      : world_(options), client_(world_.start_client()) {}

  template <typename T>
  T run(job::Task<T> task) {
    return call(world_, client_, std::move(task));
  }

  FilePtr create(const std::string& name) {
    auto made = run(client_.client().create(client::path_from_root(name), kReadWrite, {}));
    EXPECT_OK(made);
    if (made) model_.know((*made)->handle().value, (*made)->layout());
    return made ? *std::move(made) : nullptr;
  }
  /// A write that the model learns of. After a failure, the model allows any part of it.
  Errc write(client::File& file, std::uint64_t offset, std::uint64_t size) {
    const std::vector<Extent> extents{{offset, size}};
    const WriteId id = model_.begin_write(file.handle().value, extents);
    Bytes memory(size);
    DataModel::fill(id, extents, memory);
    const auto done = run(file.write(offset, memory));
    if (done) model_.succeeded(id);
    if (done) written_.push_back(id);
    return done.code();
  }
  /// Reads from the file's beginning. The model checks the bytes.
  Errc read(client::File& file, std::uint64_t size) {
    const std::vector<Extent> extents{{0, size}};
    const ReadId id = model_.begin_read(file.handle().value, extents);
    Bytes memory(size);
    const auto got = run(file.read(0, memory));
    if (!got) {
      model_.drop_read(id);
      return got.code();
    }
    memory.resize(*got);
    EXPECT_EQ(model_.end_read(id, memory), "");
    return Errc::kOk;
  }
  Errc sync(client::File& file) {
    const auto done = run(file.sync());
    if (!done) return done.code();
    EXPECT_EQ(model_.synced(written_), "");
    written_.clear();
    return Errc::kOk;
  }
  Errc mkdir(const std::string& name) {
    return run(client_.client().mkdir(client::path_from_root(name), wire::NewAttributes{})).code();
  }
  std::set<std::string> names() {
    wire::ReaddirRequest request;
    request.handle = kRootHandle;
    const auto page = run(client_.client().readdir(request));
    EXPECT_OK(page);
    if (page) EXPECT_TRUE(page->end);
    std::set<std::string> found;
    for (std::size_t i = 0; page && i < page->entries.size(); ++i) found.insert(page->entries[i].name);
    return found;
  }
  /// The next operation of this kind fails on each disk.
  void break_next(BytestreamOp op) {
    for (const ServerId id : world_.servers()) {
      for (auto& disk : world_.disks(id).targets) disk->faults().inject(op, 1, Errc::kIoError);
    }
  }
  void heal() {
    for (const ServerId id : world_.servers()) {
      for (auto& disk : world_.disks(id).targets) disk->faults().clear();
    }
  }
  void crash_io_servers() {
    for (const ServerId id : world_.servers()) {
      if (id == kMetaServer) continue;
      world_.kill_server(id, Death::kMachine);
      model_.crashed(id);
      world_.start_server(id);
    }
  }
  /// Stalls the first network when the next such request has arrived, so that its reply is stuck.
  void stall_at(wire::Op op) {
    world_.watch().on_arrival([this, op](const WatchedRequest& request) {
      if (request.op != op || stalled_) return;
      stalled_ = true;
      world_.fabric().links().stall(0, true);
    });
  }
  void go_on() {
    world_.watch().on_arrival({});
    world_.fabric().links().stall(0, false);
    stalled_ = false;
  }

  World world_;
  ClientProcess& client_;
  DataModel model_;
  std::vector<WriteId> written_;  // successful writes since the last sync
  bool stalled_ = false;
};

TEST_F(DirectedTest, AClientFailsOverToTheSecondUrlAndNothingRunsTwice) {
  FilePtr file = create("f");
  ASSERT_NE(file, nullptr);
  std::set<std::string> expected{"f"};
  for (int round = 0; round < 4; ++round) {
    const std::string suffix = std::to_string(round);
    stall_at(wire::Op::kMkdir);
    EXPECT_EQ(mkdir("a" + suffix), Errc::kOk);  // it ran once: a second run would fail with kExists
    EXPECT_TRUE(stalled_) << "the request never came to the server";
    EXPECT_OK(
        run(client_.client().rename(client::path_from_root("a" + suffix), client::path_from_root("b" + suffix), 0)));
    expected.insert("b" + suffix);
    EXPECT_EQ(write(*file, 0, kLarge), Errc::kOk);
    EXPECT_EQ(read(*file, 2 * kLarge), Errc::kOk);
    go_on();  // the stalled messages arrive late
    world_.run_for(std::chrono::seconds(1));
    EXPECT_EQ(names(), expected);
    EXPECT_EQ(read(*file, 2 * kLarge), Errc::kOk);
  }
}

TEST_F(DirectedTest, AClientThatFailedOverReturnsToTheFirstUrl) {
  const auto url = [&] { return client_.client().session().meta().peer_info().url; };
  EXPECT_EQ(mkdir("a"), Errc::kOk);
  const std::string first = url();
  world_.fabric().links().stall(0, true);
  EXPECT_EQ(mkdir("b"), Errc::kOk);
  EXPECT_NE(url(), first);
  world_.run_for(std::chrono::minutes(2));  // attempts to use it fail meanwhile
  EXPECT_EQ(mkdir("c"), Errc::kOk);
  EXPECT_NE(url(), first);
  go_on();
  world_.run_for(std::chrono::minutes(5));
  EXPECT_EQ(mkdir("d"), Errc::kOk);
  EXPECT_EQ(url(), first);
  EXPECT_EQ(names(), (std::set<std::string>{"a", "b", "c", "d"}));
}

TEST_F(DirectedTest, AWriteDelayedOnTheFirstUrlDoesNotOverwriteALaterOne) {
  FilePtr file = create("f");
  ASSERT_NE(file, nullptr);
  for (const std::uint64_t size : {kSmall, kLarge}) {
    stall_at(wire::Op::kWrite);
    EXPECT_EQ(write(*file, 0, size), Errc::kOk);
    EXPECT_TRUE(stalled_) << "the request never came to the server";
    EXPECT_EQ(write(*file, 0, size), Errc::kOk);
    EXPECT_EQ(write(*file, size / 2, 100), Errc::kOk);
    go_on();
    world_.run_for(std::chrono::seconds(3));
    EXPECT_EQ(read(*file, 2 * kLarge), Errc::kOk);
  }
}

/// The waiting client dies, so nobody can receive the lock. (The World's destructor finds tasks that never end.)
TEST_F(DirectedTest, AWaitForALockEndsWithItsClient) {
  wire::LockSpec whole;
  whole.handle = kRootHandle;
  whole.kind = LockKind::kFlock;
  whole.owner = 1;
  whole.mode = LockMode::kExclusive;
  ASSERT_OK(run(client_.client().cluster().locks().set(whole, false)));
  ClientProcess& other = world_.start_client();
  Errc code = Errc::kOk;
  const auto wait = [](client::Client& client, wire::LockSpec lock, Errc& out) -> job::Task<void> {
    auto set = co_await client.cluster().locks().set(lock, true);
    out = set.code();
  };
  job::spawn(other.gate(), wait(other.client(), whole, code));
  world_.run_for(std::chrono::seconds(5));
  EXPECT_EQ(code, Errc::kOk);  // the wait has not ended
  world_.kill_client(other, Death::kProcess);
  world_.run_for(std::chrono::seconds(60));
  EXPECT_EQ(code, Errc::kCancelled);
}

/// A client's session expires while it is cut off. The next session begins with a keep-alive. The io servers know the
/// old session, so each must learn of the new one before the client sends it other requests.
TEST_F(DirectedTest, AfterAnExpiredSessionNoRequestUsesTheOldOne) {
  const FilePtr file = create("f");
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(write(*file, 0, kLarge), Errc::kOk);
  ASSERT_EQ(sync(*file), Errc::kOk);
  ClientProcess& other = world_.start_client();  // after its write only the io servers know the size
  FilePtr theirs;
  const auto begin = [](client::Client& client, FilePtr& out) -> job::Task<void> {
    auto opened = co_await client.open(client::path_from_root("f"), kReadWrite);
    if (!opened) co_return;
    out = *std::move(opened);
    const Bytes data(100);
    std::ignore = co_await out->write(kLarge, data);
  };
  job::spawn(other.gate(), begin(other.client(), theirs));
  world_.run_for(std::chrono::seconds(1));
  ASSERT_NE(theirs, nullptr);
  const std::uint32_t epoch = client_.client().session().identity().epoch;
  world_.fabric().links().partition(1, client_.node(), true);
  world_.run_for(std::chrono::seconds(10));
  world_.fabric().drop_connection(1, client_.node());
  world_.fabric().links().partition(1, client_.node(), false);
  world_.run_for(std::chrono::seconds(10));
  ASSERT_GT(client_.client().session().identity().epoch, epoch);
  const auto found = run(client_.client().stat(client::path_from_root("f")));
  EXPECT_OK(found);
  EXPECT_EQ(read(*file, kLarge), Errc::kOk);
  theirs.reset();
}

/// The client with the right to append is dead, and so is the server that could take the right away.
TEST_F(DirectedTest, AnAppendGivesUpAtItsDeadline) {
  const FilePtr mine = create("log");
  ASSERT_NE(mine, nullptr);
  ClientProcess& other = world_.start_client();
  FilePtr theirs;
  Errc first = Errc::kUnknown;
  const auto begin = [](client::Client& client, FilePtr& out, Errc& code) -> job::Task<void> {
    const Bytes record(100);
    auto opened = co_await client.open(client::path_from_root("log"), kReadWrite);
    if (!opened) co_return;
    out = *std::move(opened);
    const std::array<ByteView, 1> memory{ByteView(record)};
    auto end = co_await out->append(memory);
    code = end.code();
  };
  job::spawn(other.gate(), begin(other.client(), theirs, first));
  world_.run_for(std::chrono::seconds(2));
  ASSERT_EQ(first, Errc::kOk);
  world_.kill_client(other, Death::kMachine);
  const Bytes record(100);
  const std::array<ByteView, 1> memory{ByteView(record)};
  std::optional<Errc> second;
  const auto go_on = [](client::File& file, std::span<const ByteView> memory,
                        std::optional<Errc>& code) -> job::Task<void> {
    auto end = co_await file.append(memory);
    code = end.code();
  };
  job::spawn(client_.gate(), go_on(*mine, memory, second));
  world_.run_for(std::chrono::seconds(1));
  ASSERT_EQ(second, std::nullopt);  // it is still waiting
  world_.kill_server(ServerId(1), Death::kMachine);
  world_.run_for(std::chrono::minutes(3));
  ASSERT_NE(second, std::nullopt) << "it waits for ever";
  EXPECT_THAT(*second, ::testing::AnyOf(Errc::kTimeout, Errc::kUnreachable));
}

/// Another client may have the right meanwhile. So a client in a new session must request it again.
TEST_F(DirectedTest, TheRightToAppendEndsWithItsSession) {
  constexpr client::LockHolder kRight{LockKind::kAppend, 0};
  const FilePtr file = create("log");
  ASSERT_NE(file, nullptr);
  const Bytes record(100);
  const std::array<ByteView, 1> memory{ByteView(record)};
  ASSERT_OK(run(file->append(memory)));
  client::Locks& locks = client_.client().cluster().locks();
  ASSERT_TRUE(locks.holds(file->handle(), kRight));
  const std::uint32_t epoch = client_.client().session().identity().epoch;
  world_.fabric().links().partition(1, client_.node(), true);
  world_.run_for(std::chrono::seconds(10));
  world_.fabric().drop_connection(1, client_.node());
  world_.fabric().links().partition(1, client_.node(), false);
  while (client_.client().session().identity().epoch == epoch)
    ASSERT_TRUE(world_.turn(world_.now() + std::chrono::minutes(1)));
  EXPECT_FALSE(locks.holds(file->handle(), kRight));
}

class FullDiskTest : public DirectedTest {
 protected:
  static WorldOptions options() {
    WorldOptions options = directed_options();
    options.disk_bytes = 256 * 1024;
    return options;
  }
  FullDiskTest() : DirectedTest(options()) {}
};

TEST_F(FullDiskTest, EarlierDataStaysAndFreedSpaceIsUsableAgain) {
  std::vector<FilePtr> files;
  Errc last = Errc::kOk;
  while (last == Errc::kOk && files.size() < 100) {
    files.push_back(create("f" + std::to_string(files.size())));
    ASSERT_NE(files.back(), nullptr);
    last = write(*files.back(), 0, kLarge);
  }
  EXPECT_EQ(last, Errc::kNoSpace);
  ASSERT_GE(files.size(), 10U);  // of about 25 that would fit without overhead
  for (const FilePtr& file : files) EXPECT_EQ(read(*file, 2 * kLarge), Errc::kOk);
  EXPECT_EQ(write(*files[0], 0, 1000), Errc::kOk);  // overwriting needs no space
  for (std::size_t i = 1; i < 5; ++i) {
    EXPECT_OK(run(files[i]->close()));
    EXPECT_OK(run(client_.client().unlink(client::path_from_root("f" + std::to_string(i)))));
  }
  world_.run_for(std::chrono::seconds(5));
  for (int i = 0; i < 3; ++i) {
    files.push_back(create("g" + std::to_string(i)));
    ASSERT_NE(files.back(), nullptr);
    EXPECT_EQ(write(*files.back(), 0, kLarge), Errc::kOk);
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (i >= 1 && i < 5) continue;
    EXPECT_EQ(read(*files[i], 2 * kLarge), Errc::kOk);
  }
}

TEST_F(DirectedTest, AReadThatFailsIsAnErrorAndTheNextOneIsRight) {
  FilePtr file = create("f");
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(write(*file, 0, kLarge), Errc::kOk);
  struct Way {
    std::uint64_t size;
    BytestreamOp op;  // the operation that reads the disk
  };
  for (const Way way : {Way{kSmall, BytestreamOp::kRead}, Way{kLarge, BytestreamOp::kMakeResident}}) {
    break_next(way.op);
    EXPECT_EQ(read(*file, way.size), Errc::kIoError) << way.size;
    heal();
    EXPECT_EQ(read(*file, way.size), Errc::kOk);
  }
}

TEST_F(DirectedTest, AWriteThatFailsIsAnErrorAndAffectsNothingElse) {
  FilePtr file = create("f");
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(write(*file, 0, 3 * kLarge), Errc::kOk);
  for (const std::uint64_t size : {kSmall, kLarge}) {
    break_next(BytestreamOp::kWrite);
    EXPECT_EQ(write(*file, kLarge, size), Errc::kIoError) << size;
    heal();
    EXPECT_EQ(read(*file, 4 * kLarge), Errc::kOk);
    EXPECT_EQ(write(*file, kLarge, size), Errc::kOk);
    EXPECT_EQ(read(*file, 4 * kLarge), Errc::kOk);
  }
}

TEST_F(DirectedTest, AfterAFailedFsyncRewrittenDataCanBeSynced) {
  FilePtr file = create("f");
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(write(*file, 0, kLarge), Errc::kOk);
  break_next(BytestreamOp::kSync);
  EXPECT_EQ(sync(*file), Errc::kLostWrite);
  written_.clear();  // lost, and reported
  heal();
  EXPECT_EQ(write(*file, 0, kLarge), Errc::kOk);
  EXPECT_EQ(sync(*file), Errc::kOk);
  crash_io_servers();
  EXPECT_EQ(read(*file, 2 * kLarge), Errc::kOk);
}

TEST_F(DirectedTest, AFailedFsyncIsReportedToOpensOfOtherClientsToo) {
  FilePtr file = create("f");
  ASSERT_NE(file, nullptr);
  ClientProcess& second = world_.start_client();
  auto theirs = call(world_, second, second.client().open(client::path_from_root("f"), kReadWrite));
  ASSERT_OK(theirs);
  const Bytes data(kLarge);
  EXPECT_OK(call(world_, second, (*theirs)->write(0, data)));
  break_next(BytestreamOp::kSync);
  EXPECT_EQ(write(*file, kLarge, kLarge), Errc::kOk);
  EXPECT_EQ(sync(*file), Errc::kLostWrite);
  heal();
  EXPECT_ERRC(call(world_, second, (*theirs)->sync()), Errc::kLostWrite);
  EXPECT_OK(call(world_, second, (*theirs)->sync()));
}

}  // namespace
}  // namespace spate::cluster
