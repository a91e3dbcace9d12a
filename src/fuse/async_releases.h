// SPDX-License-Identifier: Apache-2.0
// AsyncReleases: files that programs have closed and whose close is still in flight to the servers.
#pragma once

#ifndef FUSE_USE_VERSION
#define FUSE_USE_VERSION 314
#endif
#include <fuse_lowlevel.h>

#include <chrono>
#include <list>
#include <memory>
#include <mutex>

#include "client/blocking.h"

namespace spate::fuse {

/// The kernel waits for no answer to a release, so no worker has to wait either: the next thread that drives the
/// client's executor continues the close. Thread-safe. drain() must have returned before the driver is destroyed.
class AsyncReleases {
 public:
  /// The most releases in flight. The kernel itself holds back more than a dozen unanswered ones.
  static constexpr std::size_t kMost = 64;

  explicit AsyncReleases(client::Driver& driver) : driver_(driver) {}
  AsyncReleases(const AsyncReleases&) = delete;
  AsyncReleases& operator=(const AsyncReleases&) = delete;

  /// Begins `make()`, a function that returns a Task<Unit>. False: too many are in flight, and `make` was not called.
  template <typename Make>
  bool begin(Make make) {
    if (under_way() >= kMost) return false;
    auto started = driver_.start(std::move(make));  // may run tasks of other calls, too
    const std::lock_guard lock(mutex_);
    under_way_.push_back(std::move(started));
    return true;
  }
  /// Waits until none is in flight. False: some still were at `limit`. Nobody may begin one during the call, and some
  /// thread must drive the executor.
  bool drain(std::chrono::steady_clock::time_point limit);
  std::size_t under_way();

 private:
  void forget_done();

  client::Driver& driver_;
  std::mutex mutex_;
  std::list<std::unique_ptr<client::Driver::Started>> under_way_;  // guarded by mutex_
};

}  // namespace spate::fuse
