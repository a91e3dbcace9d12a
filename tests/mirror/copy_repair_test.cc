// SPDX-License-Identifier: Apache-2.0
// fsck has copies made anew, and says why one is left.
#include "fsck/copy_repair.h"

#include <gmock/gmock.h>

#include "base/expect.h"
#include "fsck/check.h"
#include "tests/mirror/renewal_fixture.h"

namespace spate::cluster {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class NoObserver final : public fsck::Observer {
 public:
  void found(const fsck::Report& /*report*/) override {}
  void progress(const fsck::Progress& /*progress*/) override {}
};

class CopyRepairTest : public RenewalTest {
 protected:
  /// The copy of this datafile on the member `there` is wrong, and that on `here` is right.
  fsck::WrongCopy wrong_copy(Handle handle, ServerId here, ServerId there) {
    fsck::WrongCopy copy;
    copy.pair = {handle, 0, request_.group, target_on(here), target_on(there)};
    copy.finding.damage = wire::Damage::kMissingCopy;
    copy.of_primary = mirrors_->primary_of(*file_) == there;
    return copy;
  }
  void repair(std::vector<fsck::WrongCopy>& copies) {
    ClientProcess& process = world().start_client();
    fsck::ServersOptions options;
    options.map = world().settings().map;
    options.server_key = world().settings().server_key;
    fsck::Servers servers(options, process.client().session().network(), world().random());
    fsck::ContentComparison contents(servers, 0);
    NoObserver observer;
    fsck::CopyRepair repair(servers, observer, contents);
    ASSERT_OK(call(world(), process, repair.run(copies, 1)));
  }
};

TEST_F(CopyRepairTest, ALostCopyIsMadeAnew) {
  std::vector<fsck::WrongCopy> copies(1, wrong_copy(file_->handle(), good_, poor_));
  repair(copies);
  EXPECT_EQ(copies[0].outcome, fsck::Outcome::kRepaired) << copies[0].note;
  EXPECT_EQ(mirrors_->differences(), "");
}

/// The primary's copy replaces the others, so it must not be a member with wrong copies.
TEST_F(CopyRepairTest, AMemberWithACopyThatIsNotRepairedDoesNotBecomeThePrimary) {
  std::vector<fsck::WrongCopy> copies;
  const Handle nowhere(file_->handle().value + 1000);
  copies.push_back(wrong_copy(nowhere, good_, poor_));
  copies.push_back(wrong_copy(file_->handle(), poor_, good_));
  repair(copies);
  EXPECT_EQ(copies[0].outcome, fsck::Outcome::kLeft);
  EXPECT_THAT(copies[0].note, HasSubstr("the primary has none of the datafiles"));
  EXPECT_EQ(copies[1].outcome, fsck::Outcome::kLeft);
  EXPECT_THAT(copies[1].note, HasSubstr("its own copies are not all repaired"));
  EXPECT_EQ(mirrors_->primary_of(*file_), good_);
  ASSERT_TRUE(copy_on(good_)) << "the only copy is gone";
}

TEST_F(CopyRepairTest, ACopyIsLeftAfterThreeReturnsOfItsMemberThatFail) {
  for (const auto& disk : world().disks(poor_).targets)
    disk->faults().refuse(trove::BytestreamOp::kWrite, Errc::kIoError);
  std::vector<fsck::WrongCopy> copies(1, wrong_copy(file_->handle(), good_, poor_));
  const MonoTime begun = world().now();
  repair(copies);
  EXPECT_LT(world().now() - begun, 60s) << "it has waited as for a member that does not try";
  EXPECT_EQ(copies[0].outcome, fsck::Outcome::kLeft);
  EXPECT_THAT(copies[0].note, HasSubstr("its server has not returned to the group"));
  for (const auto& disk : world().disks(poor_).targets) disk->faults().clear();
  ASSERT_TRUE(mirrors_->become_whole()) << "a group lacks a copy";
  EXPECT_EQ(mirrors_->differences(), "");
}

/// Its server answers the request and dies then. Nobody knows whether the copy was made.
TEST_F(CopyRepairTest, ACopyThatCannotBeLookedAtIsNotCalledMade) {
  bool probed = false;
  world().watch().on_arrival([&](const WatchedRequest& request) {
    if (request.op != wire::Op::kDatafileProbe || request.server != poor_ || probed) return;
    probed = true;
    world().at(world().now(), [this] { mirrors_->kill(poor_); });
  });
  std::vector<fsck::WrongCopy> copies(1, wrong_copy(file_->handle(), good_, poor_));
  repair(copies);
  world().watch().on_arrival({});
  EXPECT_TRUE(probed) << "the scene is not the one that is meant";
  EXPECT_EQ(copies[0].outcome, fsck::Outcome::kLeft);
  EXPECT_THAT(copies[0].note, HasSubstr("does not answer now, so it is not known whether the copy was made"));
}

/// Nobody compares the copies of a member that is out of date, although its server answers.
TEST_F(CopyRepairTest, AMemberThatDoesNotServeIsReportedAsNotChecked) {
  mirrors_->cut(good_, poor_, true);
  write(copy_of(2));
  world().run_for(5s);
  ASSERT_FALSE(mirrors_->group_of(*file_).is_whole()) << "the scene is not the one that is meant";
  ClientProcess& process = world().start_client();
  fsck::ServersOptions options;
  options.map = world().settings().map;
  options.server_key = world().settings().server_key;
  fsck::Servers servers(options, process.client().session().network(), world().random());
  NoObserver observer;
  const fsck::Options wanted;
  const auto summary = call(world(), process, fsck::run(servers, wanted, observer));
  ASSERT_OK(summary);
  EXPECT_THAT(summary->unchecked, ::testing::Contains(HasSubstr("is not up to date")));
  EXPECT_EQ(summary->exit_code() & 8, 8);
  mirrors_->cut(good_, poor_, false);
  ASSERT_TRUE(mirrors_->become_whole()) << "a group lacks a copy";
  const auto again = call(world(), process, fsck::run(servers, wanted, observer));
  ASSERT_OK(again);
  EXPECT_THAT(again->unchecked, ::testing::IsEmpty());
}

}  // namespace
}  // namespace spate::cluster
