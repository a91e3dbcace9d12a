// SPDX-License-Identifier: Apache-2.0
#include "coord/sim/sim_coordinator.h"

#include "base/expect.h"
#include "job/gate.h"

namespace spate::coord {
namespace {

constexpr Duration kLong = std::chrono::seconds(10);

class SimCoordinatorTest : public testing::Test {
 protected:
  template <typename T>
  Result<T> wait_for(job::Task<Result<T>> task) {
    std::optional<Result<T>> result;
    job::Gate gate(executor_);
    job::spawn(gate, keep(std::move(task), result));
    while (!result) {
      while (executor_.step()) {
      }
      if (!result) clock_.set(executor_.next_timer());
    }
    return *std::move(result);
  }
  Result<std::uint64_t> put(const std::string& value, std::uint64_t revision) {
    Change change;
    change.compare("k", revision).put("k", to_bytes(as_bytes(value)));
    return wait_for(coordinator_.change(std::move(change), {}));
  }
  std::string value() {
    const Snapshot seen = service_.read("k");
    return seen.records.empty() ? "" : std::string(as_text(seen.records.front().value));
  }

  ManualClock clock_;
  SeededRandom random_{1};
  job::Executor executor_{clock_};
  SimService service_{clock_, random_};
  SimCoordinator coordinator_{service_, executor_, 1};

 private:
  template <typename T>
  static job::Task<void> keep(job::Task<Result<T>> task, std::optional<Result<T>>& out) {
    job::Task<Result<T>> own = std::move(task);
    out.emplace(co_await std::move(own));
  }
};

TEST_F(SimCoordinatorTest, ChangeIsMadeOnlyFromTheRevisionThatItNames) {
  const auto first = put("a", 0);
  ASSERT_OK(first);
  EXPECT_ERRC(put("b", 0), Errc::kConflict);
  EXPECT_ERRC(put("b", *first + 1), Errc::kConflict);
  EXPECT_EQ(value(), "a");
  EXPECT_OK(put("b", *first));
  EXPECT_EQ(value(), "b");
}

TEST_F(SimCoordinatorTest, ReadYieldsRecordsOfAPrefixWithTheirRevisions) {
  const auto first = put("a", 0);
  ASSERT_OK(first);
  Change other;
  other.compare("x", 0).put("x", {});
  ASSERT_OK(wait_for(coordinator_.change(std::move(other), {})));
  const auto seen = wait_for(coordinator_.read("k", {}));
  ASSERT_OK(seen);
  ASSERT_EQ(seen->records.size(), 1U);
  EXPECT_EQ(seen->records.front().revision, *first);
  EXPECT_GT(seen->revision, *first);
}

TEST_F(SimCoordinatorTest, ALostAnswerMeansThatTheChangeWasMade) {
  service_.faults.lost_answer_per_mille = 1000;
  EXPECT_ERRC(put("a", 0), Errc::kTimeout);
  EXPECT_EQ(value(), "a");
}

TEST_F(SimCoordinatorTest, LateChangeIsMadeAfterItsCallerGaveItUpUnlessTheRecordHasMoved) {
  service_.faults.late_change_per_mille = 1000;
  EXPECT_ERRC(put("late", 0), Errc::kTimeout);
  EXPECT_EQ(value(), "");
  clock_.advance(kLong);
  EXPECT_EQ(value(), "late");
  const std::uint64_t revision = service_.read("k").records.front().revision;
  EXPECT_ERRC(put("too late", revision), Errc::kTimeout);
  service_.faults.late_change_per_mille = 0;
  EXPECT_OK(put("settled", revision));
  clock_.advance(kLong);
  EXPECT_EQ(value(), "settled");
}

TEST_F(SimCoordinatorTest, AProcessThatIsCutOffChangesNothing) {
  service_.faults.cut_off.insert(1);
  EXPECT_ERRC(put("a", 0), Errc::kUnreachable);
  EXPECT_ERRC(wait_for(coordinator_.read("k", {})), Errc::kUnreachable);
  service_.faults.cut_off.clear();
  EXPECT_EQ(value(), "");
}

}  // namespace
}  // namespace spate::coord
