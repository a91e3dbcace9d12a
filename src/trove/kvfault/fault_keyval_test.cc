// SPDX-License-Identifier: Apache-2.0
#include "trove/kvfault/fault_keyval.h"

#include <array>
#include <optional>

#include "base/expect.h"
#include "trove/kvmem/memory_keyval.h"

namespace spate::trove {
namespace {

class FaultKeyvalTest : public testing::Test {
 protected:
  Errc commit(std::string_view key) {
    const auto transaction = store_.begin();
    transaction->put(as_bytes(key), as_bytes("v"));
    KeyvalCompletion done;
    EXPECT_TRUE(transaction->post_commit(Durability::kProcess, nullptr, done));
    return done.status;
  }
  bool exists(std::string_view key) {
    const auto transaction = inner_->begin();
    KeyvalCompletion done;
    EXPECT_TRUE(transaction->post_get(as_bytes(key), ReadMode::kSnapshot, nullptr, done));
    return done.value.has_value();
  }
  void order(FaultPoint point, std::uint64_t nth, Errc status, bool takes_effect = false) {
    KeyvalFault fault;
    fault.point = point;
    fault.nth = nth;
    fault.status = status;
    fault.takes_effect = takes_effect;
    store_.order(fault);
  }

  ManualClock clock_;
  std::unique_ptr<Keyval> inner_ = make_memory_keyval();
  FaultKeyval store_{*inner_, clock_};
};

TEST_F(FaultKeyvalTest, StrikesTheNthCommitOnly) {
  ASSERT_EQ(commit("before"), Errc::kOk);
  order(FaultPoint::kCommit, 2, Errc::kNoSpace);
  EXPECT_EQ(commit("first"), Errc::kOk);
  EXPECT_EQ(store_.pending_orders(), 1U);
  EXPECT_EQ(commit("second"), Errc::kNoSpace);
  EXPECT_EQ(store_.pending_orders(), 0U);
  EXPECT_EQ(commit("third"), Errc::kOk);
  EXPECT_FALSE(exists("second"));
  EXPECT_EQ(store_.count(FaultPoint::kCommit), 4U);
}

TEST_F(FaultKeyvalTest, FailedCommitMayHaveTakenEffect) {
  order(FaultPoint::kCommit, 1, Errc::kIoError, true);
  EXPECT_EQ(commit("key"), Errc::kIoError);
  EXPECT_TRUE(exists("key"));
}

TEST_F(FaultKeyvalTest, ReadsAndSyncsFail) {
  ASSERT_EQ(commit("key"), Errc::kOk);
  order(FaultPoint::kGet, 1, Errc::kIoError, true);
  order(FaultPoint::kRange, 1, Errc::kCorrupt);
  order(FaultPoint::kGetMany, 1, Errc::kIoError);
  order(FaultPoint::kSync, 1, Errc::kIoError);
  const auto transaction = store_.begin();
  KeyvalCompletion done;
  ASSERT_TRUE(transaction->post_get(as_bytes("key"), ReadMode::kChecked, this, done));
  EXPECT_EQ(done.status, Errc::kIoError);
  EXPECT_EQ(done.user, this);
  EXPECT_EQ(done.value, std::nullopt);
  const std::vector<Bytes> keys{to_bytes(as_bytes("key"))};
  ASSERT_TRUE(transaction->post_get_many(keys, ReadMode::kChecked, nullptr, done));
  EXPECT_EQ(done.status, Errc::kIoError);
  KeyRange range;
  range.end = to_bytes(as_bytes("z"));
  ASSERT_TRUE(transaction->post_range(range, nullptr, done));
  EXPECT_EQ(done.status, Errc::kCorrupt);
  ASSERT_TRUE(store_.post_sync(nullptr, done));
  EXPECT_EQ(done.status, Errc::kIoError);
}

TEST_F(FaultKeyvalTest, DelayedOperationKeepsItsOutcome) {
  ASSERT_EQ(commit("key"), Errc::kOk);
  KeyvalFault fault;
  fault.point = FaultPoint::kGet;
  fault.delay = std::chrono::seconds(3);
  store_.order(fault);
  const auto transaction = store_.begin();
  KeyvalCompletion done;
  ASSERT_FALSE(transaction->post_get(as_bytes("key"), ReadMode::kChecked, this, done));
  std::array<KeyvalCompletion, 2> out;
  EXPECT_EQ(store_.test(out), 0U);
  EXPECT_EQ(store_.next_event_time(), clock_.now() + std::chrono::seconds(3));
  clock_.advance(std::chrono::seconds(3));
  ASSERT_EQ(store_.test(out), 1U);
  EXPECT_EQ(out[0].user, this);
  EXPECT_EQ(as_text(*out[0].value), "v");
  EXPECT_EQ(store_.next_event_time(), MonoTime::never());
}

}  // namespace
}  // namespace spate::trove
