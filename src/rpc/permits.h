// SPDX-License-Identifier: Apache-2.0
// Permits: bounds the number of calls that a server works on at once. ReleasedPermit: returns a call's permit while the
// call only waits for others.
#pragma once

#include <cstddef>

#include "base/check.h"
#include "base/unique_function.h"
#include "rpc/call.h"

namespace spate::rpc {

/// One per server. One executor. Outlives the calls.
class Permits {
 public:
  /// `most`: calls worked on at once. `most_aside`: calls that may wait without a permit.
  Permits(std::size_t most, std::size_t most_aside) : most_(most), most_aside_(most_aside) {}
  Permits(const Permits&) = delete;
  Permits& operator=(const Permits&) = delete;

  bool free() const { return taken_ < most_; }
  /// Takes a permit even when none is free: for calls that must not wait, and for a call that comes back from
  /// ReleasedPermit.
  void take() { ++taken_; }
  void give_back() {
    SPATE_CHECK(taken_ > 0);
    --taken_;
    if (freed_) freed_();
  }
  /// Called after each give_back().
  void on_freed(UniqueFunction<void()> freed) { freed_ = std::move(freed); }

 private:
  friend class ReleasedPermit;
  const std::size_t most_;
  const std::size_t most_aside_;
  std::size_t taken_ = 0;
  std::size_t aside_ = 0;
  UniqueFunction<void()> freed_;
};

/// While it lives, its call takes no permit. A handler uses it while it waits, without a bound on the time, for another
/// server or another client, so that other calls can run. Lives on the handler's frame; must not be nested.
class ReleasedPermit {
 public:
  explicit ReleasedPermit(const Call& call) : permits_(call.permits) {
    if (permits_ == nullptr) return;
    if (permits_->aside_ >= permits_->most_aside_) {
      permits_ = nullptr;  // too many calls wait aside already: this one keeps its permit, which bounds their memory
      return;
    }
    ++permits_->aside_;
    permits_->give_back();
  }
  ReleasedPermit(const ReleasedPermit&) = delete;
  ReleasedPermit& operator=(const ReleasedPermit&) = delete;
  ~ReleasedPermit() {
    if (permits_ == nullptr) return;
    --permits_->aside_;
    permits_->take();
  }

 private:
  Permits* permits_;
};

}  // namespace spate::rpc
