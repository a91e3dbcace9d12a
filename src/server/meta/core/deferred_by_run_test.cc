// SPDX-License-Identifier: Apache-2.0
#include "server/meta/core/deferred_by_run.h"

#include <gmock/gmock.h>

#include <string>

#include "base/expect.h"

namespace spate::meta {
namespace {

job::Task<Result<void>> at_once() { co_return {}; }

TEST(DeferredByRunTest, ActionsAreCalledInTheirOrder) {
  DeferredByRun deferred;
  std::string called;
  deferred.when_committed([&called] { called += "first "; });
  deferred.when_committed([&called] { called += "second"; });
  EXPECT_EQ(called, "") << "nothing is committed yet";
  deferred.run_actions();
  EXPECT_EQ(called, "first second");
}

TEST(DeferredByRunTest, ObjectsAddUp) {
  DeferredByRun deferred;
  deferred.count_object(1);
  deferred.count_object(1);
  deferred.count_object(-1);
  EXPECT_EQ(deferred.objects_made(), 1);
}

TEST(DeferredByRunTest, AWaitIsTheConflictToPassOnAndIsTakenOnce) {
  DeferredByRun deferred;
  EXPECT_EQ(deferred.run_again_after(&at_once), Errc::kConflict);
  EXPECT_TRUE(static_cast<bool>(deferred.take_wait())) << "the wait of this run";
  EXPECT_FALSE(static_cast<bool>(deferred.take_wait())) << "a wait that was taken before";
}

TEST(DeferredByRunTest, AnAnswerIsTakenOnce) {
  DeferredByRun deferred;
  deferred.answer_with(Errc::kReadOnly);
  const auto answer = deferred.take_answer();
  ASSERT_NE(answer, std::nullopt);
  EXPECT_EQ(answer->code(), Errc::kReadOnly);
  EXPECT_EQ(deferred.take_answer(), std::nullopt);
}

TEST(DeferredByRunTest, ARunBeginsWithNothingOfTheRunBefore) {
  DeferredByRun deferred;
  bool called = false;
  deferred.count_object(1);
  deferred.when_committed([&called] { called = true; });
  deferred.finish_with(&at_once);
  deferred.answer_with(Errc::kReadOnly);
  deferred.answer_after_truncate(Handle(7));
  std::ignore = deferred.run_again_after(&at_once);
  deferred.begin();
  deferred.run_actions();
  EXPECT_FALSE(called) << "an action of the run before was called";
  EXPECT_EQ(deferred.objects_made(), 0);
  EXPECT_THAT(deferred.finishes(), testing::IsEmpty());
  EXPECT_EQ(deferred.take_answer(), std::nullopt);
  EXPECT_EQ(deferred.truncates(), Handle());
  EXPECT_FALSE(static_cast<bool>(deferred.take_wait())) << "a wait of the run before";
}

}  // namespace
}  // namespace spate::meta
