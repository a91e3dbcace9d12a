// SPDX-License-Identifier: Apache-2.0
#include "base/workers.h"

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <semaphore>
#include <vector>

#include "base/expect.h"

namespace spate {
namespace {

TEST(WorkersTest, DestructorWaitsUntilAllWorkIsDone) {
  std::atomic<int> done = 0;
  {
    Workers workers("test", 3);
    for (int i = 0; i < 100; ++i) workers.run([&done] { ++done; });
  }
  EXPECT_EQ(done, 100);
}

TEST(WorkersTest, OneThreadRunsWorkInOrder) {
  std::vector<int> order;
  {
    Workers workers("test", 1);
    for (int i = 0; i < 5; ++i) workers.run([&order, i] { order.push_back(i); });
  }
  EXPECT_EQ(order, (std::vector{0, 1, 2, 3, 4}));
}

TEST(WorkersTest, AThreadStartsForWorkThatWouldWaitForAnother) {
  std::binary_semaphore first_may_end(0);
  Workers workers("test", 2);
  workers.run([&first_may_end] { first_may_end.acquire(); });
  workers.run([&first_may_end] { first_may_end.release(); });  // with one thread the destructor would never end
}

TEST(WorkersTest, ThreadsAreNamedAndBlockTheProgramsSignals) {
  char name[16] = "";
  bool blocked = false;
  {
    Workers workers("a-name-that-is-long", 1);
    workers.run([&] {
      pthread_getname_np(pthread_self(), name, sizeof name);
      sigset_t mask;
      pthread_sigmask(SIG_BLOCK, nullptr, &mask);
      blocked = sigismember(&mask, SIGTERM) == 1;
    });
  }
  EXPECT_STREQ(name, "a-name-that-is-");
  EXPECT_EQ(blocked, true);
}

}  // namespace
}  // namespace spate
