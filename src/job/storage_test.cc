// SPDX-License-Identifier: Apache-2.0
#include "job/storage.h"

#include <poll.h>
#include <sys/eventfd.h>

#include "base/expect.h"
#include "job/gate.h"
#include "trove/notify_queue.h"

namespace spate::job {
namespace {

/// Completes each operation only when told.
class SlowStore final : public trove::Bytestreams {
 public:
  bool post(const trove::BytestreamRequest& /*request*/, void* user, trove::BytestreamCompletion& /*done*/) override {
    posted_ = user;
    return false;
  }
  void complete() {
    trove::BytestreamCompletion done;
    done.user = posted_;
    queue_.push(std::move(done));
  }
  std::size_t test(std::span<trove::BytestreamCompletion> out) override { return queue_.pop(out); }
  int wait_descriptor() const override { return queue_.descriptor(); }
  bool prepare_to_wait() override { return queue_.prepare_to_wait(); }
  Result<std::vector<DatafileId>> list(DatafileId /*after*/, std::size_t /*max*/) override {
    return std::vector<DatafileId>();
  }
  Result<trove::SpaceInfo> space() override { return trove::SpaceInfo(); }
  std::string describe() const override { return "slow"; }

 private:
  void* posted_ = nullptr;
  trove::NotifyQueue<trove::BytestreamCompletion> queue_;
};

bool readable(int fd) {
  pollfd polled{fd, POLLIN, 0};
  return ::poll(&polled, 1, 0) == 1;
}

Task<void> one_operation(StorageContext& storage) {
  const trove::BytestreamRequest request;
  std::ignore = co_await storage.run(request);
}

TEST(StorageContext, AnExecutorAtRestSleeps) {
  SystemClock clock;
  Executor executor(clock);
  SlowStore store;
  StorageContext storage(store, executor);
  Gate gate(executor);
  ASSERT_TRUE(spawn(gate, one_operation(storage)));
  ASSERT_TRUE(storage.prepare_to_wait());
  store.complete();
  ASSERT_TRUE(readable(store.wait_descriptor()));  // the executor is woken
  while (gate.count() > 0) executor.step();
  ASSERT_TRUE(storage.prepare_to_wait());
  EXPECT_FALSE(readable(store.wait_descriptor()));
}

TEST(StorageContext, ACompletionBeforeTheSleepEndsTheSleep) {
  SystemClock clock;
  Executor executor(clock);
  SlowStore store;
  StorageContext storage(store, executor);
  Gate gate(executor);
  ASSERT_TRUE(spawn(gate, one_operation(storage)));
  store.complete();
  EXPECT_FALSE(storage.prepare_to_wait());
  while (gate.count() > 0) executor.step();
}

TEST(StorageContext, ALateSignalOfACollectedCompletionDoesNotKeepTheExecutorAwake) {
  SystemClock clock;
  Executor executor(clock);
  SlowStore store;
  const StorageContext storage(store, executor);
  // A worker was stopped between its completion and the signal, so the signal comes late.
  ASSERT_EQ(::eventfd_write(store.wait_descriptor(), 1), 0);
  Executor::Timer end(executor);
  end.arm(executor.now() + std::chrono::milliseconds(50), [](void*) {}, nullptr);
  std::size_t turns = 0;
  for (; end.armed(); ++turns) executor.turn();
  EXPECT_LT(turns, 100U);  // thousands, when it does not sleep
}

}  // namespace
}  // namespace spate::job
