// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"

#include <ctime>

#include "base/check.h"

namespace spate {
namespace {

std::int64_t read_ns(clockid_t id) {
  timespec ts{};
  SPATE_CHECK(clock_gettime(id, &ts) == 0);
  return std::int64_t{ts.tv_sec} * 1'000'000'000 + ts.tv_nsec;
}

}  // namespace

MonoTime SystemClock::now() const { return MonoTime{Duration(read_ns(CLOCK_MONOTONIC))}; }

WallTime SystemClock::wall() const { return WallTime{read_ns(CLOCK_REALTIME)}; }

void ManualClock::set(MonoTime to) {
  SPATE_CHECK(to >= now_);
  now_ = to;
}

}  // namespace spate
