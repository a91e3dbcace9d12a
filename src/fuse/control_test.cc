// SPDX-License-Identifier: Apache-2.0
#include "fuse/control.h"

#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "base/expect.h"

namespace spate::fuse {
namespace {

/// Of no device here, and of no other process that runs this.
std::string device() { return "test-" + std::to_string(::getpid()); }

MountedDevice mounted() { return {device(), ::geteuid()}; }

TEST(ControlTest, OnlyWhoListensIsFound) {
  EXPECT_ERRC(connect_to(mounted()), Errc::kNotFound);
  const auto listener = listen_for(device());
  ASSERT_OK(listener);
  EXPECT_OK(connect_to(mounted()));
  remove_listener(device());
}

TEST(ControlTest, ASupervisorWaitsUntilTheOneBeforeStopsListening) {
  auto before = listen_for(device());
  ASSERT_OK(before);
  std::thread ends([old = *std::move(before)]() mutable {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    old.reset();
  });
  const auto listener = listen_for(device());
  ends.join();
  ASSERT_OK(listener);
  EXPECT_OK(connect_to(mounted()));
  remove_listener(device());
}

}  // namespace
}  // namespace spate::fuse
