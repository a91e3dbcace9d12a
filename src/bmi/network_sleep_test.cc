// SPDX-License-Identifier: Apache-2.0
// The core over scripted modules: how the threads that test contexts sleep, and what wakes them.
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "bmi/network_fixture.h"

namespace spate::bmi {
namespace {

TEST_F(CoreTest, ASleepingTesterIsWokenByAnotherThread) {
  const ContextId other = network_->open_context();
  const OpId mine = post(lookup({"a://1"})).op;
  const OpId theirs = network_->post_send(message(lookup({"a://1"})), other, nullptr)->op;
  ASSERT_TRUE(network_->prepare_to_wait(context_)) << "nothing has ended yet";
  ASSERT_TRUE(network_->prepare_to_wait(other)) << "nothing has ended yet";
  EXPECT_FALSE(readable(context_));
  std::thread([&] { a_->complete(mine); }).join();
  EXPECT_TRUE(readable(context_));
  EXPECT_FALSE(readable(other));
  EXPECT_NE(network_->test(context_, mine), std::nullopt);
  EXPECT_FALSE(readable(context_));
  a_->complete(theirs);
  EXPECT_TRUE(readable(other));
  EXPECT_FALSE(network_->prepare_to_wait(other)) << "there is something to test already";
}

// The thread that tests may never come back, and the module polls its peers and wakes nobody until somebody asks it
// again.
TEST_F(CoreTest, ATestThatLeavesWorkWakesAThreadThatSleepsInAnotherContext) {
  const ContextId other = network_->open_context();
  a_->has_work = true;
  (void)completions(other);
  ASSERT_FALSE(network_->prepare_to_wait(context_)) << "the module has work";
  (void)completions(other);
  EXPECT_FALSE(readable(context_)) << "nobody sleeps";
  a_->has_work = false;
  ASSERT_TRUE(network_->prepare_to_wait(context_)) << "the module has no work";
  (void)completions(other);
  EXPECT_FALSE(readable(context_)) << "nothing to do";
  a_->has_work = true;
  (void)completions(other);
  EXPECT_TRUE(readable(context_));
  (void)completions(context_);
  EXPECT_FALSE(readable(context_));
}

TEST_F(CoreTest, AContextCanBeClosedByAThreadThatHasAnnouncedItsSleep) {
  const ContextId other = network_->open_context();
  ASSERT_TRUE(network_->prepare_to_wait(other)) << "nothing has ended";
  network_->close_context(other);
  a_->has_work = true;
  EXPECT_EQ(completions(context_).size(), 0U);
}

TEST_F(CoreTest, TheDescriptorShowsTheModules) {
  ASSERT_TRUE(network_->prepare_to_wait(context_)) << "nothing has ended";
  EXPECT_FALSE(readable(context_));
  const std::uint64_t one = 1;
  ASSERT_EQ(::write(event_.get(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
  EXPECT_TRUE(readable(context_));
}

TEST_F(CoreTest, AModuleWithoutWorkIsAskedLessOftenUntilTheTesterSleeps) {
  for (int i = 0; i < 1000; ++i) (void)completions(context_);
  EXPECT_LT(a_->progressed, 500);
  ASSERT_TRUE(network_->prepare_to_wait(context_)) << "nothing has ended";
  const int before = a_->progressed;
  (void)completions(context_);
  EXPECT_EQ(a_->progressed, before + 1);
}

TEST(Network, AContextSleepsInsideOneModuleAndTheOthersWakeIt) {
  std::vector<std::unique_ptr<Module>> modules;
  modules.push_back(std::make_unique<FakeModule>("a"));
  modules.push_back(std::make_unique<FakeModule>("b"));
  auto& other = static_cast<FakeModule&>(*modules[0]);
  auto& sleeper = static_cast<FakeModule&>(*modules[1]);
  const UniqueFd of_other(::eventfd(0, EFD_CLOEXEC));
  const UniqueFd of_sleeper(::eventfd(0, EFD_CLOEXEC));
  other.descriptor = of_other.get();
  sleeper.descriptor = of_sleeper.get();
  sleeper.sleeps = true;
  const std::unique_ptr<Network> network = make_network(std::move(modules));
  const ContextId context = network->open_context();
  EXPECT_EQ(network->wait_descriptor(context), of_sleeper.get());
  EXPECT_NE(std::ranges::find(sleeper.waits_for, of_other.get()), sleeper.waits_for.end());
  EXPECT_TRUE(network->wait(context, Duration(-1))) << "the module says that it slept";
  EXPECT_EQ(sleeper.waits, 1);
}

}  // namespace
}  // namespace spate::bmi
