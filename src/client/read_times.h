// SPDX-License-Identifier: Apache-2.0
// ReadTimes: when the opens of a client have read, until their closes tell the meta server.
#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <unordered_map>

#include "base/clock.h"
#include "base/result.h"
#include "wire/meta_messages.h"

namespace spate::client {

/// An atime that is set wins over earlier reads, although their closes come later. One executor, except any(). Not
/// movable.
class ReadTimes {
 public:
  /// The last read of one open that sets atime. ReadTimes outlives it. Not movable.
  class Open {
   public:
    Open(ReadTimes& all, Handle file) : all_(all), file_(file) {}
    Open(const Open&) = delete;
    Open& operator=(const Open&) = delete;
    ~Open() { all_.remove(*this); }
    void note(WallTime at) {
      if (!at_) all_.add(*this);
      at_ = at;
    }
    std::optional<WallTime> at() const { return at_; }

   private:
    friend class ReadTimes;
    ReadTimes& all_;
    const Handle file_;
    std::optional<WallTime> at_;
  };

  ReadTimes() = default;
  ReadTimes(const ReadTimes&) = delete;
  ReadTimes& operator=(const ReadTimes&) = delete;

  /// The file's atime is set: closes of its opens do not report what was read before.
  void forget(Handle file) {
    const auto [begin, end] = opens_.equal_range(file);
    for (auto at = begin; at != end; ++at) at->second->at_.reset();
    opens_.erase(begin, end);
    size_ = opens_.size();
  }
  /// The same, if the request has set atime. Returns its answer.
  Result<Attributes> answered(const wire::SetattrRequest& request, Result<Attributes> answer) {
    if (answer && (request.atime || request.atime_now)) forget(answer->handle);
    return answer;
  }
  /// Whether any open has read. Thread-safe.
  bool any() const { return size_.load(std::memory_order_acquire) > 0; }

 private:
  void add(Open& open) {
    opens_.emplace(open.file_, &open);
    size_ = opens_.size();
  }
  void remove(const Open& open) {
    if (!open.at_) return;
    const auto [begin, end] = opens_.equal_range(open.file_);
    for (auto at = begin; at != end; ++at) {
      if (at->second != &open) continue;
      opens_.erase(at);
      break;
    }
    size_ = opens_.size();
  }

  std::unordered_multimap<Handle, Open*> opens_;
  std::atomic<std::size_t> size_ = 0;
};

}  // namespace spate::client
