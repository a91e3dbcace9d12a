// SPDX-License-Identifier: Apache-2.0
#include "job/polling.h"

#include <algorithm>

namespace spate::job {
namespace {

constexpr unsigned kMostDoublings = 6;
// A crowded poll costs some milliseconds. Between two of them pass 16 waits, then 256, then 4096.
constexpr unsigned kCrowdStep = 4;
constexpr unsigned kMostCrowd = 12;
constexpr unsigned kFoundPerStep = 64;

}  // namespace

void Polling::found() {
  vain_polls_ = 0;
  if (crowd_ == 0 || ++found_ < kFoundPerStep) return;
  found_ = 0;
  --crowd_;
}

void Polling::in_vain() {
  vain_polls_ = std::min(vain_polls_ + 1, kMostDoublings);
  unpolled_waits_ = 1U << vain_polls_;
}

void Polling::crowded() {
  crowd_ = std::min(crowd_ + kCrowdStep, kMostCrowd);
  found_ = 0;
  unpolled_waits_ = 1U << crowd_;
}

}  // namespace spate::job
