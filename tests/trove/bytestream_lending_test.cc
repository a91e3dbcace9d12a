// SPDX-License-Identifier: Apache-2.0
// Datafiles that another process of the machine reads and writes itself: lent descriptors, and pages with the state of
// leases.
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>

#include "base/expect.h"
#include "base/expect_bytes.h"
#include "trove/bytestream_harness.h"

namespace spate::trove {
namespace {

class BytestreamLendingTest : public BytestreamTest {};

TEST_P(BytestreamLendingTest, ALentDescriptorHasNoEffectAfterTheDatafileIsReplaced) {
  if (GetParam().find("sim") != std::string::npos) GTEST_SKIP() << "numbers only: src/trove/sim/sim_disk_test.cc";
  auto page = streams().make_lease({id(1), ClientId(3), 1, true});
  if (page.code() == Errc::kNotSupported) GTEST_SKIP() << page.error().message();
  ASSERT_OK(page);
  const Bytes data = pattern(1, 300'000);
  ASSERT_EQ(write(id(1), 1'000'000, data).status, Errc::kOk);  // leaves a hole
  OwnedRequest lend;
  lend.request.op = BytestreamOp::kLend;
  lend.request.id = id(1);
  lend.request.access = LendAccess::kBoth;
  const auto lent = wait(post_request(std::move(lend))).file;
  ASSERT_NE(lent, nullptr);
  ASSERT_EQ(::pwrite(lent->descriptor(), "early", 5, 1'000'000), 5);
  const BytestreamStat before = stat(id(1));
  ASSERT_EQ(run(BytestreamOp::kReplace, id(1)).status, Errc::kOk);
  ASSERT_EQ(::pwrite(lent->descriptor(), "late!", 5, 1'100'000), 5);
  ASSERT_EQ(::ftruncate(lent->descriptor(), 10), 0);
  Bytes expected(1'000'000);
  expected.insert(expected.end(), data.begin(), data.end());
  std::copy_n(reinterpret_cast<const std::byte*>("early"), 5, expected.begin() + 1'000'000);
  EXPECT_BYTES(read(id(1), 0, expected.size() + 5), expected);
  const BytestreamStat after = stat(id(1));
  EXPECT_GE(after.change_counter, before.change_counter);
  EXPECT_LT(after.allocated_bytes, 500'000U) << "the hole has been filled";
  ASSERT_EQ(write(id(1), 5, pattern(2, 10)).status, Errc::kOk);
  EXPECT_GT(stat(id(1)).change_counter, before.change_counter);
  restart();
  std::copy_n(pattern(2, 10).begin(), 10, expected.begin() + 5);
  EXPECT_BYTES(read(id(1), 0, expected.size() + 5), expected);
}

TEST_P(BytestreamLendingTest, APageIsFoundByTheNextProcessUnlessItsLeaseHadEnded) {
  auto ended = streams().make_lease({id(1), ClientId(3), 1, true});
  if (ended.code() == Errc::kNotSupported) GTEST_SKIP() << ended.error().message();
  auto left = streams().make_lease({id(2, 5), ClientId(4), 7, false});
  ASSERT_OK(ended);
  ASSERT_OK(left);
  EXPECT_TRUE((*ended)->words().begin());
  EXPECT_TRUE((*ended)->words().end());
  (*left)->keep();
  ended = Errc::kOk;
  left = Errc::kOk;
  const auto found = streams().left_leases();
  ASSERT_OK(found);
  ASSERT_EQ(found->size(), 1U);
  EXPECT_EQ(found->front()->datafile(), id(2, 5));
  EXPECT_FALSE(found->front()->writable());
  EXPECT_EQ(found->front()->words().client, 4U);
  found->front()->words().state.store(LeaseWords::kRecalled);
  EXPECT_FALSE(found->front()->words().begin());
}

INSTANTIATE_TEST_SUITE_P(Modules, BytestreamLendingTest, testing::ValuesIn(backend_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace spate::trove
