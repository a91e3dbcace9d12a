// SPDX-License-Identifier: Apache-2.0
// ReadTimes: when the opens of a client have read, until their closes tell the meta server.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "base/clock.h"
#include "base/result.h"
#include "wire/meta_messages.h"

namespace spate::client {

/// An atime that is set wins over earlier reads, although their closes come later. Thread-safe. Not movable.
class ReadTimes {
  struct All;

 public:
  /// The last read of one open that sets atime. May outlive the ReadTimes, as the File of a client that was killed
  /// does. Thread-safe. Not movable.
  class Open {
   public:
    Open(const ReadTimes& all, Handle file) : all_(all.all_), file_(file) {}
    Open(const Open&) = delete;
    Open& operator=(const Open&) = delete;
    ~Open() {
      const std::lock_guard lock(all_->mutex);
      if (at_) all_->remove(*this);
    }
    void note(WallTime at) {
      const std::lock_guard lock(all_->mutex);
      if (!at_) all_->opens.emplace(file_, this);
      at_ = at;
    }
    std::optional<WallTime> at() const {
      const std::lock_guard lock(all_->mutex);
      return at_;
    }

   private:
    friend class ReadTimes;
    const std::shared_ptr<All> all_;
    const Handle file_;
    std::optional<WallTime> at_;  // guarded by All::mutex, as it is in All::opens
  };

  ReadTimes() = default;
  ReadTimes(const ReadTimes&) = delete;
  ReadTimes& operator=(const ReadTimes&) = delete;

  /// The file's atime is set: closes of its opens do not report what was read before.
  void forget(Handle file) {
    const std::lock_guard lock(all_->mutex);
    const auto [begin, end] = all_->opens.equal_range(file);
    for (auto at = begin; at != end; ++at) at->second->at_.reset();
    all_->opens.erase(begin, end);
  }
  /// The same, if the request has set atime. Returns its answer.
  Result<Attributes> answered(const wire::SetattrRequest& request, Result<Attributes> answer) {
    if (answer && (request.atime || request.atime_now)) forget(answer->handle);
    return answer;
  }
  /// Whether an open of the file has read.
  bool has(Handle file) const {
    const std::lock_guard lock(all_->mutex);
    return all_->opens.contains(file);
  }

 private:
  /// The opens share it with the client, because either may end first.
  struct All {
    std::mutex mutex;
    std::unordered_multimap<Handle, Open*> opens;  // those that have read

    void remove(const Open& open) {
      const auto [begin, end] = opens.equal_range(open.file_);
      for (auto at = begin; at != end; ++at) {
        if (at->second != &open) continue;
        opens.erase(at);
        return;
      }
    }
  };
  const std::shared_ptr<All> all_ = std::make_shared<All>();
};

}  // namespace spate::client
