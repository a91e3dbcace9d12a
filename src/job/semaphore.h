// SPDX-License-Identifier: Apache-2.0
// Semaphore: bounds how much is in flight. Units are an object that releases them when it goes out of scope.
#pragma once

#include <coroutine>
#include <cstddef>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/result.h"
#include "job/executor.h"

namespace spate::job {

/// First come, first served. Not thread-safe: one executor. Pinned. It outlives its units, and no coroutine may wait
/// when it is destroyed.
class Semaphore {
 public:
  Semaphore(Executor& executor, std::size_t units) : executor_(executor), available_(units) {}
  Semaphore(const Semaphore&) = delete;
  Semaphore& operator=(const Semaphore&) = delete;
  ~Semaphore() { SPATE_CHECK(first_ == nullptr); }

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
    if (first_ != nullptr || available_ < n) return std::nullopt;
    available_ -= n;
    return Units(*this, n);
  }
  std::size_t available() const { return available_; }

 private:
  class Awaiter {
   public:
    Awaiter(Semaphore& owner, std::size_t n, StopToken stop) : owner_(owner), n_(n), stop_(stop) {}
    bool await_ready() {
      if (stop_.stopped()) return true;
      if (owner_.first_ != nullptr || owner_.available_ < n_) return false;
      owner_.available_ -= n_;
      granted_ = true;
      return true;
    }
    void await_suspend(std::coroutine_handle<> handle) {
      handle_ = handle;
      (owner_.last_ != nullptr ? owner_.last_->next_ : owner_.first_) = this;
      previous_ = owner_.last_;
      owner_.last_ = this;
      on_stop_.arm(stop_, [](void* self) { static_cast<Awaiter*>(self)->give_up(); }, this);
    }
    Result<Units> await_resume() {
      if (!granted_) return stop_.reason();
      return Units(owner_, n_);
    }

   private:
    friend class Semaphore;
    void unlink() {
      (previous_ != nullptr ? previous_->next_ : owner_.first_) = next_;
      (next_ != nullptr ? next_->previous_ : owner_.last_) = previous_;
    }
    void give_up() {
      unlink();
      owner_.executor_.schedule(handle_);
      owner_.serve();  // the waiters behind this one may fit now
    }
    Semaphore& owner_;
    std::size_t n_;
    StopToken stop_;
    StopCallback on_stop_;
    std::coroutine_handle<> handle_;
    Awaiter* next_ = nullptr;
    Awaiter* previous_ = nullptr;
    bool granted_ = false;
  };

  void give_back(std::size_t n) {
    available_ += n;
    serve();
  }
  void serve() {
    while (first_ != nullptr && available_ >= first_->n_) {
      Awaiter* waiter = first_;
      waiter->unlink();
      waiter->on_stop_.disarm();
      waiter->granted_ = true;
      available_ -= waiter->n_;
      executor_.schedule(waiter->handle_);
    }
  }

  Executor& executor_;
  std::size_t available_;
  Awaiter* first_ = nullptr;
  Awaiter* last_ = nullptr;
};

}  // namespace spate::job
