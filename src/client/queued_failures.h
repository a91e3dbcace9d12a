// SPDX-License-Identifier: Apache-2.0
// QueuedFailures: errors of changes that were answered before they have failed.
#pragma once

#include <atomic>
#include <optional>
#include <unordered_map>

#include "base/result.h"
#include "model/ids.h"

namespace spate::client {

/// Keeps the first failure of an object until somebody is told of it. One executor; any() by any thread.
class QueuedFailures {
 public:
  /// Beyond so many a failure is only in the log.
  static constexpr std::size_t kMost = 1000;

  void keep(Handle object, const Error& error) {
    if (failures_.size() < kMost) failures_.emplace(object, error);
    any_.store(!failures_.empty(), std::memory_order_relaxed);
  }
  /// The failure of the object, once.
  std::optional<Error> take(Handle object) {
    const auto found = failures_.find(object);
    if (found == failures_.end()) return std::nullopt;
    Error error = std::move(found->second);
    failures_.erase(found);
    any_.store(!failures_.empty(), std::memory_order_relaxed);
    return error;
  }
  bool any() const { return any_.load(std::memory_order_relaxed); }

 private:
  std::unordered_map<Handle, Error> failures_;
  std::atomic<bool> any_ = false;
};

}  // namespace spate::client
