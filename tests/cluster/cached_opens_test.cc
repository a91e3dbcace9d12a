// SPDX-License-Identifier: Apache-2.0
// A client keeps opens for reading after their last close. The next open needs no request; other clients see no change.
#include <map>
#include <string>
#include <utility>

#include "base/expect.h"
#include "tests/cluster/calls.h"

namespace spate::cluster {
namespace {

using bmi::sim::Death;
using client::path_from_root;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Credential kSomebody{1000, 1000, {}};
constexpr std::uint8_t kUncounted = wire::kOpenRead | wire::kOpenUncounted;

class CachedOpensTest : public ::testing::Test {
 protected:
  explicit CachedOpensTest(const WorldOptions& options = {}) : world_(options), a_(&start(kSomebody)), b_(&start({})) {
    world_.watch().on_arrival([this](const WatchedRequest& request) { ++asked_[request.op]; });
    handle_ = make("f");
  }

  ClientProcess& start(const Credential& who) {
    client::Options options = small_client_options({}, {}, {});
    options.keep_attributes = true;
    options.credential = who;
    return world_.start_client(std::move(options));
  }
  template <typename T>
  T run(ClientProcess& process, job::Task<T> task) {
    return call(world_, process, std::move(task));
  }
  /// Makes a file by client b that everybody may read.
  Handle make(const std::string& path) {
    client::NewObject object;
    object.attributes.mode = 0644;
    auto made = run(*b_, b_->client().create(path_from_root(path), wire::kOpenWrite, object));
    SPATE_CHECK(made.has_value());
    EXPECT_OK(run(*b_, (*made)->write(0, Bytes(3000))));
    const Handle handle = (*made)->handle();
    EXPECT_OK(run(*b_, (*made)->close()));
    return handle;
  }
  auto open(ClientProcess& process, std::uint8_t flags = wire::kOpenRead) {
    wire::NamePath where;
    where.start = handle_;
    return run(process, process.client().open(std::move(where), flags));
  }
  /// Opens and closes the file. Returns the code of the open.
  Errc visit(ClientProcess& process, std::uint8_t flags = wire::kOpenRead) {
    auto file = open(process, flags);
    if (!file) return file.code();
    (*file)->forget_reads();
    EXPECT_OK(run(process, (*file)->close()));
    return Errc::kOk;
  }
  /// The client keeps the open of a visit only while it has a lease on the file.
  void visit_under_lease(ClientProcess& process) {
    // The server grants no lease while a change is about to end.
    for (int i = 0; i < 100 && !process.client().cluster().attributes().has_lease(handle_); ++i) {
      ASSERT_OK(run(process, process.client().stat(path_from_root("f"))));
      world_.run_for(milliseconds(1));
    }
    ASSERT_EQ(visit(process), Errc::kOk);
    ASSERT_EQ(kept(process), 1U);
    asked_.clear();
  }
  static std::uint64_t kept(ClientProcess& process) { return process.client().cluster().cached_opens().size(); }
  Result<Attributes> chmod(ClientProcess& process, std::uint32_t mode) {
    wire::SetattrRequest request;
    request.where.start = handle_;
    request.mode = mode;
    return run(process, process.client().setattr(request));
  }
  std::size_t datafiles() {
    std::size_t count = 0;
    for (const ServerId id : world_.servers()) {
      for (const auto& target : world_.disks(id).targets) count += target->list({}, 100).size();
    }
    return count;
  }

  std::map<wire::Op, std::uint64_t> asked_;
  World world_;
  ClientProcess* a_;
  ClientProcess* b_;
  Handle handle_;
};

TEST_F(CachedOpensTest, AFileIsOpenedAgainWithoutTheServer) {
  visit_under_lease(*a_);
  for (int i = 0; i < 3; ++i) {
    auto file = open(*a_);
    ASSERT_OK(file);
    (*file)->forget_reads();
    Bytes room(4000);
    EXPECT_EQ(run(*a_, (*file)->read(0, room)).value_or(0), 3000U);
    EXPECT_OK(run(*a_, (*file)->close()));
  }
  EXPECT_EQ(asked_[wire::Op::kOpen], 0U);
  EXPECT_EQ(asked_[wire::Op::kClose], 0U);
  EXPECT_EQ(a_->client().cluster().cached_opens().taken(), 3U);
}

TEST_F(CachedOpensTest, ConcurrentOpensAreSeparate) {
  visit_under_lease(*a_);
  auto first = open(*a_);
  auto second = open(*a_);
  ASSERT_OK(first);
  ASSERT_OK(second);
  EXPECT_EQ(asked_[wire::Op::kOpen], 1U);
  EXPECT_OK(run(*a_, (*first)->close()));
  Bytes room(4000);
  EXPECT_EQ(run(*a_, (*second)->read(0, room)).value_or(0), 3000U);
  EXPECT_OK(run(*a_, (*second)->close()));
}

TEST_F(CachedOpensTest, AnOpenForExecutionChecksItsOwnPermission) {
  visit_under_lease(*a_);
  EXPECT_EQ(visit(*a_, wire::kOpenRead | wire::kOpenExecute), Errc::kPermissionDenied);
  EXPECT_EQ(visit(*a_, wire::kOpenWrite), Errc::kPermissionDenied);
}

TEST_F(CachedOpensTest, AReadThatMovesAtimeIsReported) {
  visit_under_lease(*a_);
  auto file = open(*a_);
  ASSERT_OK(file);
  Bytes room(10);
  ASSERT_OK(run(*a_, (*file)->read(0, room)));
  ASSERT_OK(run(*a_, (*file)->close()));
  EXPECT_EQ(asked_[wire::Op::kClose], 1U);
  EXPECT_EQ(kept(*a_), 0U);
}

TEST_F(CachedOpensTest, AFileThatAnotherRemovesIsGone) {
  visit_under_lease(*a_);
  ASSERT_OK(run(*b_, b_->client().unlink(path_from_root("f"))));
  world_.run_for(seconds(1));
  EXPECT_EQ(kept(*a_), 0U);
  EXPECT_ERRC(open(*a_), Errc::kStaleHandle);
  world_.run_for(seconds(30));
  EXPECT_EQ(datafiles(), 0U);
}

TEST_F(CachedOpensTest, AFileThatItsClientRemovesIsGone) {
  visit_under_lease(*b_);
  ASSERT_OK(run(*b_, b_->client().unlink(path_from_root("f"))));
  world_.run_for(seconds(30));
  EXPECT_EQ(datafiles(), 0U);
}

TEST_F(CachedOpensTest, AFileThatIsOpenOnceMoreLivesUntilThatClose) {
  visit_under_lease(*a_);
  auto file = open(*a_);
  ASSERT_OK(file);
  ASSERT_OK(run(*b_, b_->client().unlink(path_from_root("f"))));
  world_.run_for(seconds(30));
  Bytes room(4000);
  EXPECT_EQ(run(*a_, (*file)->read(0, room)).value_or(0), 3000U);
  ASSERT_OK(run(*a_, (*file)->close()));
  EXPECT_EQ(kept(*a_), 0U);
  world_.run_for(seconds(30));
  EXPECT_EQ(datafiles(), 0U);
}

TEST_F(CachedOpensTest, AnUnusedOpenIsClosed) {
  visit_under_lease(*a_);
  world_.run_for(seconds(100));
  EXPECT_EQ(kept(*a_), 0U);
  EXPECT_EQ(asked_[wire::Op::kClose], 1U);
}

TEST_F(CachedOpensTest, WritesOfAnotherClientAreReadByTheNextOpen) {
  visit_under_lease(*a_);
  auto writer = open(*b_, wire::kOpenWrite);
  ASSERT_OK(writer);
  ASSERT_OK(run(*b_, (*writer)->write(3000, Bytes(2000))));
  auto file = open(*a_);
  ASSERT_OK(file);
  EXPECT_FALSE((*file)->attributes().size_known);
  Bytes room(9000);
  EXPECT_EQ(run(*a_, (*file)->read(0, room)).value_or(0), 5000U);
  ASSERT_OK(run(*a_, (*file)->close()));
  ASSERT_OK(run(*b_, (*writer)->close()));
}

TEST_F(CachedOpensTest, ARestartOfTheMetaServerEndsCachedOpens) {
  visit_under_lease(*a_);
  world_.kill_server(kMetaServer, Death::kProcess);
  world_.start_server(kMetaServer);
  world_.run_for(seconds(10));
  EXPECT_EQ(kept(*a_), 0U);
  EXPECT_EQ(visit(*a_), Errc::kOk);
  ASSERT_OK(run(*b_, b_->client().unlink(path_from_root("f"))));
  world_.run_for(seconds(30));
  EXPECT_EQ(datafiles(), 0U);
}

/// The new server process need not know of the open any more, though the session continues and gets leases.
TEST_F(CachedOpensTest, AfterARestartOfTheMetaServerAnOpenAsksIt) {
  visit_under_lease(*a_);
  world_.kill_server(kMetaServer, Death::kProcess);
  world_.start_server(kMetaServer);
  a_->client().cluster().attributes().clear();
  for (int i = 0; i < 100 && !a_->client().cluster().attributes().has_lease(handle_); ++i) {
    ASSERT_OK(run(*a_, a_->client().stat(path_from_root("f"))));
    world_.run_for(milliseconds(1));
  }
  ASSERT_EQ(kept(*a_), 1U);
  EXPECT_EQ(visit(*a_), Errc::kOk);
  EXPECT_EQ(asked_[wire::Op::kOpen], 1U);
}

TEST_F(CachedOpensTest, OpensOfAnExpiredSessionAreNotUsed) {
  visit_under_lease(*a_);
  world_.fabric().links().partition(kMetaServer.value, a_->node(), true);
  world_.run_for(seconds(20));
  ASSERT_OK(run(*b_, b_->client().unlink(path_from_root("f"))));
  world_.fabric().links().partition(kMetaServer.value, a_->node(), false);
  EXPECT_ERRC(open(*a_), Errc::kStaleHandle);
  world_.run_for(seconds(30));
  EXPECT_EQ(datafiles(), 0U);
}

TEST_F(CachedOpensTest, AnOrderlyEndLeavesNothingOpen) {
  visit_under_lease(*a_);
  a_->quit();
  world_.run_for(seconds(1));
  EXPECT_EQ(asked_[wire::Op::kClose], 1U);
  ASSERT_OK(run(*b_, b_->client().unlink(path_from_root("f"))));
  world_.run_for(seconds(5));
  EXPECT_EQ(datafiles(), 0U);
}

TEST_F(CachedOpensTest, OpensOfAKilledClientEndWithItsSession) {
  visit_under_lease(*a_);
  world_.kill_client(*a_, Death::kProcess);
  ASSERT_OK(run(*b_, b_->client().unlink(path_from_root("f"))));
  world_.run_for(seconds(60));
  EXPECT_EQ(datafiles(), 0U);
}

/// The change may come at the very moment of an open.
TEST_F(CachedOpensTest, AChangeAtAnyMomentOfAnOpenIsSeen) {
  for (int i = 0; i < 60; ++i) {
    ASSERT_OK(chmod(*b_, 0644));
    visit_under_lease(*a_);
    const auto change = [&] {
      wire::SetattrRequest request;
      request.where.start = handle_;
      request.mode = 0600;
      return begin_call(*b_, b_->client().setattr(request));
    };
    const auto changed = change();
    world_.run_for(std::chrono::microseconds(5 * i));
    const bool before = changed->has_value();
    const Errc opened = visit(*a_);
    if (before) EXPECT_EQ(opened, Errc::kPermissionDenied) << i;
    ASSERT_OK(end_call(world_, changed));
    EXPECT_EQ(visit(*a_), Errc::kPermissionDenied) << i;
  }
}

class PlantedCachedOpens : public CachedOpensTest, public ::testing::WithParamInterface<Plant> {
 protected:
  PlantedCachedOpens() : CachedOpensTest(with(GetParam())) {}
  static WorldOptions with(Plant plant) {
    WorldOptions options;
    options.plant = plant;
    return options;
  }
};

TEST_P(PlantedCachedOpens, AUserWhoseRightsWereTakenAwayOpensNothing) {
  visit_under_lease(*a_);
  ASSERT_OK(chmod(*b_, 0600));
  ASSERT_OK(run(*a_, a_->client().stat(path_from_root("f"))));
  EXPECT_EQ(visit(*a_), GetParam() == Plant::kNone ? Errc::kPermissionDenied : Errc::kOk);
}
INSTANTIATE_TEST_SUITE_P(Each, PlantedCachedOpens, ::testing::Values(Plant::kNone, Plant::kOpenAfterChange),
                         [](const auto& info) { return info.param == Plant::kNone ? "Well" : "Planted"; });

// The following tests are about opens that the meta server does not count.

TEST_F(CachedOpensTest, AnUncountedOpenReadsAndIsNotClosed) {
  asked_.clear();
  auto file = open(*a_, kUncounted);
  ASSERT_OK(file);
  Bytes room(4000);
  EXPECT_EQ(run(*a_, (*file)->read(0, room)).value_or(0), 3000U);
  ASSERT_OK(run(*a_, (*file)->close()));
  EXPECT_EQ(asked_[wire::Op::kOpen], 1U);
  EXPECT_EQ(asked_[wire::Op::kClose] + asked_[wire::Op::kCloseWriters], 0U);
  EXPECT_EQ(kept(*a_), 0U);
}

TEST_F(CachedOpensTest, AFileThatIsRemovedUnderAnUncountedOpenIsNoHole) {
  auto file = open(*a_, kUncounted);
  ASSERT_OK(file);
  ASSERT_OK(run(*b_, b_->client().unlink(path_from_root("f"))));
  world_.run_for(seconds(5));
  EXPECT_EQ(datafiles(), 0U);
  Bytes room(4000);
  EXPECT_ERRC(run(*a_, (*file)->read(0, room)), Errc::kStaleHandle);
  EXPECT_OK(run(*a_, (*file)->close()));
}

TEST_F(CachedOpensTest, AnUncountedOpenReadsOnAfterItsSessionHasExpired) {
  auto file = open(*a_, kUncounted);
  ASSERT_OK(file);
  world_.fabric().links().partition(kMetaServer.value, a_->node(), true);
  world_.run_for(seconds(60));
  world_.fabric().links().partition(kMetaServer.value, a_->node(), false);
  Bytes room(4000);
  EXPECT_EQ(run(*a_, (*file)->read(0, room)).value_or(0), 3000U);
  ASSERT_OK(run(*a_, (*file)->close()));
  ASSERT_OK(run(*b_, b_->client().unlink(path_from_root("f"))));
  world_.run_for(seconds(5));
  EXPECT_EQ(datafiles(), 0U);
}

}  // namespace
}  // namespace spate::cluster
