// SPDX-License-Identifier: Apache-2.0
// Truncation: an intent in the store is carried out at the io servers, once for each generation, whatever crashes in
// between.
#include <optional>

#include "base/expect.h"
#include "server/meta/testing/crash_test.h"

namespace spate::meta {
namespace {

using std::chrono::seconds;

class MetaTruncate : public RoleTest {
 protected:
  TestClient client = connect();
  TestClient other = connect();
};

/// `client` truncates a file of 100 bytes to 10; `other` only reads its attributes.
struct Cut {
  explicit Cut(bool is_open = false) : open(is_open) {}
  TestClient client;
  TestClient other;
  Handle file;
  bool open;
  bool answered = false;

  void prepare(CrashWorld& world) {
    client = world.connect();
    other = world.connect();
    file = world.make_file(client, "f", 100);
    if (open) ASSERT_OK(world.open_file(client, "f", kRW));
    ASSERT_OK(world.sync(client));
  }
  void act(CrashWorld& world) {
    auto cut = world.asked<wire::ObjectReply>(client, CrashWorld::truncate_request("f", 10), RoleTest::id(50, 1));
    answered = cut.has_value();
  }
  void again(CrashWorld& world) {
    ASSERT_OK(world.join(client));
    ASSERT_OK(world.join(other));
    auto cut = world.asked<wire::ObjectReply>(client, CrashWorld::truncate_request("f", 10), RoleTest::id(50, 1));
    EXPECT_OK(cut);
  }
};

TEST(MetaTruncateCrash, AResentTruncationIsDoneOnce) {
  for (const bool machine : {false, true}) {
    for (const bool open : {false, true}) {
      Cut cut(open);
      const std::size_t steps = die_at_each_step(
          machine, [&](CrashWorld& world) { cut.prepare(world); }, [&](CrashWorld& world) { cut.act(world); },
          [&](CrashWorld& world) {
            cut.again(world);
            world.run_ready();
            EXPECT_EQ(world.io.cuts, 1U);
            EXPECT_EQ(world.io.files[cut.file].generation, world.inode(cut.file).truncate_generation);
            EXPECT_EQ(world.data_of(cut.file).size, 10U);
            EXPECT_EQ(world.stat(cut.other, "f")->size_known, !open);
            if (!open) EXPECT_EQ(world.stat(cut.other, "f")->size, 10U);
            Audit(world).check_at_rest();
          });
      EXPECT_GE(steps, 7U);  // intent, sync, cut and the erasing of the intent, each before and after its effect
    }
  }
}

TEST(MetaTruncateCrash, ATruncationIsFinishedEvenIfNobodyResendsIt) {
  for (const bool machine : {false, true}) {
    Cut cut;
    die_at_each_step(
        machine, [&](CrashWorld& world) { cut.prepare(world); }, [&](CrashWorld& world) { cut.act(world); },
        [&](CrashWorld& world) {
          world.wait(seconds(1));
          const std::uint64_t size = world.inode(cut.file).attributes.size;
          EXPECT_EQ(size, world.io.cuts == 0 ? 100U : 10U);
          if (cut.answered) EXPECT_EQ(size, 10U);
          Audit(world).check_at_rest();
        });
  }
}

// A crash of the machine brings back the intent with the size from before. Until it is carried out again, only the
// datafiles know the file's size.
TEST(MetaTruncateCrash, AfterACrashAGrownFileNeverShowsItsOldSize) {
  CrashWorld world;
  TestClient client = world.connect();
  TestClient other = world.connect();
  const Handle file = world.make_file(client, "f", 100);
  world.make_file(client, "g", 7);
  ASSERT_OK(world.sync(client));
  ASSERT_OK(world.truncate(client, "f", 500));
  world.arm(0);
  world.io.hold();
  world.start_again(true);
  ASSERT_OK(world.join(other));
  const auto seen = world.stat(other, "f");
  ASSERT_OK(seen);
  EXPECT_FALSE(knows_size(*seen)) << "the size is said to be " << seen->size;
  EXPECT_TRUE(knows_size(*world.stat(other, "g")));
  EXPECT_EQ(world.data_of(file).size, 500U);
  world.io.release();
  world.wait(seconds(1));
  EXPECT_TRUE(knows_size(*world.stat(other, "f")));
  EXPECT_EQ(world.stat(other, "f")->size, 500U);
}

// A crash of the machine may bring back an intent that had been carried out. It must not cut data that was written
// later.
TEST(MetaTruncateCrash, DataWrittenAfterTheAnswerStays) {
  for (const bool machine : {false, true}) {
    Cut cut(true);
    int written = 0;
    die_at_each_step(
        machine, [&](CrashWorld& world) { cut.prepare(world); },
        [&](CrashWorld& world) {
          cut.act(world);
          if (!cut.answered) return;
          EXPECT_TRUE(world.write(cut.client, cut.file, 50)) << "the truncated file cannot be written";
          ++written;
          std::ignore = world.sync(cut.client);  // more steps at which it may die
        },
        [&](CrashWorld& world) {
          ASSERT_OK(world.join(cut.client));
          world.wait(seconds(1));
          if (cut.answered) EXPECT_EQ(world.data_of(cut.file).size, 50U);
          EXPECT_OK(world.close_file(cut.client, cut.file, Rights::kReadWrite));
          world.wait(seconds(1));
          Audit(world).check_at_rest();
        });
    EXPECT_GT(written, 1);
  }
}

TEST(MetaTruncateCrash, AnOpenThatTruncates) {
  for (const bool machine : {false, true}) {
    Cut cut;
    const auto request = RoleTest::open_request("f", kRW | wire::kOpenTruncate);
    die_at_each_step(
        machine, [&](CrashWorld& world) { cut.prepare(world); },
        [&](CrashWorld& world) {
          std::ignore = world.asked<wire::OpenReply>(cut.client, request, RoleTest::id(50, 1));
        },
        [&](CrashWorld& world) {
          ASSERT_OK(world.join(cut.client));
          const auto opened = world.asked<wire::OpenReply>(cut.client, request, RoleTest::id(50, 1));
          ASSERT_OK(opened);
          EXPECT_TRUE(opened->truncated) << "the reply does not say that the open has truncated the file";
          EXPECT_EQ(world.io.cuts, 1U);
          EXPECT_EQ(world.data_of(cut.file).size, 0U);
          EXPECT_EQ(world.inode(cut.file).write_opens, 1U);
          EXPECT_TRUE(world.write(cut.client, cut.file, 30)) << "the truncated file cannot be written";
          EXPECT_OK(world.close_file(cut.client, cut.file, Rights::kReadWrite, world.data_of(cut.file)));
          world.run_ready();
          Audit(world).check_at_rest();
        });
  }
}

TEST(MetaTruncateCrash, TwoTruncationsInARowAreBothFinished) {
  for (const bool machine : {false, true}) {
    Cut cut;
    const auto second = CrashWorld::truncate_request("f", 70);
    die_at_each_step(
        machine, [&](CrashWorld& world) { cut.prepare(world); },
        [&](CrashWorld& world) {
          cut.act(world);
          std::ignore = world.asked<wire::ObjectReply>(cut.other, second, RoleTest::id(60, 1));
        },
        [&](CrashWorld& world) {
          cut.again(world);
          ASSERT_OK(world.asked<wire::ObjectReply>(cut.other, second, RoleTest::id(60, 1)));
          world.run_ready();
          // A crash of the machine may have undone the first truncation together with its answer, so that its resend
          // comes after the second.
          const std::uint64_t size = world.data_of(cut.file).size;
          if (!machine) EXPECT_EQ(size, 70U);
          EXPECT_EQ(world.io.files[cut.file].generation, world.inode(cut.file).truncate_generation);
          EXPECT_LE(world.io.cuts, 2U);
          Audit(world).check_at_rest();
        });
  }
}

TEST_F(MetaTruncate, EachTruncationHasItsOwnGeneration) {
  const Handle handle = make_file(client, "f", 100);
  std::uint64_t last = 0;
  for (std::uint64_t i = 1; i <= 5; ++i) {
    ASSERT_OK(truncate(i % 2 == 0 ? client : other, "f", 10 * i));
    EXPECT_GT(inode(handle).truncate_generation, last);
    last = inode(handle).truncate_generation;
    EXPECT_EQ(io.files[handle].generation, last);
    EXPECT_EQ(stat(client, "f")->size, 10 * i);
    EXPECT_EQ(stat(client, "f")->change_sum, data_of(handle).change_sum);
  }
  EXPECT_EQ(io.cuts, 5U);
}

/// The clock goes on, also if the store was put back from a backup, whose inode has counted fewer truncations.
TEST_F(MetaTruncate, ItsGenerationIsNewerThanThoseOfAStoreThatABackupHasReplaced) {
  const Handle handle = make_file(client, "f", 100);
  const auto before = static_cast<std::uint64_t>(clock.wall().ns);
  ASSERT_OK(truncate(client, "f", 10));
  EXPECT_GE(inode(handle).truncate_generation, before);
}

TEST_F(MetaTruncate, TruncatingAnUnwrittenFileToZeroAsksNoIoServerAndSetsMtime) {
  const Handle handle = make_file(client, "f", 0);
  wait(seconds(1));
  const auto cut = truncate(client, "f", 0);
  ASSERT_OK(cut);
  EXPECT_EQ(cut->attributes.mtime, clock.wall());
  EXPECT_EQ(io.calls("truncate"), 0U);
  EXPECT_EQ(inode(handle).truncate_generation, 0U);
}

// No datafile changes, so none has a later time.
TEST_F(MetaTruncate, OfAnUnwrittenFileThatIsOpenForWritingSetsMtime) {
  const Handle handle = create(client, "f", kRW, 0)->object.attributes.handle;
  wire::SetattrRequest request;
  request.where = at("f");
  request.mtime = WallTime{1000};
  ASSERT_OK(asked<wire::ObjectReply>(client, request));
  ASSERT_EQ(inode(handle).attributes.mtime, WallTime{1000});
  wait(seconds(1));
  wire::TruncateRequest truncation = truncate_request("f", 0);
  truncation.by_open_file = true;
  ASSERT_OK(asked<wire::ObjectReply>(client, truncation));
  EXPECT_EQ(inode(handle).attributes.mtime, clock.wall());
}

// A crash of an io machine may have undone the change that gave the file its present size.
TEST_F(MetaTruncate, ToThePresentSizeStillReachesTheDatafiles) {
  const Handle handle = make_file(client, "f", 100);
  ASSERT_OK(truncate(client, "f", 0));
  io.files[handle].data.size = 100;  // the cut was not synced, and the io server's machine crashed
  ASSERT_OK(truncate(client, "f", 0));
  EXPECT_EQ(data_of(handle).size, 0U);
}

TEST_F(MetaTruncate, TheAnswerComesAfterTheDatafilesAreTruncated) {
  const Handle handle = make_file(client, "f", 100);
  io.hold();
  const auto cutting = begin<wire::ObjectReply>(client, truncate_request("f", 10), id(50, 1));
  EXPECT_EQ(cutting->result, std::nullopt);
  const auto reading = begin<wire::OpenReply>(other, open_request("f", wire::kOpenRead), id(++other.next));
  const auto growing = begin<wire::ObjectReply>(other, truncate_request("f", 500), id(1, 2));
  EXPECT_EQ(reading->result, std::nullopt);
  EXPECT_EQ(growing->result, std::nullopt);
  io.release();
  run_ready();
  ASSERT_OK(cutting->result);
  ASSERT_OK(reading->result);
  ASSERT_OK(growing->result);
  EXPECT_EQ(data_of(handle).size, 500U);
  EXPECT_EQ(io.cuts, 2U);
}

TEST_F(MetaTruncate, TheErrorNamesTheObstacle) {
  const Handle handle = make_file(client, "f", 100);
  io.fail = [](std::string_view) { return Errc::kUnreachable; };
  const auto cut = truncate(client, "f", 10);
  EXPECT_ERRC(cut, Errc::kTimeout);
  EXPECT_NE(cut.error().message().find("tcp://io3:7400"), std::string::npos) << cut.error().message();
  const auto opened = open_file(other, "f", wire::kOpenRead);
  EXPECT_ERRC(opened, Errc::kTimeout);
  EXPECT_NE(opened.error().message().find("tcp://io3:7400"), std::string::npos) << opened.error().message();
  io.fail = {};
  wait(seconds(10));
  EXPECT_EQ(data_of(handle).size, 10U);
  EXPECT_OK(open_file(other, "f", wire::kOpenRead));
  Audit(*this).check_at_rest();
}

TEST_F(MetaTruncate, TheErrorNamesTheServerWithoutAnAnswer) {
  make_file(client, "f", 100);
  io.hold();
  io.silent = "server 3 (tcp://io3:7400)";
  const auto cut = truncate(client, "f", 10);
  EXPECT_ERRC(cut, Errc::kTimeout);
  EXPECT_NE(cut.error().message().find("waits for server 3 (tcp://io3:7400)"), std::string::npos)
      << cut.error().message();
  io.release();
}

TEST_F(MetaTruncate, ATruncationOfARemovedFileIsForgotten) {
  const Handle handle = create(client, "f", kRW)->object.attributes.handle;
  ASSERT_TRUE(write(client, handle, 100));
  io.hold();
  const auto cutting = begin<wire::ObjectReply>(other, truncate_request("f", 10), id(50, 1));
  ASSERT_OK(unlink(client, "f"));
  ASSERT_OK(close_file(client, handle, Rights::kReadWrite));
  io.release();
  run_ready();
  EXPECT_OK(cutting->result);
  EXPECT_TRUE(is_removed(io.files[handle]));
  EXPECT_EQ(records(KeyKind::kTruncate), 0U);
  Audit(*this).check_at_rest();
}

TEST_F(MetaTruncate, AWritersReportFromBeforeATruncationIsIgnored) {
  const Handle handle = create(client, "f", kRW)->object.attributes.handle;
  ASSERT_TRUE(write(client, handle, 100));
  const wire::DataSummary before = data_of(handle);
  ASSERT_OK(truncate(other, "f", 10));
  ASSERT_OK(close_file(client, handle, Rights::kReadWrite, before));
  run_ready();
  EXPECT_EQ(stat(other, "f")->size, 10U);
  Audit(*this).check_at_rest();
}

TEST_F(MetaTruncate, ThroughAnOpenFileNeedsOnlyTheOpen) {
  const Handle handle = create(client, "f", kRW, 0)->object.attributes.handle;
  wire::TruncateRequest request = truncate_request("", 40);
  request.where.start = handle;
  request.by_open_file = true;
  EXPECT_ERRC(asked<wire::ObjectReply>(other, request), Errc::kBadDescriptor);
  ASSERT_OK(asked<wire::ObjectReply>(client, request));
  EXPECT_EQ(data_of(handle).size, 40U);
  EXPECT_EQ(inode(handle).writers, 1U);
  ASSERT_OK(close_file(client, handle, Rights::kReadWrite));
  EXPECT_ERRC(asked<wire::ObjectReply>(client, request), Errc::kBadDescriptor);
  request.by_open_file = false;
  EXPECT_ERRC(asked<wire::ObjectReply>(client, request), Errc::kPermissionDenied);
}

TEST_F(MetaTruncate, BeyondTheLargestSizeIsRefused) {
  make_file(client, "f", 100);
  EXPECT_ERRC(truncate(client, "f", kMaxFileBytes + 1), Errc::kFileTooBig);
  EXPECT_OK(truncate(client, "f", kMaxFileBytes));
  EXPECT_EQ(stat(client, "f")->size, kMaxFileBytes);
}

// Neither the store nor the io servers answer in order.
TEST(MetaTruncateOverlap, ConcurrentTruncationsLeaveOneSizeEverywhere) {
  struct World final : RoleTest {
    explicit World(std::uint64_t seed) : RoleTest(seed, true) {}
    void TestBody() override {}
  };
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    World world(seed);
    TestClient maker = world.connect();
    const Handle handle = world.make_file(maker, "f", 100);
    std::vector<TestClient> clients;
    for (int i = 0; i < 6; ++i) clients.push_back(world.connect());
    std::vector<std::unique_ptr<RoleTest::Pending<wire::ObjectReply>>> cuts;
    std::vector<std::unique_ptr<RoleTest::Pending<wire::OpenReply>>> opens;
    for (std::size_t i = 0; i < clients.size(); ++i) {
      const auto request = RoleTest::truncate_request("f", 10 * (i + 1));
      cuts.push_back(world.begin<wire::ObjectReply>(clients[i], request, RoleTest::id(1, 2)));
      const auto open = RoleTest::open_request("f", kRW);
      opens.push_back(world.begin<wire::OpenReply>(clients[i], open, RoleTest::id(1, 1)));
    }
    world.wait(seconds(1));
    for (const auto& cut : cuts) ASSERT_OK(cut->result) << "seed " << seed;
    for (const auto& open : opens) ASSERT_OK(open->result) << "seed " << seed;
    for (TestClient& c : clients) {
      ASSERT_OK(world.close_file(c, handle, Rights::kReadWrite, world.data_of(handle)));
    }
    world.wait(seconds(1));
    EXPECT_EQ(world.inode(handle).truncate_generation, world.io.files[handle].generation);
    EXPECT_EQ(world.io.cuts, 6U);
    Audit(world).check_at_rest();
  }
}

}  // namespace
}  // namespace spate::meta
