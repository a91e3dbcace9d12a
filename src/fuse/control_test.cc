// SPDX-License-Identifier: Apache-2.0
#include "fuse/control.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <utility>

namespace spate::fuse {
namespace {

/// Of no device here, and of no other process that runs this.
std::string device() { return "test/" + std::to_string(::getpid()); }

TEST(ControlTest, OnlyWhoListensIsFound) {
  EXPECT_EQ(connect_to(device()).error().code(), Errc::kNotFound);
  const auto listener = listen_for(device());
  ASSERT_TRUE(listener);
  EXPECT_TRUE(connect_to(device()));
}

TEST(ControlTest, AKeeperListensOnceTheOneThatHadTheNumberBeforeHasEnded) {
  auto before = listen_for(device());
  ASSERT_TRUE(before);
  std::thread ends([old = *std::move(before)]() mutable {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    old.reset();
  });
  const auto listener = listen_for(device());
  ends.join();
  ASSERT_TRUE(listener) << listener.error().message();
  EXPECT_TRUE(connect_to(device()));
}

}  // namespace
}  // namespace spate::fuse
