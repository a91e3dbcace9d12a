// SPDX-License-Identifier: Apache-2.0
// The ends of sessions, capabilities and opens. A client that is silent for longer than its lease loses its locks; the
// renewal of a capability affects no other files; a close that the caller has given up still ends the open.

#include <gmock/gmock.h>

#include <array>

#include "base/expect.h"
#include "tests/cluster/calls.h"

namespace spate::cluster {
namespace {

using FilePtr = std::unique_ptr<client::File>;
using Done = Result<void>;

constexpr std::uint64_t kBytes = 20'000;  // bytes that lie on every io server

Bytes filled(char with, std::uint64_t size = kBytes) { return Bytes(size, static_cast<std::byte>(with)); }

wire::LockSpec whole_file(Handle handle, LockMode mode) {
  wire::LockSpec lock;
  lock.handle = handle;
  lock.kind = LockKind::kFlock;
  lock.owner = 1;
  lock.mode = mode;
  return lock;
}

wire::LockSpec range(Handle handle, std::uint64_t first, LockMode mode) {
  wire::LockSpec lock = whole_file(handle, mode);
  lock.kind = LockKind::kProcess;
  lock.first = first;
  lock.last = first + 9;
  return lock;
}

class LostLocksTest : public ::testing::Test {
 protected:
  LostLocksTest() : world_(WorldOptions{}), silent_(world_.start_client()), other_(world_.start_client()) {}

  template <typename T>
  T run(ClientProcess& client, job::Task<T> task) {
    return call(world_, client, std::move(task));
  }
  Done lock(ClientProcess& client, wire::LockSpec spec) {
    return run(client, client.client().cluster().locks().set(spec, false));
  }
  FilePtr open(ClientProcess& client, const std::string& name) {
    auto made = run(client, client.client().create(client::path_from_root(name), kReadWrite, {}));
    EXPECT_OK(made);
    return made ? *std::move(made) : nullptr;
  }
  Done write(ClientProcess& client, client::File& file, const Bytes& data) { return run(client, file.write(0, data)); }
  Bytes content(ClientProcess& client, client::File& file) {
    Bytes memory(2 * kBytes);
    const auto got = run(client, file.read(0, memory));
    EXPECT_OK(got);
    memory.resize(got ? *got : 0);
    return memory;
  }
  /// Cuts the silent client off from the meta server until its session has expired and is fenced.
  void be_silent() {
    world_.fabric().links().partition(kMetaServer.value, silent_.node(), true);
    world_.run_for(std::chrono::seconds(6));
  }
  void be_heard() { world_.fabric().links().partition(kMetaServer.value, silent_.node(), false); }

  World world_;
  ClientProcess& silent_;
  ClientProcess& other_;
};

/// The holder's first request after the silence is a change of the file's data.
class ChangeAfterSilence : public LostLocksTest, public ::testing::WithParamInterface<std::string> {
 protected:
  Errc change(client::File& file) {
    const std::string& what = GetParam();
    const Bytes data = filled('s');
    if (what == "write") return run(silent_, file.write(0, data)).code();
    if (what == "punch") return run(silent_, file.punch(0, kBytes)).code();
    if (what == "allocate") return run(silent_, file.allocate(0, 3 * kBytes)).code();
    if (what == "truncate") return run(silent_, file.truncate(10)).code();
    if (what == "copy") return run(silent_, file.copy_from(*source_, {0, 0, kBytes})).code();
    const std::array<ByteView, 1> memory{ByteView(data)};
    return run(silent_, file.append(memory)).code();
  }
  FilePtr source_;
};

TEST_P(ChangeAfterSilence, FailsAndKeepsTheNextHoldersData) {
  const FilePtr mine = open(silent_, "f");
  source_ = open(silent_, "source");
  ASSERT_NE(mine, nullptr);
  ASSERT_OK(write(silent_, *source_, filled('s')));
  ASSERT_OK(write(silent_, *mine, filled('a')));
  const wire::LockSpec exclusive = whole_file(mine->handle(), LockMode::kExclusive);
  ASSERT_OK(lock(silent_, exclusive));
  const FilePtr theirs = open(other_, "f");
  ASSERT_ERRC(lock(other_, exclusive), Errc::kTryAgain);
  be_silent();
  ASSERT_OK(lock(other_, exclusive));
  ASSERT_OK(write(other_, *theirs, filled('b')));
  be_heard();
  EXPECT_EQ(change(*mine), Errc::kLostLock);
  EXPECT_EQ(content(other_, *theirs), filled('b'));
  EXPECT_EQ(change(*mine), Errc::kLostLock);  // until the owner has released the lock
  ASSERT_OK(lock(silent_, whole_file(mine->handle(), LockMode::kNone)));
  EXPECT_EQ(content(other_, *theirs), filled('b'));
  ASSERT_OK(lock(other_, whole_file(mine->handle(), LockMode::kNone)));
  EXPECT_EQ(change(*mine), Errc::kOk);
}
INSTANTIATE_TEST_SUITE_P(Of, ChangeAfterSilence,
                         ::testing::Values("write", "punch", "allocate", "truncate", "copy", "append"),
                         [](const auto& info) { return info.param; });

/// A client without locks was promised nothing, so it uses its files in the new epoch.
TEST_F(LostLocksTest, AClientWithoutLocksGoesOnWritingAndTruncating) {
  const FilePtr mine = open(silent_, "f");
  ASSERT_OK(write(silent_, *mine, filled('a')));
  be_silent();
  be_heard();
  EXPECT_OK(run(silent_, mine->truncate(100)));
  EXPECT_OK(write(silent_, *mine, filled('b')));
  EXPECT_EQ(content(silent_, *mine), filled('b'));
}

/// A program has the file open, so its close must report that the open has ended.
TEST_F(LostLocksTest, ACloseReportsThatTheOpenEndedWithItsSession) {
  const FilePtr mine = open(silent_, "f");
  be_silent();
  be_heard();
  EXPECT_ERRC(run(silent_, mine->close()), Errc::kSessionFenced);
}

/// The client's first request after the silence asks for more of a file that it had locked.
TEST_F(LostLocksTest, ALockThatIsTakenAfterTheSilenceIsReleased) {
  const FilePtr file = open(silent_, "f");
  ASSERT_OK(lock(silent_, range(file->handle(), 0, LockMode::kExclusive)));
  be_silent();
  be_heard();
  const wire::LockSpec more = range(file->handle(), 100, LockMode::kExclusive);
  const Done taken = lock(silent_, more);
  EXPECT_THAT(taken.code(), ::testing::AnyOf(Errc::kOk, Errc::kLostLock));
  ASSERT_EQ(run(silent_, silent_.client().cluster().locks().release(file->handle(), {LockKind::kProcess, 1})).code(),
            Errc::kOk);
  EXPECT_OK(lock(other_, more));
}

/// In a new epoch, two opens of one file count as two: the first close does not end the second open.
TEST_F(LostLocksTest, EachOpenCountsInTheNextEpoch) {
  const FilePtr first = open(silent_, "f");
  const FilePtr second = open(silent_, "f");
  ASSERT_OK(write(silent_, *first, filled('a')));
  be_silent();
  be_heard();
  ASSERT_OK(write(silent_, *first, filled('b')));
  ASSERT_OK(write(silent_, *second, filled('b')));
  EXPECT_OK(run(silent_, first->close()));
  ASSERT_OK(run(silent_, silent_.client().unlink(client::path_from_root("f"))));
  world_.run_for(std::chrono::seconds(2));
  EXPECT_EQ(content(silent_, *second), filled('b'));
  EXPECT_OK(run(silent_, second->close()));
}

class RenewalTest : public ::testing::Test {
 protected:
  static WorldOptions options() {
    WorldOptions options;
    options.capability_life = std::chrono::seconds(2);
    options.sync_latency = std::chrono::milliseconds(400);  // so that some request is in flight at each moment
    return options;
  }
  RenewalTest() : world_(options()), client_(world_.start_client()) {}
  World world_;
  ClientProcess& client_;
};

job::Task<Errc> write_and_sync_on(client::File& file, job::Executor& executor, MonoTime until) {
  const Bytes data = filled('w');
  while (executor.now() < until) {
    auto written = co_await file.write(0, data);
    if (!written) co_return written.code();
    auto synced = co_await file.sync();
    if (!synced) co_return synced.code();
  }
  co_return Errc::kOk;
}

TEST_F(RenewalTest, RenewingOneFilesCapabilityDisturbsNoOtherRequests) {
  std::vector<FilePtr> files;
  for (int i = 0; i < 5; ++i) {
    auto made =
        call(world_, client_, client_.client().create(client::path_from_root("f" + std::to_string(i)), kReadWrite, {}));
    ASSERT_OK(made);
    files.push_back(*std::move(made));
    world_.run_for(std::chrono::milliseconds(300));  // so that they expire one after the other
  }
  std::vector<Outcome<Errc>> all;
  const MonoTime until = world_.now() + std::chrono::seconds(20);
  for (const FilePtr& file : files)
    all.push_back(begin_call(client_, write_and_sync_on(*file, file->executor(), until)));
  for (const auto& outcome : all) EXPECT_EQ(end_call(world_, outcome), Errc::kOk);
}

/// The caller gives up before the meta server answers. The open still ends, and only once.
TEST(CloseTest, ACloseThatItsCallerAbandonsStillEndsTheOpen) {
  WorldOptions options;
  options.session_lease = std::chrono::minutes(5);  // otherwise the open would end with its session
  World world(options);
  ClientProcess& writer = world.start_client();
  ClientProcess& other = world.start_client();
  const auto open = [&](ClientProcess& client) {
    auto made = call(world, client, client.client().create(client::path_from_root("f"), kReadWrite, {}));
    EXPECT_OK(made);
    return made ? *std::move(made) : nullptr;
  };
  const FilePtr first = open(writer);
  const FilePtr second = open(writer);
  ASSERT_OK(call(world, writer, first->write(0, filled('a'))));
  const auto is_being_written = [&] {
    const auto found = call(world, other, other.client().lookup(client::path_from_root("f")));
    return found && !found->attributes.size_known;
  };
  world.fabric().links().partition(kMetaServer.value, writer.node(), true);
  EXPECT_NE(call(world, writer, first->close()).code(), Errc::kOk);
  EXPECT_TRUE(is_being_written());
  world.fabric().links().partition(kMetaServer.value, writer.node(), false);
  world.run_for(std::chrono::seconds(5));
  EXPECT_TRUE(is_being_written());  // it is still open through the second open
  EXPECT_OK(call(world, writer, second->close()));
  world.run_for(std::chrono::seconds(1));
  EXPECT_FALSE(is_being_written());
}

}  // namespace
}  // namespace spate::cluster
