// SPDX-License-Identifier: Apache-2.0
#include "base/biased_mutex.h"

#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "base/expect.h"

namespace spate {

struct BiasedMutexTestAccess {
  /// Whether the calling thread owns the mutex.
  static bool is_owner(const BiasedMutex& mutex) {
    return mutex.owner_.load(std::memory_order_relaxed) == BiasedMutex::this_thread();
  }
};

namespace {

bool is_owner(const BiasedMutex& mutex) { return BiasedMutexTestAccess::is_owner(mutex); }

/// Locks the mutex until the calling thread owns it. False: it cannot become the owner here.
bool become_owner(BiasedMutex& mutex) {
  for (int i = 0; i < 1000 && !is_owner(mutex); ++i) {
    mutex.lock();
    mutex.unlock();
  }
  return is_owner(mutex);
}

TEST(BiasedMutex, ASoleThreadBecomesTheOwnerAndAnotherThreadTakesTheOwnership) {
  BiasedMutex mutex;
  ASSERT_TRUE(become_owner(mutex)) << "no membarrier(2) here";
  std::thread([&] {
    EXPECT_FALSE(is_owner(mutex));
    const std::lock_guard lock(mutex);
  }).join();
  EXPECT_FALSE(is_owner(mutex));
}

TEST(BiasedMutex, BecomesAnOrdinaryMutexAfterRepeatedLossOfOwnership) {
  BiasedMutex mutex;
  int times = 0;
  for (; times < 100 && become_owner(mutex); ++times) {
    std::thread([&] { const std::lock_guard lock(mutex); }).join();
  }
  EXPECT_GT(times, 0);
  EXPECT_LT(times, 10);
}

TEST(BiasedMutex, TakingTheOwnershipWaitsForTheOwnersCriticalSection) {
  BiasedMutex mutex;
  ASSERT_TRUE(become_owner(mutex));
  int value = 0;  // no atomic: the lock guards it
  std::atomic<bool> came{false};
  mutex.lock();
  std::thread other([&] {
    came = true;
    const std::lock_guard lock(mutex);
    EXPECT_EQ(value, 2);
    value = 3;
  });
  while (!came) std::this_thread::yield();
  value = 1;
  for (int i = 0; i < 1000; ++i) std::this_thread::yield();  // time for it to go wrong
  value = 2;
  mutex.unlock();
  other.join();
  EXPECT_EQ(value, 3);
}

TEST(BiasedMutex, ManyThreadsExcludeEachOther) {
  for (int round = 0; round < 50; ++round) {  // in each round threads gain and lose the ownership
    BiasedMutex mutex;
    long sum = 0;
    constexpr long kEach = 2000;
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        for (long i = 0; i < kEach; ++i) {
          const std::lock_guard lock(mutex);
          ++sum;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(sum, 3 * kEach);
  }
}

TEST(BiasedMutex, AChildProcessOfTheOwnerCanUseIt) {
  BiasedMutex mutex;
  ASSERT_TRUE(become_owner(mutex));
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::thread([&] { const std::lock_guard lock(mutex); }).join();
    const std::lock_guard lock(mutex);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace spate
