// SPDX-License-Identifier: Apache-2.0
#include "base/expect.h"

#include <gtest/gtest-spi.h>

#include <memory>
#include <string>
#include <utility>

namespace spate {
namespace {

Result<int> seven() { return 7; }
Result<std::pair<int, int>> pair_of(int first, int second) { return std::pair<int, int>{first, second}; }
Result<int> nothing_there() { return Error(Errc::kNotFound, "name a"); }

TEST(Expect, OkSaysWhichErrorItWasAndOfWhat) {
  EXPECT_NONFATAL_FAILURE(EXPECT_OK(nothing_there()), "nothing_there()");
  EXPECT_NONFATAL_FAILURE(EXPECT_OK(nothing_there()), "actual: not_found: name a: ");
  EXPECT_FATAL_FAILURE(ASSERT_OK(nothing_there()), "actual: not_found: name a: ");
  EXPECT_NONFATAL_FAILURE(EXPECT_OK(Result<void>(Errc::kBusy)) << "and what the test says", "and what the test says");
}

TEST(Expect, OkTakesWhateverCarriesACode) {
  EXPECT_OK(seven());
  EXPECT_OK(pair_of(1, 2));
  EXPECT_OK(Result<void>{});
  EXPECT_OK(Errc::kOk);
  EXPECT_OK(std::optional<Result<int>>(7));
  EXPECT_NONFATAL_FAILURE(EXPECT_OK(Errc::kBusy), "actual: busy");
  EXPECT_NONFATAL_FAILURE(EXPECT_OK(Error(Errc::kBusy)), "actual: busy");
  EXPECT_NONFATAL_FAILURE(EXPECT_OK(std::optional<Result<int>>(Errc::kBusy)), "actual: busy");
}

TEST(Expect, WhatHasNotEndedIsNoSuccessAndNoErrorEither) {
  EXPECT_NONFATAL_FAILURE(EXPECT_OK(std::optional<Result<int>>{}), "it has not ended");
  EXPECT_NONFATAL_FAILURE(EXPECT_ERRC(std::optional<Result<int>>{}, Errc::kNotFound), "it has not ended");
}

TEST(Expect, ErrcComparesTheCodeAndShowsAValueThatCameInstead) {
  EXPECT_ERRC(nothing_there(), Errc::kNotFound);
  EXPECT_OK(seven());
  EXPECT_NONFATAL_FAILURE(EXPECT_ERRC(nothing_there(), Errc::kBusy), "expected: busy\n  actual: not_found: name a: ");
  EXPECT_NONFATAL_FAILURE(EXPECT_ERRC(seven(), Errc::kBusy), "expected: busy\n  actual: 7");
  EXPECT_FATAL_FAILURE(ASSERT_ERRC(seven(), Errc::kBusy), "expected: busy\n  actual: 7");
  EXPECT_NONFATAL_FAILURE(EXPECT_ERRC(Result<void>{}, Errc::kBusy), "actual: success");
}

TEST(Expect, AValueThatCannotBeCopiedIsLookedAtInPlace) {
  Result<std::unique_ptr<int>> owner = std::make_unique<int>(7);
  ASSERT_OK(owner);
  EXPECT_EQ(**owner, 7);
}

TEST(Expect, OtherAssertionsPrintCodesByTheirNames) {
  EXPECT_NONFATAL_FAILURE(EXPECT_EQ(nothing_there().code(), Errc::kBusy), "not_found");
}

}  // namespace
}  // namespace spate
