// SPDX-License-Identifier: Apache-2.0
// Closes: files that programs have closed, on their way to the servers.
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

/// The kernel waits for no answer to a release, so no worker needs to either: whoever drives the client's executor next
/// carries it on. Thread-safe. Drained before the driver is destroyed.
class AsyncReleases {
 public:
  /// So many at once; the kernel itself holds back more than a dozen unanswered ones.
  static constexpr std::size_t kMost = 64;

  explicit AsyncReleases(client::Driver& driver) : driver_(driver) {}
  AsyncReleases(const AsyncReleases&) = delete;
  AsyncReleases& operator=(const AsyncReleases&) = delete;

  /// Begins `make()`, a function that returns a Task<Unit>. False: too many are under way, and it was not called.
  template <typename Make>
  bool begin(Make make) {
    if (under_way() >= kMost) return false;
    auto started = driver_.start(std::move(make));  // may do other calls' work, too
    const std::lock_guard lock(mutex_);
    under_way_.push_back(std::move(started));
    return true;
  }
  /// Waits until none is under way; false: that took longer than until `limit`. Nobody begins one meanwhile, and some
  /// thread drives the executor.
  bool drain(std::chrono::steady_clock::time_point limit);
  std::size_t under_way();

 private:
  void forget_done();

  client::Driver& driver_;
  std::mutex mutex_;
  std::list<std::unique_ptr<client::Driver::Started>> under_way_;  // guarded by mutex_
};

}  // namespace spate::fuse
