// SPDX-License-Identifier: Apache-2.0
// DatafileLock: writes of a datafile at once, but none together with its truncate or removal.
#pragma once

#include <coroutine>
#include <utility>

#include "base/result.h"
#include "job/executor.h"
#include "job/stop.h"

namespace spate::io {

/// First come, first served: who comes after a waiting exclusive one waits behind it. Nothing is allocated. One
/// executor; pinned; outlives its holds.
class DatafileLock {
 public:
  explicit DatafileLock(job::Executor& executor) : executor_(executor) {}
  DatafileLock(const DatafileLock&) = delete;
  DatafileLock& operator=(const DatafileLock&) = delete;
  ~DatafileLock() { SPATE_CHECK(idle()); }

  /// Move-only; lets go when it dies.
  class Hold {
   public:
    Hold() = default;
    Hold(DatafileLock& lock, bool exclusive) : lock_(&lock), exclusive_(exclusive) {}
    Hold(Hold&& other) noexcept : lock_(std::exchange(other.lock_, nullptr)), exclusive_(other.exclusive_) {}
    Hold& operator=(Hold&& other) noexcept {
      std::swap(lock_, other.lock_);
      std::swap(exclusive_, other.exclusive_);
      return *this;
    }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    ~Hold() {
      if (lock_ != nullptr) lock_->let_go(exclusive_);
    }

   private:
    DatafileLock* lock_ = nullptr;
    bool exclusive_ = false;
  };

  /// Yield a Result<Hold>: the token's reason when stopped first.
  auto shared(job::StopToken stop) { return Awaiter(*this, false, stop); }
  auto exclusive(job::StopToken stop) { return Awaiter(*this, true, stop); }
  bool idle() const { return sharers_ == 0 && !taken_ && first_ == nullptr; }

 private:
  class Awaiter {
   public:
    Awaiter(DatafileLock& lock, bool exclusive, job::StopToken stop)
        : lock_(lock), exclusive_(exclusive), stop_(stop) {}
    bool await_ready() {
      if (stop_.stopped()) return true;
      granted_ = lock_.first_ == nullptr && lock_.try_take(exclusive_);
      return granted_;
    }
    void await_suspend(std::coroutine_handle<> handle);
    Result<Hold> await_resume() {
      if (!granted_) return stop_.reason();
      return Hold(lock_, exclusive_);
    }

   private:
    friend class DatafileLock;
    void unlink();
    void give_up();
    DatafileLock& lock_;
    const bool exclusive_;
    job::StopToken stop_;
    job::StopCallback on_stop_;
    std::coroutine_handle<> handle_;
    Awaiter* next_ = nullptr;
    Awaiter* previous_ = nullptr;
    bool granted_ = false;
  };

  bool try_take(bool exclusive);
  void let_go(bool exclusive);
  void serve();

  job::Executor& executor_;
  std::size_t sharers_ = 0;
  bool taken_ = false;
  Awaiter* first_ = nullptr;
  Awaiter* last_ = nullptr;
};

}  // namespace spate::io
