// SPDX-License-Identifier: Apache-2.0
#include "server/io/mirror/copy_pace.h"

#include "base/expect.h"
#include "job/gate.h"

namespace spate::io {
namespace {

constexpr std::uint64_t kPiece = std::uint64_t{1} << 20U;
constexpr std::uint64_t kRate = 100 * kPiece;  // a second

class CopyPaceTest : public ::testing::Test {
 protected:
  job::Task<void> copy_pieces(Duration send) {
    for (;;) {
      const auto turn = co_await pace_.turn(stop_);
      if (!turn) co_return;
      const auto sent = co_await executor_.sleep(send, stop_);
      if (!sent) co_return;
      pace_.copied(kPiece);
      copied_ += kPiece;
    }
  }
  /// Bytes that many tasks copy in `span`, when a piece takes `send` to be sent.
  std::uint64_t copied_in(Duration span, Duration send) {
    for (int i = 0; i < 32; ++i) job::spawn(gate_, copy_pieces(send));
    run(span);
    const std::uint64_t copied = copied_;
    stop_.request_stop();
    run(send);
    return copied;
  }
  void run(Duration span) {
    for (const MonoTime end = clock_.now() + span; clock_.now() < end; clock_.advance(kTick)) {
      while (executor_.step()) {
      }
    }
  }

  static constexpr Duration kTick = std::chrono::milliseconds(1);
  ManualClock clock_;
  job::Executor executor_{clock_};
  metrics::Registry metrics_;
  CopyPace pace_{executor_, kRate, metrics_};
  job::StopSource stop_;
  job::Gate gate_{executor_};
  std::uint64_t copied_ = 0;
};

TEST_F(CopyPaceTest, CopiesAtTheRateThoughPiecesTakeTimeToBeSent) {
  const std::uint64_t copied = copied_in(std::chrono::seconds(10), std::chrono::milliseconds(40));
  EXPECT_GE(copied, 10 * kRate * 95 / 100);
  EXPECT_LE(copied, 10 * kRate * 103 / 100);
}

TEST_F(CopyPaceTest, AQuietTimeIsNotMadeUpFor) {
  run(std::chrono::seconds(5));
  EXPECT_LE(copied_in(std::chrono::seconds(1), std::chrono::milliseconds(1)), kRate * 125 / 100);
}

}  // namespace
}  // namespace spate::io
