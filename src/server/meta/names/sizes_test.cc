// SPDX-License-Identifier: Apache-2.0
// Sizes and times of files whose writers close, die, are fenced or come back: in the end they agree with the datafiles.
#include "base/expect.h"
#include "server/meta/testing/crash_test.h"

namespace spate::meta {
namespace {

using std::chrono::seconds;

/// `writer` writes "f"; `other` only reads its attributes.
struct WriterScene {
  TestClient writer;
  TestClient other;
  Handle file;

  void prepare(CrashWorld& world) {
    writer = world.connect();
    other = world.connect();
    file = world.make_file(writer, "f", 100);
    ASSERT_OK(world.open_file(writer, "f", kRW));
    ASSERT_TRUE(world.write(writer, file, 700));
    ASSERT_OK(world.sync(other));
  }
  void check(CrashWorld& world, std::uint64_t size) {
    const InodeRecord inode = world.inode(file);
    EXPECT_EQ(inode.write_opens, 0U);
    EXPECT_TRUE(knows_size(inode.attributes));
    EXPECT_EQ(inode.attributes.size, size);
    EXPECT_EQ(inode.attributes.mtime, world.data_of(file).mtime);
    Audit(world).check_at_rest();
  }
};

TEST(MetaSizeAfterACrash, IsRightThoughTheServerDiedDuringAClose) {
  for (const bool machine : {false, true}) {
    for (const bool tells : {false, true}) {
      WriterScene scene;
      const auto request = [&scene, tells](CrashWorld& world) {
        auto close = RoleTest::close_request(scene.file, Rights::kReadWrite);
        if (tells) close.data = world.data_of(scene.file);
        return close;
      };
      die_at_each_step(
          machine, [&](CrashWorld& world) { scene.prepare(world); },
          [&](CrashWorld& world) {
            std::ignore = world.asked<wire::CloseReply>(scene.writer, request(world), RoleTest::id(50, 1));
            world.run_ready();
          },
          [&](CrashWorld& world) {
            ASSERT_OK(world.join(scene.writer));
            EXPECT_OK(world.asked<wire::CloseReply>(scene.writer, request(world), RoleTest::id(50, 1)));
            world.wait(seconds(1));
            scene.check(world, 700);
          });
    }
  }
}

TEST(MetaSizeAfterACrash, IsRightThoughTheServerDiedWhileAWriterExpired) {
  for (const bool machine : {false, true}) {
    WriterScene scene;
    const std::size_t steps = die_at_each_step(
        machine, [&](CrashWorld& world) { scene.prepare(world); },
        [&](CrashWorld& world) { world.wait(world.options.session_lease * 5 / 4); },
        [&](CrashWorld& world) {
          world.wait(world.options.session_lease * 3 / 2);
          scene.check(world, 700);
          EXPECT_FALSE(world.write(scene.writer, scene.file, 900)) << "an expired client writes";
        });
    EXPECT_GE(steps, 10U);
  }
}

// A client writes on as long as no io server refuses it, also while the meta server is away.
TEST(MetaSizeAfterACrash, IncludesTheLastWritesOfAnExpiringWriter) {
  for (const bool machine : {false, true}) {
    WriterScene scene;
    die_at_each_step(
        machine, [&](CrashWorld& world) { scene.prepare(world); },
        [&](CrashWorld& world) { world.wait(world.options.session_lease * 5 / 4); },
        [&](CrashWorld& world) {
          const bool late = world.write(scene.writer, scene.file, 900);
          world.wait(world.options.session_lease * 3 / 2);
          scene.check(world, late ? 900 : 700);
        });
  }
}

TEST(MetaSizeAfterACrash, IncludesWritesAfterTheRenewalOfTheSession) {
  for (const bool machine : {false, true}) {
    WriterScene scene;
    die_at_each_step(
        machine, [&](CrashWorld& world) { scene.prepare(world); },
        [&](CrashWorld& world) { world.wait(world.options.session_lease * 5 / 4); },
        [&](CrashWorld& world) {
          ASSERT_OK(world.join(scene.writer));
          auto renewal = RoleTest::open_request("", kRW);
          renewal.where.start = scene.file;
          renewal.renew = true;
          const auto renewed = world.asked<wire::OpenReply>(scene.writer, renewal, RoleTest::id(1, 1));
          ASSERT_OK(renewed);
          EXPECT_EQ(renewed->capability.session_epoch, scene.writer.epoch);
          ASSERT_TRUE(world.write(scene.writer, scene.file, 800)) << "the renewed open cannot write";
          world.wait_alive(scene.writer, seconds(20));
          ASSERT_TRUE(world.write(scene.writer, scene.file, 900)) << "the renewed open cannot write any more";
          EXPECT_EQ(world.inode(scene.file).write_opens, 1U);
          ASSERT_OK(world.close_file(scene.writer, scene.file, Rights::kReadWrite));
          world.wait(seconds(1));
          scene.check(world, 900);
        });
  }
}

TEST(MetaSizeAfterACrash, IsSettledLaterWhenTheStoreFailsAfterTheStart) {
  int struck = 0;
  for (std::uint64_t nth = 1; nth < 100; ++nth) {
    SCOPED_TRACE("range " + std::to_string(nth));
    CrashWorld world;
    TestClient client = world.connect();
    const Handle cut = world.make_file(client, "cut", 100);
    const Handle gone = world.make_file(client, "gone", 100);
    const Handle written = world.create(client, "written", kRW)->object.attributes.handle;
    ASSERT_TRUE(world.write(client, written, 300));
    world.io.fail = [](std::string_view) { return Errc::kUnreachable; };
    ASSERT_OK(world.close_file(client, written, Rights::kReadWrite));
    ASSERT_OK(world.unlink(client, "gone"));
    EXPECT_ERRC(world.truncate(client, "cut", 10), Errc::kTimeout);
    world.crash();
    trove::KeyvalFault fault;
    fault.point = trove::FaultPoint::kRange;
    fault.nth = nth;
    fault.status = Errc::kIoError;
    world.faults.order(fault);
    world.role = std::make_unique<MetaRole>(world.options, world.context, world.random, world.metrics, world.io);
    const auto started = world.run(world.role->start());
    world.run_ready();
    if (world.faults.pending_orders() > 0) break;
    if (!started) continue;  // the server reports the failure at once, and does not start
    ++struck;
    world.io.fail = {};
    world.wait(seconds(40));
    EXPECT_EQ(world.data_of(cut).size, 10U);
    EXPECT_TRUE(is_removed(world.io.files[gone])) << "after failure " << struck;
    EXPECT_EQ(world.inode(written).attributes.size, 300U);
    Audit(world).check_at_rest();
  }
  EXPECT_GE(struck, 3);
}

class MetaSizes : public RoleTest {
 protected:
  TestClient client = connect();
  TestClient other = connect();

  /// The version that the record has, or would have if the file did not know its parent.
  unsigned stored_version(Handle handle) {
    InodeRecord record = inode(handle);
    record.parent = Handle();
    return std::to_integer<unsigned>(encoded(record).front());
  }
  static wire::CloseWritersRequest close_of_writers(Handle handle, std::uint32_t opens) {
    wire::CloseWritersRequest request{close_request(handle, Rights::kWrite), opens};
    request.close.data = wire::DataSummary{1000, 4096, WallTime{5}, 5};
    return request;
  }
};

TEST_F(MetaSizes, AFlagWithoutItsIntentIsPutRight) {
  const Handle handle = make_file(client, "f", 100);
  InodeRecord damaged = inode(handle);
  damaged.truncating = true;
  struct Put {
    static job::Task<Errc> run(job::KeyvalContext& context, const InodeRecord& inode) {
      job::Transaction t = context.begin();
      t.put(inode_key(inode.handle()), encoded(inode));
      const auto done = co_await t.commit(trove::Durability::kMachine);
      co_return done.status;
    }
  };
  ASSERT_EQ(run(Put::run(context, damaged)), Errc::kOk);
  EXPECT_OK(open_file(other, "f", wire::kOpenRead));
  EXPECT_FALSE(inode(handle).truncating) << "the truncation has not ended";
}

TEST_F(MetaSizes, TheDatafilesAreAskedOnceForAllWaiters) {
  const Handle handle = create(client, "f", kRW)->object.attributes.handle;
  ASSERT_TRUE(write(client, handle, 100));
  io.hold();
  wire::CloseRequest close = close_request(handle, Rights::kReadWrite);
  close.mtime = WallTime{77};
  ASSERT_OK(asked<wire::CloseReply>(client, close));
  std::vector<std::unique_ptr<Pending<wire::OpenReply>>> openings;
  for (std::uint16_t slot = 1; slot <= 20; ++slot) {
    openings.push_back(begin<wire::OpenReply>(other, open_request("f", wire::kOpenWrite), id(1, slot)));
  }
  EXPECT_EQ(io.calls("stat"), 1U);
  io.release();
  run_ready();
  for (const auto& opening : openings) EXPECT_OK(opening->result);
  EXPECT_EQ(inode(handle).write_opens, 20U);
  EXPECT_EQ(inode(handle).attributes.mtime, WallTime{77});
}

TEST_F(MetaSizes, TheLastCloseOfTheOnlyClientReportsTheSize) {
  const Handle handle = create(client, "f", kRW)->object.attributes.handle;
  ASSERT_OK(open_file(client, "f", wire::kOpenWrite));
  ASSERT_OK(close_file(client, handle, Rights::kReadWrite));
  const auto closed = asked<wire::CloseReply>(client, close_of_writers(handle, 2));
  ASSERT_OK(closed);
  EXPECT_TRUE(knows_size(closed->attributes));
  EXPECT_EQ(closed->attributes.size, 1000U);
  EXPECT_EQ(io.calls("stat"), 0U);
}

/// The record of a file that nobody writes has no field more than others.
TEST_F(MetaSizes, WritersAreForgottenWithTheLastClose) {
  const Handle handle = create(client, "f", kRW)->object.attributes.handle;
  ASSERT_OK(open_file(client, "f", wire::kOpenWrite));
  EXPECT_EQ(stored_version(handle), 5U);
  ASSERT_OK(close_file(client, handle, Rights::kReadWrite));
  ASSERT_OK(asked<wire::CloseReply>(client, close_of_writers(handle, 2)));
  EXPECT_EQ(inode(handle).writers, 0U);
  EXPECT_EQ(stored_version(handle), 1U);
}

TEST_F(MetaSizes, AReportOfTooFewWritersIsIgnored) {
  const Handle handle = create(client, "f", kRW)->object.attributes.handle;
  ASSERT_OK(open_file(other, "f", wire::kOpenWrite));
  ASSERT_OK(close_file(other, handle, Rights::kWrite));
  ASSERT_OK(open_file(client, "f", wire::kOpenWrite));
  ASSERT_OK(close_file(client, handle, Rights::kReadWrite));
  const auto closed = asked<wire::CloseReply>(client, close_of_writers(handle, 2));
  ASSERT_OK(closed);
  EXPECT_FALSE(knows_size(closed->attributes));
  EXPECT_EQ(io.calls("stat"), 1U);
}

TEST_F(MetaSizes, AReportFromBeforeATruncationIsIgnored) {
  const Handle handle = create(client, "f", kRW)->object.attributes.handle;
  ASSERT_OK(open_file(client, "f", wire::kOpenWrite));
  ASSERT_OK(truncate(other, "f", 10));
  ASSERT_OK(open_file(client, "f", wire::kOpenWrite));
  ASSERT_OK(close_file(client, handle, Rights::kReadWrite));
  ASSERT_OK(close_file(client, handle, Rights::kWrite));
  EXPECT_FALSE(knows_size(asked<wire::CloseReply>(client, close_of_writers(handle, 3))->attributes));
}

/// If an earlier process of the client has sent a close of writers, the next one sends it again as a plain close.
TEST_F(MetaSizes, APlainCloseIsAnsweredAsTheCloseOfWritersWithItsId) {
  const Handle handle = create(client, "f", kRW)->object.attributes.handle;
  ASSERT_OK(open_file(client, "f", wire::kOpenWrite));
  ASSERT_OK(asked<wire::CloseReply>(client, close_of_writers(handle, 2), id(10)));
  ASSERT_OK(asked<wire::CloseReply>(client, close_request(handle, Rights::kWrite), id(10)));
  EXPECT_EQ(inode(handle).write_opens, 1U);
}

TEST_F(MetaSizes, ACloseOfNoWritersIsRefused) {
  const Handle handle = create(client, "f", kRW)->object.attributes.handle;
  EXPECT_ERRC(asked<wire::CloseReply>(client, close_of_writers(handle, 0)), Errc::kInvalidArgument);
  EXPECT_EQ(inode(handle).write_opens, 1U);
}

TEST_F(MetaSizes, ManyFilesAtOnceAreAllSettled) {
  std::vector<Handle> files;
  for (int i = 0; i < 300; ++i) {
    files.push_back(create(client, "f" + std::to_string(i), kRW)->object.attributes.handle);
    ASSERT_TRUE(write(client, files.back(), 1000 + static_cast<std::uint64_t>(i))) << "file " << i;
  }
  io.fail = [](std::string_view) { return Errc::kUnreachable; };
  for (const Handle file : files) ASSERT_OK(close_file(client, file, Rights::kReadWrite));
  EXPECT_EQ(role->intent_recovery().working(), 300U);
  crash();
  io.fail = {};
  open();
  wait(seconds(1));
  EXPECT_EQ(role->intent_recovery().working(), 0U);
  Audit(*this).check_at_rest();
}

TEST_F(MetaSizes, AFileOfADeadWriterIsRemovedWithoutAskingForItsSize) {
  const Handle handle = create(client, "f", kRW)->object.attributes.handle;
  ASSERT_TRUE(write(client, handle, 100));
  ASSERT_OK(unlink(other, "f"));
  wait_alive(other, options.session_lease * 3 / 2);
  EXPECT_TRUE(is_removed(io.files[handle]));
  EXPECT_EQ(io.calls("stat"), 0U);
  Audit(*this).check_at_rest();
}

}  // namespace
}  // namespace spate::meta
