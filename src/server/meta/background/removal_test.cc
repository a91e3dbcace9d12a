// SPDX-License-Identifier: Apache-2.0
// Removal of datafiles: it follows the last name and the last open, in the background, whatever crashes in between.
#include <gmock/gmock.h>

#include "base/expect.h"
#include "server/meta/testing/crash_test.h"
#include "wire/cluster_messages.h"

namespace spate::meta {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

wire::UnlinkRequest unlink_request(std::string path) {
  wire::UnlinkRequest request;
  request.where = at(std::move(path));
  return request;
}

/// "f" is to be removed. "kept" must keep its data, whatever happens.
struct RemovalScene {
  TestClient client;
  TestClient holder;
  Handle file;
  Handle kept;

  void prepare(CrashWorld& world) {
    client = world.connect();
    holder = world.connect();
    file = world.make_file(client, "f", 100);
    kept = world.make_file(client, "kept", 200);
    ASSERT_OK(world.sync(client));
  }
  void hold_open(CrashWorld& world, std::uint8_t flags) {
    prepare(world);
    ASSERT_OK(world.open_file(holder, "f", flags));
    ASSERT_OK(world.sync(client));
  }
  void check(CrashWorld& world) {
    world.wait(seconds(1));
    EXPECT_TRUE(is_removed(world.io.files[file]));
    EXPECT_EQ(world.data_of(kept).size, 200U);
    EXPECT_EQ(world.inode(kept).attributes.size, 200U);
    Audit(world).check_at_rest();
  }
};

TEST(MetaRemovalCrash, ARemovalOfAClosedFileIsFinished) {
  for (const bool machine : {false, true}) {
    RemovalScene scene;
    const std::size_t steps = die_at_each_step(
        machine, [&](CrashWorld& world) { scene.prepare(world); },
        [&](CrashWorld& world) {
          std::ignore = world.asked<wire::ObjectReply>(scene.client, unlink_request("f"), RoleTest::id(50, 1));
          world.run_ready();
        },
        [&](CrashWorld& world) {
          world.wait(seconds(1));
          ASSERT_OK(world.join(scene.client));
          EXPECT_OK(world.asked<wire::ObjectReply>(scene.client, unlink_request("f"), RoleTest::id(50, 1)));
          scene.check(world);
        });
    EXPECT_GE(steps, 7U);  // unlink, sync, removal and the erasing of the record, each before and after its effect
  }
}

TEST(MetaRemovalCrash, ARemovalIsFinishedWithoutAResendOfTheUnlink) {
  for (const bool machine : {false, true}) {
    RemovalScene scene;
    die_at_each_step(
        machine, [&](CrashWorld& world) { scene.prepare(world); },
        [&](CrashWorld& world) {
          std::ignore = world.asked<wire::ObjectReply>(scene.client, unlink_request("f"), RoleTest::id(50, 1));
          world.run_ready();
        },
        [&](CrashWorld& world) {
          world.wait(seconds(1));
          EXPECT_EQ(world.stat(scene.client, "f").has_value(), !world.io.files[scene.file].removed);
          Audit(world).check_at_rest();
        });
  }
}

TEST(MetaRemovalCrash, ARemovalAtTheLastCloseIsFinished) {
  for (const bool machine : {false, true}) {
    RemovalScene scene;
    const auto close = RoleTest::close_request(Handle(), Rights::kReadWrite);
    die_at_each_step(
        machine,
        [&](CrashWorld& world) {
          scene.hold_open(world, kRW);
          ASSERT_OK(world.unlink(scene.client, "f"));
          ASSERT_OK(world.sync(scene.client));
          ASSERT_FALSE(is_removed(world.io.files[scene.file])) << "the file is gone while it is open";
        },
        [&](CrashWorld& world) {
          auto request = close;
          request.handle = scene.file;
          std::ignore = world.asked<wire::CloseReply>(scene.holder, request, RoleTest::id(50, 1));
          world.run_ready();
        },
        [&](CrashWorld& world) {
          ASSERT_OK(world.join(scene.holder));
          auto request = close;
          request.handle = scene.file;
          const auto closed = world.asked<wire::CloseReply>(scene.holder, request, RoleTest::id(50, 1));
          EXPECT_OK(closed);
          scene.check(world);
        });
  }
}

// At whatever step the server dies: nothing that the session held is passed on before every io server has fenced the
// session.
TEST(MetaRemovalCrash, ARemovalAtTheEndOfTheLastSessionIsFinished) {
  for (const bool machine : {false, true}) {
    for (const bool silent : {false, true}) {
      RemovalScene scene;
      const auto fenced_first = [&scene](CrashWorld& world) {
        const auto record = world.record<InodeRecord>(inode_key(scene.file));
        const bool passed_on = !record || record->write_opens == 0;
        if (passed_on) EXPECT_EQ(world.io.fences[scene.holder.id], 2);
      };
      die_at_each_step(
          machine,
          [&](CrashWorld& world) {
            scene.hold_open(world, wire::kOpenWrite);
            ASSERT_OK(world.unlink(scene.client, "f"));
            ASSERT_TRUE(world.write(scene.holder, scene.file, 300)) << "the holder cannot write";
            ASSERT_OK(world.sync(scene.client));
          },
          [&](CrashWorld& world) {
            if (!silent) {
              std::ignore = world.asked<wire::Empty>(scene.holder, wire::EndSessionRequest(), RoleTest::no_id());
              world.run_ready();
            } else {
              world.wait(world.options.session_lease * 5 / 4);
            }
          },
          [&](CrashWorld& world) {
            fenced_first(world);
            world.wait(world.options.session_lease * 3 / 2);  // the expiries that the crash undid happen once more
            fenced_first(world);
            EXPECT_GE(world.io.fences[scene.holder.id], 2U);
            EXPECT_FALSE(world.write(scene.holder, scene.file, 400)) << "a fenced client writes";
            scene.check(world);
          });
    }
  }
}

TEST(MetaRemovalCrash, TheRemovalOfAReplacedFileIsFinished) {
  for (const bool machine : {false, true}) {
    RemovalScene scene;
    die_at_each_step(
        machine,
        [&](CrashWorld& world) {
          scene.prepare(world);
          world.make_file(scene.client, "new", 300);
          ASSERT_OK(world.sync(scene.client));
        },
        [&](CrashWorld& world) {
          std::ignore = world.asked<wire::Empty>(scene.client, rename_request("new", "f"), RoleTest::id(50, 1));
          world.run_ready();
        },
        [&](CrashWorld& world) {
          ASSERT_OK(world.join(scene.client));
          EXPECT_OK(world.asked<wire::Empty>(scene.client, rename_request("new", "f"), RoleTest::id(50, 1)));
          scene.check(world);
          EXPECT_EQ(world.stat(scene.client, "f")->size, 300U);
          EXPECT_ERRC(world.stat(scene.client, "new"), Errc::kNotFound);
        });
  }
}

class MetaRemoval : public RoleTest {
 protected:
  wire::MetaStatfsReply statfs() {
    return asked<wire::MetaStatfsReply>(client, wire::MetaStatfsRequest(), no_id()).value();
  }
  Handle make_on(std::string path, std::uint32_t server) {
    wire::CreateRequest request;
    request.where = at(std::move(path));
    request.attributes.mode = 0644;
    request.layout.targets = {target_id(ServerId(server), 0)};
    request.open_flags = wire::kOpenWrite;
    const auto made = asked<wire::OpenReply>(client, request);
    EXPECT_OK(made);
    const Handle handle = made->object.attributes.handle;
    EXPECT_OK(close_file(client, handle, Rights::kWrite, wire::DataSummary{}));
    return handle;
  }
  TestClient client = connect();
  TestClient other = connect();
};

TEST_F(MetaRemoval, TombstonesOutliveEveryCapability) {
  const auto made = create(client, "f", kRW);
  const Handle handle = made->object.attributes.handle;
  wait_alive(client, minutes(5));
  wire::OpenRequest renewal = open_request("", kRW);
  renewal.where.start = handle;
  renewal.renew = true;
  const auto renewed = asked<wire::OpenReply>(client, renewal);
  ASSERT_OK(renewed);
  ASSERT_OK(close_file(client, handle, Rights::kReadWrite));
  ASSERT_OK(unlink(client, "f"));
  run_ready();
  ASSERT_TRUE(is_removed(io.files[handle]));
  EXPECT_GT(io.files[handle].tombstone_until, renewed->capability.expiry);
  EXPECT_LT(io.files[handle].tombstone_until.ns - clock.wall().ns, Duration(hours(24)).count());
}

TEST_F(MetaRemoval, AnOpenFileThatARenameReplacesLivesUntilItsLastClose) {
  const Handle handle = create(client, "f", kRW)->object.attributes.handle;
  ASSERT_TRUE(write(client, handle, 100));
  make_file(other, "new", 5);
  ASSERT_OK(asked<wire::Empty>(other, rename_request("new", "f")));
  run_ready();
  EXPECT_FALSE(is_removed(io.files[handle]));
  EXPECT_EQ(inode(handle).attributes.link_count, 0U);
  ASSERT_OK(close_file(client, handle, Rights::kReadWrite));
  run_ready();
  EXPECT_TRUE(is_removed(io.files[handle]));
  Audit(*this).check_at_rest();
}

TEST_F(MetaRemoval, AFileWithAnotherNameIsNotRemoved) {
  const Handle handle = make_file(client, "f", 100);
  wire::LinkRequest link;
  link.existing = at("f");
  link.where = at("g");
  ASSERT_OK(asked<wire::ObjectReply>(client, link));
  ASSERT_OK(unlink(client, "f"));
  run_ready();
  EXPECT_EQ(io.calls("remove"), 0U);
  ASSERT_OK(unlink(client, "g"));
  run_ready();
  EXPECT_TRUE(is_removed(io.files[handle]));
}

TEST_F(MetaRemoval, OnlyFilesHaveDatafilesToRemove) {
  wire::SymlinkRequest symlink;
  symlink.where = at("s");
  symlink.target = "x";
  ASSERT_OK(asked<wire::ObjectReply>(client, symlink));
  wire::CreateRequest fifo;
  fifo.where = at("p");
  fifo.type = FileType::kFifo;
  ASSERT_OK(asked<wire::OpenReply>(client, fifo));
  ASSERT_OK(unlink(client, "s"));
  ASSERT_OK(unlink(client, "p"));
  wait(seconds(1));
  EXPECT_THAT(io.log, testing::IsEmpty());
}

TEST_F(MetaRemoval, ATargetOutOfReachDelaysOnlyFilesThatLieOnIt) {
  io.down = {target_id(ServerId(2), 0)};
  const Handle stuck = make_on("stuck", 2);
  const Handle free = make_on("free", 3);
  ASSERT_OK(unlink(client, "stuck"));
  ASSERT_OK(unlink(client, "free"));
  run_ready();
  EXPECT_TRUE(is_removed(io.files[free]));
  EXPECT_FALSE(is_removed(io.files[stuck]));
  const std::size_t before = io.calls("remove");
  wait_alive(client, minutes(2));
  EXPECT_FALSE(is_removed(io.files[stuck]));
  EXPECT_LT(io.calls("remove") - before, 20U);  // it is tried less and less often
  const Handle later = make_on("later", 4);
  ASSERT_OK(unlink(client, "later"));
  run_ready();
  EXPECT_TRUE(is_removed(io.files[later]));
  EXPECT_EQ(statfs().removals, 1U);
  io.down.clear();
  wait_alive(client, minutes(1));
  EXPECT_TRUE(is_removed(io.files[stuck]));
  EXPECT_EQ(statfs().removals, 0U);
  Audit(*this).check_at_rest();
}

TEST_F(MetaRemoval, AFileThatCannotBeRemovedDelaysNoOther) {
  io.fail = [](std::string_view) { return Errc::kUnreachable; };
  std::vector<Handle> files;
  for (int i = 0; i < 200; ++i) {
    files.push_back(make_on("f" + std::to_string(i), 2));
    ASSERT_OK(unlink(client, "f" + std::to_string(i)));
  }
  restart();  // so that the files are found in the store, page by page
  ASSERT_OK(join(client));
  io.fail = {};
  const Handle stuck = *std::min_element(files.begin(), files.end());  // on the first page
  io.refused = {stuck};
  wait_alive(client, minutes(1));
  EXPECT_EQ(statfs().removals, 1U);
  EXPECT_FALSE(is_removed(io.files[stuck]));
  const std::size_t before = io.calls("remove");
  wait_alive(client, minutes(2));
  EXPECT_LT(io.calls("remove") - before, 20U);  // it is tried less and less often
  const Handle later = make_on("later", 2);
  ASSERT_OK(unlink(client, "later"));
  run_ready();
  EXPECT_TRUE(is_removed(io.files[later]));
  io.refused.clear();
  wait_alive(client, minutes(1));
  EXPECT_EQ(statfs().removals, 0U);
  Audit(*this).check_at_rest();
}

TEST_F(MetaRemoval, RemovalsThatDoNotFitIntoMemoryAreFoundInTheStore) {
  constexpr int kMany = 5000;  // more than fit into memory
  for (int i = 0; i < kMany; ++i) make_on("f" + std::to_string(i), 1 + static_cast<std::uint32_t>(i) % 4);
  io.hold();
  for (int i = 0; i < kMany; ++i) ASSERT_OK(unlink(client, "f" + std::to_string(i)));
  EXPECT_EQ(statfs().removals, static_cast<std::uint64_t>(kMany));
  io.release();
  wait(seconds(1));
  EXPECT_EQ(statfs().removals, 0U);
  EXPECT_EQ(records(KeyKind::kRemoval), 0U);
  EXPECT_LE(io.largest_removal, 64U);
  Audit(*this).check_at_rest();
}

TEST_F(MetaRemoval, FilesUnlinkedOneAfterTheOtherAreRemovedTogether) {
  options.gather_removals = std::chrono::milliseconds(5);
  restart();
  ASSERT_OK(join(client));
  const Handle first = make_file(client, "f", 10);
  const Handle second = make_file(client, "g", 10);
  ASSERT_OK(unlink(client, "f"));
  run_ready();
  EXPECT_FALSE(is_removed(io.files[first]));
  ASSERT_OK(unlink(client, "g"));
  wait(std::chrono::milliseconds(5));
  EXPECT_TRUE(is_removed(io.files[first]));
  EXPECT_TRUE(is_removed(io.files[second]));
  EXPECT_EQ(io.largest_removal, 2U);
}

TEST_F(MetaRemoval, RemovalsOfAnEarlierProcessAreFoundPageByPage) {
  io.fail = [](std::string_view) { return Errc::kUnreachable; };
  for (int i = 0; i < 300; ++i) {
    make_on("f" + std::to_string(i), 1 + static_cast<std::uint32_t>(i) % 4);
    ASSERT_OK(unlink(client, "f" + std::to_string(i)));
  }
  restart();
  ASSERT_OK(join(client));
  EXPECT_EQ(statfs().removals, 300U);
  io.fail = {};
  wait_alive(client, minutes(1));
  EXPECT_EQ(statfs().removals, 0U);
  Audit(*this).check_at_rest();
}

TEST_F(MetaRemoval, AStoreThatFailsOnlyDelaysRemovals) {
  const Handle handle = make_file(client, "f", 10);
  int failures = 0;
  store.on_commit = [&failures] { return failures-- > 0 ? Errc::kIoError : Errc::kOk; };
  io.lose_reply = [&failures](std::string_view) {
    failures = 1;
    return Errc::kOk;
  };
  ASSERT_OK(unlink(client, "f"));
  run_ready();
  EXPECT_TRUE(is_removed(io.files[handle]));
  EXPECT_EQ(records(KeyKind::kRemoval), 1U);
  io.lose_reply = {};
  wait_alive(client, minutes(2));
  EXPECT_EQ(records(KeyKind::kRemoval), 0U);
  EXPECT_EQ(statfs().removals, 0U);
}

TEST_F(MetaRemoval, ARemovalThatCannotBeReadDoesNotStopOthers) {
  io.fail = [](std::string_view) { return Errc::kUnreachable; };
  const Handle handle = make_file(client, "f", 10);
  ASSERT_OK(unlink(client, "f"));
  job::Transaction transaction = context.begin();
  transaction.put(removal_key(Handle(1)), as_bytes("?"));  // its key sorts before the other's
  crash();
  struct Commit {
    static job::Task<Errc> run(job::Transaction& t) {
      const auto done = co_await t.commit(trove::Durability::kMachine);
      co_return done.status;
    }
  };
  ASSERT_EQ(run(Commit::run(transaction)), Errc::kOk);
  io.fail = {};
  open();
  wait(seconds(1));
  EXPECT_TRUE(is_removed(io.files[handle]));
  EXPECT_EQ(records(KeyKind::kRemoval), 1U);
}

}  // namespace
}  // namespace spate::meta
