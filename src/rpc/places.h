// SPDX-License-Identifier: Apache-2.0
// Places: bounds the number of calls that a server works on at once. ReleasedPlace: returns a call's place while the
// call only waits for others.
#pragma once

#include <cstddef>

#include "base/check.h"
#include "base/unique_function.h"
#include "rpc/call.h"

namespace spate::rpc {

/// One per server. One executor. Outlives the calls.
class Places {
 public:
  /// `most`: calls worked on at once. `most_aside`: calls that may wait without a place.
  Places(std::size_t most, std::size_t most_aside) : most_(most), most_aside_(most_aside) {}
  Places(const Places&) = delete;
  Places& operator=(const Places&) = delete;

  bool free() const { return taken_ < most_; }
  /// Takes a place even when none is free: for calls that must not wait, and for a call that comes back from
  /// ReleasedPlace.
  void take() { ++taken_; }
  void give_back() {
    SPATE_CHECK(taken_ > 0);
    --taken_;
    if (freed_) freed_();
  }
  /// Called after each give_back().
  void on_freed(UniqueFunction<void()> freed) { freed_ = std::move(freed); }

 private:
  friend class ReleasedPlace;
  const std::size_t most_;
  const std::size_t most_aside_;
  std::size_t taken_ = 0;
  std::size_t aside_ = 0;
  UniqueFunction<void()> freed_;
};

/// While it lives, its call takes no place. A handler uses it while it waits, without a bound on the time, for another
/// server or another client, so that other calls can run. Lives on the handler's frame; must not be nested.
class ReleasedPlace {
 public:
  explicit ReleasedPlace(const Call& call) : places_(call.places) {
    if (places_ == nullptr) return;
    if (places_->aside_ >= places_->most_aside_) {
      places_ = nullptr;  // too many calls wait aside already: this one keeps its place, which bounds their memory
      return;
    }
    ++places_->aside_;
    places_->give_back();
  }
  ReleasedPlace(const ReleasedPlace&) = delete;
  ReleasedPlace& operator=(const ReleasedPlace&) = delete;
  ~ReleasedPlace() {
    if (places_ == nullptr) return;
    --places_->aside_;
    places_->take();
  }

 private:
  Places* places_;
};

}  // namespace spate::rpc
