// SPDX-License-Identifier: Apache-2.0
// Two clients keep attributes and see each other's changes; a holder is cut off; a server
// restarts.

#include <map>
#include <optional>
#include <utility>

#include "tests/cluster/leases_fixture.h"

namespace spate::cluster {
namespace {

using bmi::sim::Death;
using client::path_from_root;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_F(LeasesTest, ACachedLookupIsAnsweredWithoutTheServer) {
  make_file(*b_, "f");
  EXPECT_FALSE(kept(*a_, "f"));
  ASSERT_OK(stat(*a_, "f"));
  EXPECT_TRUE(kept(*a_, "f"));
  EXPECT_ERRC(stat(*a_, "nothing"), Errc::kNotFound);
  EXPECT_TRUE(kept(*a_, "nothing"));
  world_.run_for(seconds(100));  // many times the length of a lease; renewals keep it
  EXPECT_TRUE(kept(*a_, "f"));
  const auto before = counters(*a_);
  ASSERT_OK(stat(*a_, "f"));
  EXPECT_EQ(counters(*a_).hits, before.hits + 1);
}

TEST_F(LeasesTest, ExtendedAttributesUnderALeaseAreRequestedOnce) {
  constexpr const char* kAcl = "system.posix_acl_access";
  client::Client& a = a_->client();
  make_file(*b_, "f");
  const client::NamePath where{stat(*a_, "f").value().handle, {}, 0};
  wire::SetxattrRequest set;
  set.where = where;
  set.name = "user.x";
  using Names = std::vector<std::string>;
  for (int round = 0; round < 3; ++round) {
    asked_.clear();
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(run(*a_, a.listxattr(where)).value(), Names());
      EXPECT_ERRC(run(*a_, a.getxattr(where, kAcl)), Errc::kNoAttribute);
    }
    EXPECT_EQ(asked_[wire::Op::kListxattr], 1U);
    EXPECT_EQ(asked_[wire::Op::kGetxattr], 0U);
    ASSERT_OK(run(*b_, b_->client().setxattr(set)));
    EXPECT_EQ(run(*a_, a.listxattr(where)).value(), Names{"user.x"});
    ASSERT_OK(stat(*a_, "f"));  // with a lease again
    EXPECT_EQ(run(*a_, a.listxattr(where)).value(), Names{"user.x"});
    ASSERT_OK(run(*a_, a.removexattr(where, "user.x")));
  }
}

TEST_F(LeasesTest, OwnChangesAreAnsweredWithoutTheServer) {
  client::Client& a = a_->client();
  ASSERT_OK(stat(*a_, ""));  // the lease on the root begins here
  ASSERT_OK(run(*a_, a.mkdir(path_from_root("d"), {})));
  make_file(*a_, "d/f");
  ASSERT_OK(chmod(*a_, "d/f", 0611));
  for (const char* path : {"d", "d/f", "d/nothing"}) EXPECT_TRUE(kept(*a_, path)) << path;
  EXPECT_FALSE(kept(*a_, "nothing"));  // other clients may have made names there
  EXPECT_EQ(stat(*a_, "d")->size, 1U);
  EXPECT_EQ(stat(*a_, "d/f")->mode, 0611U);
  EXPECT_ERRC(stat(*a_, "d/nothing"), Errc::kNotFound);
  EXPECT_EQ(counters(*a_).misses, 1U);
  ASSERT_OK(run(*a_, a.rename(path_from_root("d/f"), path_from_root("d/g"))));
  EXPECT_ERRC(stat(*a_, "d/f"), Errc::kNotFound);
  ASSERT_OK(run(*a_, a.unlink(path_from_root("d/g"))));
  EXPECT_ERRC(stat(*a_, "d/g"), Errc::kNotFound);
  EXPECT_EQ(stat(*a_, "d")->size, 0U);
}

TEST_F(LeasesTest, ANameThatAnotherAddsToADirectoryKnownWholeIsSeen) {
  client::Client& a = a_->client();
  client::Client& b = b_->client();
  ASSERT_OK(stat(*a_, ""));
  ASSERT_OK(run(*a_, a.mkdir(path_from_root("d"), {})));
  EXPECT_ERRC(stat(*a_, "d/f"), Errc::kNotFound);
  EXPECT_TRUE(kept(*a_, "d/f"));
  make_file(*b_, "d/f");
  ASSERT_OK(stat(*a_, "d/f"));
  EXPECT_FALSE(kept(*a_, "d/g"));  // the client no longer knows which other names exist
  ASSERT_OK(run(*a_, a.mkdir(path_from_root("e"), {})));
  make_file(*a_, "e/x");
  ASSERT_OK(run(*b_, b.rename(path_from_root("e/x"), path_from_root("e/y"))));
  EXPECT_ERRC(stat(*a_, "e/x"), Errc::kNotFound);
  EXPECT_OK(stat(*a_, "e/y"));
  make_file(*a_, "e/z");
  ASSERT_OK(chmod(*b_, "e/z", 0600));
  EXPECT_EQ(stat(*a_, "e/z")->mode, 0600U);
  ASSERT_OK(run(*b_, b.unlink(path_from_root("e/z"))));
  EXPECT_ERRC(stat(*a_, "e/z"), Errc::kNotFound);
}

TEST_F(LeasesTest, AStatOfANameThatIsReplacedMeanwhileReturnsTheNewObject) {
  for (const bool replaced : {false, true}) {
    auto file = create(*b_, "f");
    ASSERT_NE(file, nullptr);
    ASSERT_OK(run(*b_, file->write(0, Bytes(3000))));
    if (replaced) {
      auto other = create(*b_, "g");
      ASSERT_NE(other, nullptr);
      ASSERT_OK(run(*b_, other->write(0, Bytes(500))));
      ASSERT_OK(run(*b_, other->close()));
    }
    EXPECT_EQ(stat(*a_, "f")->size, 3000U);
    // The name is looked up while the file exists; its datafiles are asked when they are gone.
    set_data_latency(*a_, milliseconds(50));
    const auto outcome = begin_call(*a_, a_->client().stat(path_from_root("f")));
    world_.run_for(milliseconds(10));
    client::Client& b = b_->client();
    auto gone = replaced ? b.rename(path_from_root("g"), path_from_root("f")) : b.unlink(path_from_root("f"));
    ASSERT_OK(run(*b_, std::move(gone)));
    ASSERT_OK(run(*b_, file->close()));
    EXPECT_EQ(*outcome, std::nullopt);
    world_.run_for(seconds(5));
    ASSERT_NE(*outcome, std::nullopt);
    const Result<wire::ObjectReply>& found = **outcome;
    EXPECT_EQ(found.code(), replaced ? Errc::kOk : Errc::kNotFound);
    if (replaced) EXPECT_EQ(found->attributes.size, 500U);
    set_data_latency(*a_, bmi::sim::LinkOptions().latency);
  }
}

TEST_F(LeasesTest, EachKindOfChangeIsSeenByTheOtherOnceItIsAnswered) {
  client::Client& b = b_->client();
  ASSERT_OK(run(*b_, b.mkdir(path_from_root("d"), {})));
  EXPECT_ERRC(stat(*a_, "d/f"), Errc::kNotFound);
  auto file = create(*b_, "d/f");
  ASSERT_OK(stat(*a_, "d/f"));
  EXPECT_EQ(stat(*a_, "d")->size, 1U);
  const Bytes data(5000);
  ASSERT_OK(run(*b_, file->write(0, ByteView(data))));
  EXPECT_EQ(stat(*a_, "d/f")->size, 5000U);  // the size comes from the datafiles
  ASSERT_OK(run(*b_, file->write(5000, ByteView(data))));
  EXPECT_EQ(stat(*a_, "d/f")->size, 10000U);
  ASSERT_OK(run(*b_, file->close()));
  EXPECT_EQ(stat(*a_, "d/f")->size, 10000U);
  ASSERT_OK(stat(*a_, "d/f"));
  EXPECT_TRUE(kept(*a_, "d/f"));
  ASSERT_OK(chmod(*b_, "d/f", 0611));
  EXPECT_FALSE(kept(*a_, "d/f"));
  EXPECT_EQ(stat(*a_, "d/f")->mode, 0611U);
  ASSERT_OK(run(*b_, b.truncate(path_from_root("d/f"), 7)));
  EXPECT_EQ(stat(*a_, "d/f")->size, 7U);
  ASSERT_OK(run(*b_, b.link(path_from_root("d/f"), path_from_root("g"))));
  EXPECT_EQ(stat(*a_, "d/f")->link_count, 2U);
  EXPECT_EQ(stat(*a_, "g")->link_count, 2U);
  ASSERT_OK(run(*b_, b.unlink(path_from_root("d/f"))));
  EXPECT_ERRC(stat(*a_, "d/f"), Errc::kNotFound);
  EXPECT_EQ(stat(*a_, "g")->link_count, 1U);
  ASSERT_OK(run(*b_, b.rename(path_from_root("g"), path_from_root("d/h"))));
  EXPECT_ERRC(stat(*a_, "g"), Errc::kNotFound);
  ASSERT_OK(stat(*a_, "d/h"));
  ASSERT_OK(run(*b_, b.rename(path_from_root("d"), path_from_root("e"))));
  EXPECT_ERRC(stat(*a_, "d/h"), Errc::kNotFound);
  ASSERT_OK(stat(*a_, "e/h"));
  ASSERT_OK(run(*b_, b.unlink(path_from_root("e/h"))));
  ASSERT_OK(run(*b_, b.rmdir(path_from_root("e"))));
  EXPECT_ERRC(stat(*a_, "e"), Errc::kNotFound);
  EXPECT_GT(counters(*a_).recalls, 5U);
}

TEST_F(LeasesTest, AnOwnChangeIsSeenAtOnceAndWaitsForNobody) {
  ASSERT_OK(run(*a_, a_->client().mkdir(path_from_root("d"), {})));
  make_file(*a_, "d/f");
  make_file(*a_, "d/other");
  ASSERT_OK(stat(*a_, "d/f"));
  ASSERT_OK(stat(*a_, "d/other"));
  const MonoTime before = world_.now();
  ASSERT_OK(chmod(*a_, "d/f", 0601));
  EXPECT_EQ(stat(*a_, "d/f")->mode, 0601U);
  ASSERT_OK(run(*a_, a_->client().unlink(path_from_root("d/f"))));
  EXPECT_ERRC(stat(*a_, "d/f"), Errc::kNotFound);
  EXPECT_LT(world_.now() - before, milliseconds(100));
  EXPECT_TRUE(kept(*a_, "d/other"));  // the lease on another name in the directory stays
  EXPECT_EQ(counters(*a_).recalls, 0U);
}

TEST_F(LeasesTest, AClientReportsThatItHasDroppedItsLastLease) {
  for (int round = 0; round < 3; ++round) {
    ASSERT_OK(run(*b_, b_->client().mkdir(path_from_root("d"), {})));
    ASSERT_OK(stat(*a_, "d"));
    world_.run_for(milliseconds(10));
    const MonoTime before = world_.now();
    ASSERT_OK(run(*b_, b_->client().rmdir(path_from_root("d"))));  // a has leases on this and on the root only
    EXPECT_LT(world_.now() - before, milliseconds(100));
  }
}

TEST_F(LeasesTest, AChangeContinuesWhenTheLeaseOfADeadHolderHasEnded) {
  make_file(*b_, "f");
  ASSERT_OK(stat(*a_, "f"));
  world_.kill_client(*a_, Death::kMachine);
  const MonoTime before = world_.now();
  Result<Attributes> done = chmod(*b_, "f", 0600);
  for (int i = 0; i < 5 && !done; ++i) done = chmod(*b_, "f", 0600);
  ASSERT_OK(done);
  EXPECT_LE(world_.now() - before, world_.settings().session_lease);
  const MonoTime after = world_.now();
  ASSERT_OK(chmod(*b_, "f", 0644));
  EXPECT_LT(world_.now() - after, milliseconds(100));
}

TEST_F(LeasesTest, AClientThatIsCutOffAnswersNothingThatMayHaveChanged) {
  make_file(*b_, "f");
  ASSERT_OK(stat(*a_, "f"));
  EXPECT_TRUE(kept(*a_, "f"));
  world_.fabric().kill_node(a_->node(), Death::kMachine);  // the client lives on, but is cut off
  Result<Attributes> done = chmod(*b_, "f", 0600);
  for (int i = 0; i < 5 && !done; ++i) done = chmod(*b_, "f", 0600);
  ASSERT_OK(done);
  EXPECT_FALSE(kept(*a_, "f"));
  world_.kill_client(*a_, Death::kMachine);
}

TEST_F(LeasesTest, AfterARestartOfTheServerNothingOldIsAnswered) {
  make_file(*b_, "f");
  ASSERT_OK(stat(*a_, "f"));
  world_.kill_server(kMetaServer, Death::kProcess);
  world_.run_for(milliseconds(200));
  world_.start_server(kMetaServer);
  Result<Attributes> done = chmod(*b_, "f", 0600);
  for (int i = 0; i < 5 && !done; ++i) done = chmod(*b_, "f", 0600);
  ASSERT_OK(done);
  EXPECT_EQ(stat(*a_, "f")->mode, 0600U);
  ASSERT_OK(chmod(*b_, "f", 0611));
  EXPECT_EQ(stat(*a_, "f")->mode, 0611U);
}

TEST_F(LeasesTest, AChangeWaitsUntilCopiesElsewhereAreDropped) {
  SlowCopies& copies = copies_;
  client::Options options = small_client_options({}, {}, {});
  options.keep_attributes = true;
  options.copies = &copies;
  ClientProcess& c = world_.start_client(std::move(options));
  make_file(*b_, "f");
  for (ClientProcess* const who : {b_, &c}) {
    const auto known = stat(c, "f");
    ASSERT_OK(known);
    ASSERT_NE(c.client().cluster().attributes().copy_attributes(known->handle), std::nullopt);
    bool done = false;
    const auto chmod = [](client::Client& client, std::uint32_t mode, bool& out) -> job::Task<void> {
      wire::SetattrRequest request;
      request.where = path_from_root("f");
      request.mode = mode;
      out = (co_await client.setattr(request)).has_value();
    };
    const std::uint32_t mode = who == b_ ? 0600 : 0611;
    job::spawn(who->gate(), chmod(who->client(), mode, done));
    world_.run_for(milliseconds(300));  // shorter than a lease, which would end the wait
    EXPECT_TRUE(copies.dropping());
    EXPECT_FALSE(done) << "the change of client " << (who == b_ ? "b" : "a") << " did not wait";
    EXPECT_NE(stat(*b_, "f")->mode, mode);  // and the change is not yet visible
    copies.drop();
    world_.run_for(milliseconds(100));
    EXPECT_TRUE(done) << "the change still waits";
    EXPECT_EQ(stat(c, "f")->mode, mode);
    EXPECT_FALSE(copies.dropping());
  }
}

/// The model knows modes and names. Either client sees the last change, even if the other one made it.
TEST_F(LeasesTest, TwoClientsSeeWhatTheModelPredicts) {
  SeededRandom random(4);
  std::map<std::string, std::uint32_t> model;
  const auto name = [&] { return "f" + std::to_string(random.below(6)); };
  for (int step = 0; step < 1500; ++step) {
    ClientProcess& who = random.chance(1, 2) ? *a_ : *b_;
    const std::string path = name();
    const std::uint64_t what = random.below(10);
    const std::uint32_t mode = static_cast<std::uint32_t>(random.below(0777)) | 0600U;
    if (what == 0) {
      wire::CreateRequest request;
      request.where = path_from_root(path);
      request.open_flags = wire::kOpenExclusive;
      request.type = FileType::kFifo;
      request.attributes.mode = mode;
      const auto made = run(who, who.client().make_node(request));
      ASSERT_EQ(made.has_value(), !model.contains(path));
      if (made) model[path] = mode;
    } else if (what == 1) {
      ASSERT_EQ(run(who, who.client().unlink(path_from_root(path))).has_value(), model.erase(path) == 1);
    } else if (what == 2) {
      const auto changed = chmod(who, path, mode);
      ASSERT_EQ(changed.has_value(), model.contains(path));
      if (changed) model[path] = mode;
    } else if (what == 3) {
      const std::string to = name();
      const bool there = model.contains(path);
      ASSERT_EQ(run(who, who.client().rename(path_from_root(path), path_from_root(to))).has_value(), there);
      if (there && to != path) {
        model[to] = model[path];
        model.erase(path);
      }
    } else if (what == 4) {
      std::map<std::string, std::uint32_t> seen;
      for (const auto& [entry, attributes] : list(who, kRootHandle)) seen[entry] = attributes.mode;
      ASSERT_EQ(seen, model) << "at step " << step;
    } else {
      const auto seen = stat(who, path);
      ASSERT_EQ(seen.has_value(), model.contains(path)) << path << " at step " << step;
      if (seen) ASSERT_EQ(seen->mode, model[path]) << path << " at step " << step;
    }
  }
  EXPECT_GT(counters(*a_).hits, 50U);
  EXPECT_GT(counters(*b_).recalls, 50U);
}

}  // namespace
}  // namespace spate::cluster
