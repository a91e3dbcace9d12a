// SPDX-License-Identifier: Apache-2.0
// A member has lost a datafile, and is to receive its copy anew (wire::CopyRenewRequest).
#include "tests/mirror/renewal_fixture.h"

namespace spate::cluster {
namespace {

using namespace std::chrono_literals;

constexpr Duration kTakenOver = 20s;

TEST_F(RenewalTest, ABackupReceivesItsCopyAnew) {
  ASSERT_OK(ask(good_));
  ASSERT_TRUE(mirrors_->become_whole()) << "a group lacks a copy";
  EXPECT_EQ(mirrors_->differences(), "");
  expect_content();
}

/// The next primary must not take the former primary's copy for one that is out of date.
TEST_F(RenewalTest, TheOnlyCopyStaysWhenThePrimaryEndsBeforeTheRecordIsChanged) {
  mirrors_->cut(good_, kMetaServer, true);
  std::ignore = ask(good_);
  mirrors_->kill(good_);
  world().run_for(kTakenOver);
  mirrors_->cut(good_, kMetaServer, false);
  ASSERT_EQ(mirrors_->primary_of(*file_), poor_) << "it has not taken over: the scene is not the one that is meant";
  mirrors_->restart(good_);
  ASSERT_TRUE(mirrors_->become_whole()) << "a group lacks a copy";
  ASSERT_TRUE(copy_on(good_)) << "the only copy is gone";
  EXPECT_BYTES(*copy_on(good_), content_);
  // The member without a copy leads: first the lead moves, and then the copy is made anew.
  ASSERT_OK(ask(poor_));
  ASSERT_TRUE(mirrors_->become_whole()) << "a group lacks a copy";
  EXPECT_EQ(mirrors_->primary_of(*file_), good_);
  ASSERT_OK(ask(good_));
  ASSERT_TRUE(mirrors_->become_whole()) << "a group lacks a copy";
  EXPECT_EQ(mirrors_->differences(), "");
  expect_content();
}

TEST_F(RenewalTest, ACopyOfARemovedDatafileIsPassedOver) {
  const wire::DatafileRef gone{Handle(datafile().handle.value + 1000), {0, request_.member}};
  request_.datafiles.insert(request_.datafiles.begin(), gone);
  ASSERT_OK(ask(good_));
  ASSERT_TRUE(mirrors_->become_whole()) << "a group lacks a copy";
  EXPECT_EQ(mirrors_->differences(), "");
  request_.datafiles.assign(1, gone);
  EXPECT_ERRC(ask(good_), Errc::kNotFound);
}

/// Its disk is so slow that the caller gives up before the record is changed.
TEST_F(RenewalTest, ARenewalThatIsCancelledInTimeLeavesTheGroupAsItIs) {
  const std::uint64_t epoch = mirrors_->group_of(*file_).epoch;
  trove::SimDiskModel slow;
  slow.memory_latency = 3s;
  slow.immediate_per_mille = 0;
  for (const auto& disk : world().disks(good_).targets) disk->set_model(slow);
  EXPECT_ERRC(ask(good_), Errc::kTimeout);
  for (const auto& disk : world().disks(good_).targets) disk->set_model({});
  world().run_for(20s);
  EXPECT_EQ(mirrors_->group_of(*file_).epoch, epoch) << "the member was left out although nobody waits for it";
  EXPECT_FALSE(copy_on(poor_)) << "a copy was made";
  ASSERT_OK(ask(good_));
  ASSERT_TRUE(mirrors_->become_whole()) << "a group lacks a copy";
  EXPECT_EQ(mirrors_->differences(), "");
}

}  // namespace
}  // namespace spate::cluster
