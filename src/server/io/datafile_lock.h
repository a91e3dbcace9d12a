// SPDX-License-Identifier: Apache-2.0
// DatafileLock: writes of a datafile at once, but none together with its truncate or removal, and none through the page
// cache together with one past it.
#pragma once

#include <coroutine>
#include <cstdint>
#include <utility>

#include "base/result.h"
#include "job/executor.h"
#include "job/stop.h"

namespace spate::io {

/// Cached and direct ones each go together with their like. (The page cache is kept in folios of many pages: one that
/// is being changed cannot be given up for what is written past it, and would later stand for it.) First come, first
/// served: who comes after one that waits waits behind it. Nothing is allocated. One executor; pinned; outlives its
/// holds.
class DatafileLock {
 public:
  explicit DatafileLock(job::Executor& executor) : executor_(executor) {}
  DatafileLock(const DatafileLock&) = delete;
  DatafileLock& operator=(const DatafileLock&) = delete;
  ~DatafileLock() { SPATE_CHECK(idle()); }

  /// kShared: writes and punches through the page cache; kDirect: writes past it; kExclusive: alone.
  enum class Mode : std::uint8_t { kShared, kDirect, kExclusive };

  /// Move-only; lets go when it dies.
  class Hold {
   public:
    Hold() = default;
    explicit Hold(DatafileLock& lock) : lock_(&lock) {}
    Hold(Hold&& other) noexcept : lock_(std::exchange(other.lock_, nullptr)) {}
    Hold& operator=(Hold&& other) noexcept {
      std::swap(lock_, other.lock_);
      return *this;
    }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    ~Hold() {
      if (lock_ != nullptr) lock_->let_go();
    }

   private:
    DatafileLock* lock_ = nullptr;
  };

  /// Yield a Result<Hold>: the token's reason when stopped first.
  auto shared(job::StopToken stop) { return Awaiter(*this, Mode::kShared, stop); }
  auto direct(job::StopToken stop) { return Awaiter(*this, Mode::kDirect, stop); }
  auto exclusive(job::StopToken stop) { return Awaiter(*this, Mode::kExclusive, stop); }
  auto take(Mode mode, job::StopToken stop) { return Awaiter(*this, mode, stop); }
  bool idle() const { return holders_ == 0 && first_ == nullptr; }

 private:
  class Awaiter {
   public:
    Awaiter(DatafileLock& lock, Mode mode, job::StopToken stop) : lock_(lock), mode_(mode), stop_(stop) {}
    bool await_ready() {
      if (stop_.stopped()) return true;
      granted_ = lock_.first_ == nullptr && lock_.try_take(mode_);
      return granted_;
    }
    void await_suspend(std::coroutine_handle<> handle);
    Result<Hold> await_resume() {
      if (!granted_) return stop_.reason();
      return Hold(lock_);
    }

   private:
    friend class DatafileLock;
    void unlink();
    void give_up();
    DatafileLock& lock_;
    const Mode mode_;
    job::StopToken stop_;
    job::StopCallback on_stop_;
    std::coroutine_handle<> handle_;
    Awaiter* next_ = nullptr;
    Awaiter* previous_ = nullptr;
    bool granted_ = false;
  };

  bool try_take(Mode mode);
  void let_go();
  void serve();

  job::Executor& executor_;
  std::size_t holders_ = 0;
  Mode held_ = Mode::kShared;  // while there are holders
  Awaiter* first_ = nullptr;
  Awaiter* last_ = nullptr;
};

}  // namespace spate::io
