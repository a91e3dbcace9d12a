// SPDX-License-Identifier: Apache-2.0
// How operations run: answers, conflicts, durability, crashes; and the records about the store itself.
#include "base/expect.h"
#include "server/meta/testing/fs_test.h"
#include "wire/cluster_messages.h"

namespace spate::meta {
namespace {

wire::MkdirRequest mkdir_request(std::string path) {
  wire::MkdirRequest request;
  request.where = at(std::move(path));
  request.attributes.mode = 0755;
  return request;
}

wire::RequestId id(std::uint64_t sequence, std::uint16_t slot = 0) { return {slot, sequence}; }

TEST(MetaCore, AResentRequestGetsItsAnswerAndHasNoSecondEffect) {
  TestFs fs;
  User user(fs, alice());
  const auto first = fs.asked<wire::ObjectReply>(alice(), mkdir_request("d"), id(1));
  ASSERT_OK(first);
  ASSERT_OK(user.rename("d", "moved"));
  const auto again = fs.asked<wire::ObjectReply>(alice(), mkdir_request("d"), id(1));
  ASSERT_OK(again);
  EXPECT_EQ(again->attributes, first->attributes);
  EXPECT_ERRC(user.stat("d"), Errc::kNotFound);
  EXPECT_ERRC(fs.asked<wire::ObjectReply>(alice(), mkdir_request("moved"), id(2)), Errc::kExists);
  EXPECT_ERRC(fs.asked<wire::ObjectReply>(alice(), mkdir_request("d"), id(1)), Errc::kForgottenRequest);
}

TEST(MetaCore, AnErrorIsAnAnswerToo) {
  TestFs fs;
  User user(fs, alice());
  ASSERT_OK(user.mkdir("d"));
  EXPECT_ERRC(fs.asked<wire::ObjectReply>(alice(), mkdir_request("d"), id(1)), Errc::kExists);
  ASSERT_OK(user.rmdir("d"));
  EXPECT_ERRC(fs.asked<wire::ObjectReply>(alice(), mkdir_request("d"), id(1)), Errc::kExists);
  EXPECT_ERRC(user.stat("d"), Errc::kNotFound);
}

TEST(MetaCore, AnAnswerSurvivesTheServer) {
  TestFs fs;
  ASSERT_OK(fs.asked<wire::ObjectReply>(alice(), mkdir_request("d"), id(1)));
  fs.crash();
  fs.open(test_options());
  EXPECT_OK(fs.asked<wire::ObjectReply>(alice(), mkdir_request("d"), id(1)));
}

TEST(MetaCore, ACommitThatFailsHasNoEffectAndIsNoAnswer) {
  TestFs fs;
  User user(fs, alice());
  fs.store.on_commit = [] { return Errc::kNoSpace; };
  EXPECT_ERRC(fs.asked<wire::ObjectReply>(alice(), mkdir_request("d"), id(1)), Errc::kNoSpace);
  fs.store.on_commit = {};
  EXPECT_ERRC(user.stat("d"), Errc::kNotFound);
  EXPECT_EQ(user.statfs()->objects, 1U);
  EXPECT_OK(fs.asked<wire::ObjectReply>(alice(), mkdir_request("d"), id(1)));
}

TEST(MetaCore, AConflictMakesTheOperationRunAgain) {
  TestFs fs;
  User user(fs, alice());
  int conflicts = 10;
  fs.store.on_commit = [&conflicts] { return conflicts-- > 0 ? Errc::kConflict : Errc::kOk; };
  ASSERT_OK(user.mkdir("d"));
  EXPECT_EQ(user.stat("")->attributes.size, 1U);
  EXPECT_EQ(user.statfs()->objects, 2U);
}

TEST(MetaCore, AnOperationThatNeverWinsGivesUp) {
  TestFs fs;
  User user(fs, alice());
  fs.store.on_commit = [] { return Errc::kConflict; };
  EXPECT_ERRC(user.mkdir("d"), Errc::kBusy);
  fs.store.on_commit = {};
  EXPECT_ERRC(user.stat("d"), Errc::kNotFound);
}

/// A crash at any commit leaves the whole change or nothing.
TEST(MetaCore, ACrashLeavesAllOrNothing) {
  for (int survivors = 0; survivors < 8; ++survivors) {
    TestFs fs;
    User user(fs, alice());
    int left = survivors;
    fs.store.on_commit = [&left] { return left-- > 0 ? Errc::kOk : Errc::kIoError; };
    (void)user.mkdir("a");
    (void)user.mkdir("a/b");
    (void)user.create("a/f");
    (void)user.link("a/f", "a/b/g");
    (void)user.rename("a/b", "c");
    (void)user.unlink("a/f");
    (void)user.unlink("c/g");
    fs.crash();
    fs.open(test_options());
    ASSERT_OK(fs.started);
    EXPECT_EQ(user.stat("a").has_value(), survivors >= 1);
    EXPECT_EQ(user.stat("a/b").has_value(), survivors >= 2 && survivors < 5);
    EXPECT_EQ(user.stat("a/f").has_value(), survivors >= 3 && survivors < 6);
    EXPECT_EQ(user.stat("c/g").has_value(), survivors >= 5 && survivors < 7);
    if (survivors >= 4 && survivors < 6) EXPECT_EQ(user.stat("a/f")->attributes.link_count, 2U);
    if (survivors == 6) EXPECT_EQ(user.stat("c/g")->attributes.link_count, 1U);
    const std::uint64_t sizes[] = {0, 0, 1, 2, 2, 1, 0, 0};
    if (survivors >= 1) EXPECT_EQ(user.stat("a")->attributes.size, sizes[survivors]);
  }
}

TEST(MetaCore, WithSyncAtCommitAReplyIsDurable) {
  TestFsOptions options;
  options.meta.sync = Duration(0);
  TestFs fs(options);
  User user(fs, alice());
  const std::size_t before = fs.store.syncs;
  ASSERT_OK(user.mkdir("d"));
  EXPECT_EQ(fs.store.syncs, before + 1);
}

TEST(MetaCore, WithSyncAfterATimeChangesAreSyncedByThen) {
  TestFs fs;
  User user(fs, alice());
  ASSERT_OK(user.mkdir("d"));
  ASSERT_OK(user.mkdir("e"));
  const std::size_t before = fs.store.syncs;
  while (fs.executor.step()) {
  }
  EXPECT_EQ(fs.store.syncs, before);
  fs.clock.advance(test_options().sync);
  while (fs.executor.step()) {
  }
  EXPECT_EQ(fs.store.syncs, before + 1);
  ASSERT_OK(user.ask<wire::Empty>(wire::MetaSyncRequest{}));
  EXPECT_EQ(fs.store.syncs, before + 2);
}

TEST(MetaCore, AFencedSessionIsRefused) {
  TestFs fs;
  User user(fs, alice());
  fs.fakes.sessions.fenced = ClientId(9);
  EXPECT_ERRC(user.mkdir("d"), Errc::kSessionFenced);
  EXPECT_ERRC(user.stat(""), Errc::kSessionFenced);
}

TEST(MetaCore, AStoreOfAnotherFileSystemIsRefused) {
  TestFs fs;
  fs.close();
  MetaOptions other = test_options();
  other.fs = FsId(78);
  fs.open(other);
  EXPECT_ERRC(fs.started, Errc::kWrongFileSystem);
  fs.close();
  MetaOptions shard = test_options();
  shard.shard = 1;
  fs.open(shard);
  EXPECT_ERRC(fs.started, Errc::kWrongFileSystem);
  const std::size_t puts = fs.store.puts;
  fs.close();
  EXPECT_EQ(fs.store.puts, puts);  // and does not write the record
}

TEST(MetaCore, AnEmptyStoreIsMadeOnlyOnRequest) {
  TestFsOptions options;
  options.meta.make_store = false;
  TestFs fs(options);
  EXPECT_ERRC(fs.started, Errc::kNotFound);
  fs.close();
  EXPECT_EQ(fs.store.puts, 0U);
}

job::Task<Result<void>> put(TestFs& fs, StoreKey key, Bytes value) {
  job::Transaction store = fs.context.begin();
  store.put(key, value);
  const auto done = co_await store.commit(trove::Durability::kProcess);
  co_return done.status == Errc::kOk ? Result<void>() : Result<void>(done.status);
}

TEST(MetaCore, ANewerStoreIsRefusedByName) {
  TestFs fs;
  fs.close();
  Bytes newer = encoded(Superblock{FsId(77), 0, {}, 1, 63});
  newer[0] = std::byte{2};
  ASSERT_OK(fs.run(put(fs, global_key("superblock"), newer)));
  fs.open(test_options());
  EXPECT_ERRC(fs.started, Errc::kFormatTooNew);
  EXPECT_EQ(fs.started.error().context(), "superblock record of version 2");
}

TEST(MetaCore, ADamagedRecordIsAnErrorOfItsObjectOnly) {
  TestFs fs;
  User user(fs, alice());
  const auto made = user.create("f");
  ASSERT_OK(fs.run(put(fs, inode_key(made->object.attributes.handle), Bytes(3))));
  EXPECT_ERRC(user.stat("f"), Errc::kCorrupt);
  EXPECT_ERRC(user.unlink("f"), Errc::kCorrupt);
  EXPECT_OK(user.create("g"));
}

TEST(MetaCore, ACreateCostsFivePutsAndTwoGets) {
  TestFs fs;
  User user(fs, alice());
  const Handle directory = user.mkdir("d")->attributes.handle;
  wire::CreateRequest request;
  request.where.start = directory;
  request.where.path = "f";
  request.open_flags = wire::kOpenWrite | wire::kOpenExclusive;
  const std::size_t gets = fs.store.gets;
  const std::size_t puts = fs.store.puts;
  const std::size_t commits = fs.store.commits;
  ASSERT_OK(fs.asked<wire::OpenReply>(alice(), request, id(1)));
  EXPECT_EQ(fs.store.gets - gets, 2U);  // answer, directory; the name filter knows that the entry is new
  EXPECT_EQ(fs.store.puts - puts, 5U);  // answer, directory, entry, inode, open
  EXPECT_EQ(fs.store.commits - commits, 1U);
}

job::Task<Result<std::uint64_t>> take(Counter& counter) {
  auto taken = co_await counter.take({});
  co_return taken;
}

job::Task<std::optional<Bytes>> value_of(TestFs& fs, StoreKey key) {
  job::Transaction store = fs.context.begin();
  auto read = co_await store.get(key);
  co_return std::move(read.value);
}

TEST(MetaCounter, GivesEachNumberOnceOverManyBatchesAndRestarts) {
  TestFsOptions options;
  options.overlap = true;
  TestFs fs(options);
  std::uint64_t last = 0;
  for (int restart = 0; restart < 3; ++restart) {
    Counter counter({"test", 10, 4}, fs.context);
    ASSERT_OK(fs.run(counter.start()));
    for (int i = 0; i < 50; ++i) {
      const auto taken = fs.run(take(counter));
      ASSERT_OK(taken);
      if (last != 0 && i > 0) EXPECT_EQ(*taken, last + 1);
      EXPECT_GT(*taken, last);
      last = *taken;
    }
    job::Gate gate(fs.executor);
    job::spawn(gate, counter.stop());
    fs.drive(gate);
  }
}

TEST(MetaCounter, AFailingStoreIsAnErrorNotARepeat) {
  TestFs fs;
  Counter counter({"test", 1, 4}, fs.context);
  ASSERT_OK(fs.run(counter.start()));
  fs.store.on_commit = [] { return Errc::kIoError; };
  for (std::uint64_t i = 1; i <= 4; ++i) EXPECT_EQ(*fs.run(take(counter)), i);
  EXPECT_ERRC(fs.run(take(counter)), Errc::kIoError);
  fs.store.on_commit = {};
  EXPECT_EQ(*fs.run(take(counter)), 5U);
  job::Gate gate(fs.executor);
  job::spawn(gate, counter.stop());
  fs.drive(gate);
}

TEST(MetaCounter, SkipsNumbersThatAreInUseAndRecordsThem) {
  TestFs fs;
  const auto record = [&fs] { return *decode_record<CounterRecord>(*fs.run(value_of(fs, global_key("test")))); };
  Counter counter({"test", 10, 4}, fs.context);
  ASSERT_OK(fs.run(counter.start()));
  EXPECT_EQ(*fs.run(take(counter)), 10U);
  EXPECT_FALSE(counter.skip_to_after(10)) << "the next number is beyond it";
  EXPECT_EQ(*fs.run(take(counter)), 11U);
  EXPECT_TRUE(counter.skip_to_after(100)) << "the next number would be 12";
  EXPECT_FALSE(counter.skip_to_after(50)) << "the next number is beyond it";
  EXPECT_EQ(*fs.run(take(counter)), 101U);
  EXPECT_TRUE(record().is_given(11)) << "it was taken";
  EXPECT_FALSE(record().is_given(12)) << "it was skipped";
  EXPECT_FALSE(record().is_given(100)) << "it was skipped";
  EXPECT_TRUE(record().is_given(101)) << "it was taken";
  EXPECT_TRUE(counter.skip_to_after(200)) << "the next number would be 102";
  EXPECT_EQ(*fs.run(take(counter)), 201U);
  EXPECT_EQ(record().skipped.size(), 2U);
  job::Gate gate(fs.executor);
  job::spawn(gate, counter.stop());
  fs.drive(gate);
  Counter restarted({"test", 10, 4}, fs.context);
  EXPECT_TRUE(restarted.skip_to_after(300)) << "nothing is known before the start";
  ASSERT_OK(fs.run(restarted.start()));
  EXPECT_EQ(*fs.run(take(restarted)), 301U);
  EXPECT_FALSE(record().is_given(300)) << "it was skipped";
  job::Gate last(fs.executor);
  job::spawn(last, restarted.stop());
  fs.drive(last);
}

}  // namespace
}  // namespace spate::meta
