// SPDX-License-Identifier: Apache-2.0
// Task<T>: the one coroutine type of Spate. docs/architecture.md, "Coroutines", lists the constructs that are safe in
// it.
#pragma once

#include <coroutine>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/check.h"

namespace spate::job {

template <typename T>
class Task;

namespace detail {

/// State that Task<T> and Task<void> share: the awaiting coroutine, and whether the child has ended.
class PromiseBase {
 public:
  std::suspend_always initial_suspend() noexcept { return {}; }

  /// A child that ends while its parent is still starting it must not resume the parent: the parent has not suspended
  /// and goes on by itself. So the stack stays flat however many children end at once, with every compiler and
  /// sanitizer. Symmetric transfer does not guarantee that.
  struct FinalAwaiter {
    bool await_ready() noexcept { return false; }
    template <typename Promise>
    void await_suspend(std::coroutine_handle<Promise> self) noexcept {
      PromiseBase& promise = self.promise();
      if (promise.starting_) {
        promise.starting_ = false;
        return;
      }
      if (promise.continuation_) promise.continuation_.resume();  // may destroy *self*: touch nothing after
    }
    void await_resume() noexcept {}
  };
  FinalAwaiter final_suspend() noexcept { return {}; }
  void unhandled_exception() noexcept { std::terminate(); }  // exceptions cross no folder, and so no frame

  /// Runs the child until it suspends or ends; true when it has ended.
  template <typename Promise>
  static bool start(std::coroutine_handle<Promise> child, std::coroutine_handle<> parent) {
    PromiseBase& promise = child.promise();
    promise.continuation_ = parent;
    promise.starting_ = true;
    child.resume();
    if (child.done()) return true;
    promise.starting_ = false;
    return false;
  }

 private:
  std::coroutine_handle<> continuation_;
  bool starting_ = false;
};

template <typename T>
class Promise final : public PromiseBase {
 public:
  Task<T> get_return_object();
  template <typename U = T>
  void return_value(U&& value) {
    value_.emplace(std::forward<U>(value));
  }
  T take() {
    SPATE_CHECK(value_.has_value());
    return *std::move(value_);
  }

 private:
  std::optional<T> value_;
};

template <>
class Promise<void> final : public PromiseBase {
 public:
  Task<void> get_return_object();
  void return_void() {}
  void take() {}
};

}  // namespace detail

/// A lazy coroutine: runs when it is awaited (once, by one awaiter), on the awaiter's executor. Move-only; destroying
/// a task that was never awaited is fine, destroying one that is suspended is a bug of its owner: cancel it by its
/// StopToken and let it end.
template <typename T>
class [[nodiscard]] Task {
 public:
  using promise_type = detail::Promise<T>;
  using Value = T;

  explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Task& operator=(Task&& other) noexcept {
    if (this != &other) {
      if (handle_) handle_.destroy();
      handle_ = std::exchange(other.handle_, {});
    }
    return *this;
  }
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  ~Task() {
    if (handle_) handle_.destroy();
  }

  auto operator co_await() && {
    struct Awaiter {
      std::coroutine_handle<promise_type> child;
      bool await_ready() { return false; }
      bool await_suspend(std::coroutine_handle<> parent) { return !detail::PromiseBase::start(child, parent); }
      T await_resume() { return child.promise().take(); }
    };
    return Awaiter{handle_};
  }

 private:
  std::coroutine_handle<promise_type> handle_;
};

namespace detail {

template <typename T>
Task<T> Promise<T>::get_return_object() {
  return Task<T>(std::coroutine_handle<Promise<T>>::from_promise(*this));
}
inline Task<void> Promise<void>::get_return_object() {
  return Task<void>(std::coroutine_handle<Promise<void>>::from_promise(*this));
}

}  // namespace detail

}  // namespace spate::job
