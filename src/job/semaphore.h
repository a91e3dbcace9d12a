// SPDX-License-Identifier: Apache-2.0
// Semaphore: bounds how much is in flight. Units are an object that releases them when it goes out of scope.
#pragma once

#include <coroutine>
#include <cstddef>
#include <optional>
#include <utility>

#include "base/result.h"
#include "job/wait_list.h"

namespace spate::job {

/// First come, first served. Not thread-safe: one executor. Pinned. It outlives its units, and no coroutine may wait
/// when it is destroyed.
class Semaphore {
 public:
  Semaphore(Executor& executor, std::size_t units) : waiters_(executor), available_(units) {}

  class Units {
   public:
    Units() = default;
    Units(Semaphore& owner, std::size_t n) : owner_(&owner), n_(n) {}
    Units(Units&& other) noexcept : owner_(std::exchange(other.owner_, nullptr)), n_(std::exchange(other.n_, 0)) {}
    Units& operator=(Units&& other) noexcept {
      std::swap(owner_, other.owner_);
      std::swap(n_, other.n_);
      return *this;
    }
    Units(const Units&) = delete;
    Units& operator=(const Units&) = delete;
    ~Units() {
      if (owner_ != nullptr) owner_->give_back(n_);
    }

   private:
    Semaphore* owner_ = nullptr;
    std::size_t n_ = 0;
  };

  /// Waits for `n` units; `n` is at most what the semaphore has in all. If `stop` fires first, it fails with the
  /// token's reason.
  auto acquire(std::size_t n, StopToken stop = {}) { return Awaiter(*this, n, stop); }
  /// The units if they are free now and no other coroutine waits; otherwise nothing.
  std::optional<Units> try_acquire(std::size_t n) {
    if (waiters_.first() != nullptr || available_ < n) return std::nullopt;
    available_ -= n;
    return Units(*this, n);
  }
  std::size_t available() const { return available_; }

 private:
  class Awaiter final : public WaitList::Waiter {
   public:
    Awaiter(Semaphore& owner, std::size_t n, StopToken stop) : Waiter(stop), owner_(owner), n_(n) {}
    bool await_ready() {
      if (stop().stopped()) return true;
      if (owner_.waiters_.first() != nullptr || owner_.available_ < n_) return false;
      owner_.available_ -= n_;
      granted_ = true;
      return true;
    }
    void await_suspend(std::coroutine_handle<> handle) { owner_.waiters_.add(*this, handle); }
    Result<Units> await_resume() {
      if (!granted_) return stop().reason();
      return Units(owner_, n_);
    }

   private:
    friend class Semaphore;
    void gave_up() override { owner_.serve(); }  // the waiters behind this one may fit now

    Semaphore& owner_;
    const std::size_t n_;
    bool granted_ = false;
  };

  void give_back(std::size_t n) {
    available_ += n;
    serve();
  }
  void serve() {
    while (auto* const waiter = static_cast<Awaiter*>(waiters_.first())) {
      if (available_ < waiter->n_) return;
      available_ -= waiter->n_;
      waiter->granted_ = true;
      waiters_.wake_first();
    }
  }

  WaitList waiters_;
  std::size_t available_;
};

}  // namespace spate::job
