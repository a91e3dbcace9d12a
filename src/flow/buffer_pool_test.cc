// SPDX-License-Identifier: Apache-2.0
#include "flow/buffer_pool.h"

#include <memory>
#include <optional>
#include <vector>

#include "base/expect.h"
#include "bmi/sim/fabric.h"
#include "job/event.h"
#include "job/gate.h"

namespace spate::flow {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

class BufferPoolTest : public testing::Test {
 protected:
  struct Taker {
    std::optional<PooledBuffer> lease;
    Errc outcome = Errc::kOk;
    bool ended = false;
    job::StopSource stop;
  };

  BufferPoolTest() {
    std::vector<std::unique_ptr<bmi::Module>> modules;
    modules.push_back(bmi::sim::attach(fabric_, 1));
    network_ = bmi::make_network(std::move(modules));
    pool_.emplace(*network_, executor_, BufferPoolOptions{16 * kMiB}, metrics_);
  }
  static job::Task<void> take_into(BufferPool& pool, ClientId owner, std::uint64_t size, Taker& taker) {
    auto lease = co_await pool.acquire(owner, size, taker.stop);
    taker.outcome = lease.code();
    if (lease) taker.lease = *std::move(lease);
    taker.ended = true;
  }
  Taker& take(std::uint64_t owner, std::uint64_t size) {
    Taker& taker = *takers_.emplace_back(std::make_unique<Taker>());
    job::spawn(gate_, take_into(*pool_, ClientId(owner), size, taker));
    return taker;
  }
  void turn() {
    while (executor_.step()) {
    }
  }

  ManualClock clock_;
  SeededRandom random_{1};
  bmi::sim::Fabric fabric_{clock_, random_};
  std::unique_ptr<bmi::Network> network_;
  job::Executor executor_{clock_};
  metrics::Registry metrics_;
  std::optional<BufferPool> pool_;
  job::Gate gate_{executor_};
  std::vector<std::unique_ptr<Taker>> takers_;
};

TEST_F(BufferPoolTest, NeverGivesMoreThanItHas) {
  for (std::uint64_t owner = 1; owner <= 20; ++owner) take(owner, kMiB);
  EXPECT_EQ(pool_->used_bytes(), 16 * kMiB);
  for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(takers_[i]->ended, i < 16);
  takers_[3]->lease.reset();
  turn();
  EXPECT_TRUE(takers_[16]->ended) << pool_->used_bytes() << " bytes are used";  // first come, first served
  EXPECT_EQ(pool_->used_bytes(), 16 * kMiB);
  for (auto& taker : takers_) {
    taker->lease.reset();
    turn();
  }
  EXPECT_EQ(pool_->used_bytes(), 0U);
}

TEST_F(BufferPoolTest, OneOwnerGetsAtMostHalf) {
  for (int i = 0; i < 10; ++i) take(1, kMiB);
  EXPECT_EQ(pool_->used_bytes(), 8 * kMiB);
  EXPECT_EQ(pool_->try_acquire(ClientId(1), kMiB), std::nullopt);
  EXPECT_TRUE(take(2, kMiB).ended) << pool_->used_bytes()
                                   << " bytes are used";  // what is left is for other owners, though owner 1 waits
  takers_[0]->lease.reset();
  turn();
  EXPECT_TRUE(takers_[8]->ended) << pool_->used_bytes() << " bytes are used";
  for (auto& taker : takers_) {
    taker->lease.reset();
    turn();
  }
}

TEST_F(BufferPoolTest, OwnersWaitInTurn) {
  for (std::uint64_t owner = 10; owner < 26; ++owner) take(owner, kMiB);  // full
  for (int i = 0; i < 3; ++i) take(1, kMiB);
  Taker& other = take(2, kMiB);
  takers_[0]->lease.reset();
  takers_[1]->lease.reset();
  turn();
  EXPECT_TRUE(other.ended) << pool_->used_bytes() << " bytes are used";  // before owner 1's second one
  EXPECT_FALSE(takers_[17]->ended) << pool_->used_bytes() << " bytes are used";
  for (int rounds = 0; rounds < 2; ++rounds) {
    for (auto& taker : takers_) {
      taker->lease.reset();
      turn();
    }
  }
}

TEST_F(BufferPoolTest, ALargeRequestDoesNotStarve) {
  for (std::uint64_t owner = 10; owner < 26; ++owner) take(owner, kMiB);
  Taker& large = take(1, 8 * kMiB);
  takers_[0]->lease.reset();
  turn();
  EXPECT_EQ(pool_->try_acquire(ClientId(2), kMiB), std::nullopt);  // there is room, but a waiting owner is to get it
  for (std::size_t i = 1; i < 8; ++i) takers_[i]->lease.reset();
  turn();
  EXPECT_TRUE(large.ended) << pool_->used_bytes() << " bytes are used";
  for (auto& taker : takers_) taker->lease.reset();
}

TEST_F(BufferPoolTest, AStoppedWaiterLetsTheNextOneIn) {
  for (std::uint64_t owner = 10; owner < 25; ++owner) take(owner, kMiB);
  Taker& large = take(1, 8 * kMiB);
  Taker& small = take(2, kMiB);
  EXPECT_FALSE(small.ended) << pool_->used_bytes() << " bytes are used";
  large.stop.request_stop(Errc::kTimeout);
  turn();
  EXPECT_EQ(large.outcome, Errc::kTimeout);
  EXPECT_TRUE(small.ended) << pool_->used_bytes() << " bytes are used";
  for (auto& taker : takers_) taker->lease.reset();
}

TEST_F(BufferPoolTest, KeptBuffersAreFreedForAnotherSize) {
  for (std::uint64_t owner = 1; owner <= 16; ++owner) take(owner, kMiB);
  for (auto& taker : takers_) taker->lease.reset();
  Taker& a = take(1, 8 * kMiB);
  Taker& b = take(2, 8 * kMiB);
  EXPECT_TRUE(a.ended) << pool_->used_bytes() << " bytes are used";
  EXPECT_TRUE(b.ended) << pool_->used_bytes() << " bytes are used";
  std::memset(a.lease->view().data(), 1, a.lease->view().size());
  std::memset(b.lease->view().data(), 2, b.lease->view().size());
  EXPECT_EQ(a.lease->view()[0], std::byte{1});
  for (auto& taker : takers_) taker->lease.reset();
}

}  // namespace
}  // namespace spate::flow
