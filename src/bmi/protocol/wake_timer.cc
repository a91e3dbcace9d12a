// SPDX-License-Identifier: Apache-2.0
#include "bmi/protocol/wake_timer.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "base/check.h"

namespace spate::bmi::protocol {

bool WakeTimer::open() {
  timer_.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  return static_cast<bool>(timer_);
}

void WakeTimer::arm(MonoTime when) {
  if (when >= armed_for_) return;
  armed_for_ = when;
  const Duration left = std::max(Duration(1), when - clock_.now());
  itimerspec spec{};
  spec.it_value.tv_sec = left.count() / 1'000'000'000;
  spec.it_value.tv_nsec = left.count() % 1'000'000'000;
  SPATE_CHECK(::timerfd_settime(timer_.get(), 0, &spec, nullptr) == 0);
}

void WakeTimer::drain() {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto drained = ::read(timer_.get(), &count, sizeof count);
  armed_for_ = MonoTime::never();
}

}  // namespace spate::bmi::protocol
