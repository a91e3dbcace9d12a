// SPDX-License-Identifier: Apache-2.0
#include "base/expect.h"

#include <gtest/gtest-spi.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/expect_bytes.h"

namespace spate {
namespace {

Result<int> seven() { return 7; }
Result<std::pair<int, int>> pair_of(int first, int second) { return std::pair<int, int>{first, second}; }
struct Place {
  std::uint64_t block = 0;
};
Result<Place> a_place() { return Place{7}; }
Result<std::vector<Place>> places() { return std::vector{Place{7}}; }
Result<int> nothing_there() { return Error(Errc::kNotFound, "name a"); }

TEST(Expect, OkPrintsTheErrorAndTheExpression) {
  EXPECT_NONFATAL_FAILURE(EXPECT_OK(nothing_there()), "nothing_there()");
  EXPECT_NONFATAL_FAILURE(EXPECT_OK(nothing_there()), "actual: not_found: name a: ");
  EXPECT_FATAL_FAILURE(ASSERT_OK(nothing_there()), "actual: not_found: name a: ");
  EXPECT_NONFATAL_FAILURE(EXPECT_OK(Result<void>(Errc::kBusy)) << "and what the test says", "and what the test says");
}

TEST(Expect, OkAcceptsEveryTypeThatCarriesACode) {
  EXPECT_OK(seven());
  EXPECT_OK(pair_of(1, 2));
  EXPECT_OK(Result<void>{});
  EXPECT_OK(Errc::kOk);
  EXPECT_OK(std::optional<Result<int>>(7));
  EXPECT_NONFATAL_FAILURE(EXPECT_OK(Errc::kBusy), "actual: busy");
  EXPECT_NONFATAL_FAILURE(EXPECT_OK(Error(Errc::kBusy)), "actual: busy");
  EXPECT_NONFATAL_FAILURE(EXPECT_OK(std::optional<Result<int>>(Errc::kBusy)), "actual: busy");
}

TEST(Expect, AnOperationThatHasNotEndedIsNeitherSuccessNorError) {
  EXPECT_NONFATAL_FAILURE(EXPECT_OK(std::optional<Result<int>>{}), "it has not ended");
  EXPECT_NONFATAL_FAILURE(EXPECT_ERRC(std::optional<Result<int>>{}, Errc::kNotFound), "it has not ended");
}

TEST(Expect, ErrcComparesTheCodeAndShowsAValueThatCameInstead) {
  EXPECT_ERRC(nothing_there(), Errc::kNotFound);
  const Errc success = Errc::kOk;
  EXPECT_ERRC(seven(), success);
  EXPECT_NONFATAL_FAILURE(EXPECT_ERRC(nothing_there(), Errc::kBusy), "expected: busy\n  actual: not_found: name a: ");
  EXPECT_NONFATAL_FAILURE(EXPECT_ERRC(seven(), Errc::kBusy), "expected: busy\n  actual: 7");
  EXPECT_FATAL_FAILURE(ASSERT_ERRC(seven(), Errc::kBusy), "expected: busy\n  actual: 7");
  EXPECT_NONFATAL_FAILURE(EXPECT_ERRC(Result<void>{}, Errc::kBusy), "actual: success");
}

TEST(Expect, AValueWithoutWordsIsNotPrintedAsBytes) {
  EXPECT_EQ(::testing::PrintToString(a_place()), "a value");
  EXPECT_EQ(::testing::PrintToString(places()), "a value");
  EXPECT_EQ(::testing::PrintToString(Result<std::unique_ptr<Place>>(std::make_unique<Place>())), "a value");
  EXPECT_EQ(::testing::PrintToString(pair_of(1, 2)), "(1, 2)");
  EXPECT_EQ(::testing::PrintToString(Result<std::vector<int>>(std::vector{1, 2})), "{ 1, 2 }");
  EXPECT_EQ(::testing::PrintToString(Result<std::optional<std::string>>("a")), "(\"a\")");
  EXPECT_NONFATAL_FAILURE(EXPECT_ERRC(a_place(), Errc::kBusy), "expected: busy\n  actual: a value");
}

TEST(Expect, BytesSayWhereTheyDiffer) {
  static const Bytes wanted(1000, std::byte{7});
  static Bytes longer(1001, std::byte{7});
  static Bytes other = wanted;
  other[300] = std::byte{9};
  EXPECT_BYTES(wanted, Bytes(1000, std::byte{7}));
  EXPECT_BYTES(ByteView(other).first(300), ByteView(wanted).first(300));
  EXPECT_NONFATAL_FAILURE(EXPECT_BYTES(other, wanted), "other\n  differs from wanted");
  EXPECT_NONFATAL_FAILURE(EXPECT_BYTES(other, wanted), "first difference: byte 300 is 9 instead of 7");
  EXPECT_NONFATAL_FAILURE(EXPECT_BYTES(longer, wanted), "sizes: 1001 instead of 1000 bytes");
  EXPECT_FATAL_FAILURE(ASSERT_BYTES(longer, wanted), "first difference: byte 1000");
}

TEST(Expect, AMoveOnlyValueIsExaminedInPlace) {
  Result<std::unique_ptr<int>> owner = std::make_unique<int>(7);
  ASSERT_OK(owner);
  EXPECT_EQ(**owner, 7);
}

TEST(Expect, OtherAssertionsPrintCodesByTheirNames) {
  EXPECT_NONFATAL_FAILURE(EXPECT_EQ(nothing_there().code(), Errc::kBusy), "not_found");
}

}  // namespace
}  // namespace spate
