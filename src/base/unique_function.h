// SPDX-License-Identifier: Apache-2.0
// UniqueFunction: a callable that owns move-only captures (std::move_only_function is not in C++20).
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include "base/check.h"

namespace spate {

template <typename Signature>
class UniqueFunction;

/// Move-only. Calling an empty one is a bug.
template <typename R, typename... Args>
class UniqueFunction<R(Args...)> {
 public:
  UniqueFunction() = default;

  template <typename F>
    requires(!std::is_same_v<std::decay_t<F>, UniqueFunction> && std::is_invocable_r_v<R, F&, Args...>)
  UniqueFunction(F f) : callable_(std::make_unique<Model<F>>(std::move(f))) {}  // NOLINT(google-explicit-constructor)

  R operator()(Args... args) {
    SPATE_CHECK(callable_ != nullptr);
    return callable_->call(std::forward<Args>(args)...);
  }
  explicit operator bool() const { return callable_ != nullptr; }

 private:
  struct Callable {
    virtual ~Callable() = default;
    virtual R call(Args... args) = 0;
  };
  template <typename F>
  struct Model final : Callable {
    explicit Model(F f) : f_(std::move(f)) {}
    R call(Args... args) override { return f_(std::forward<Args>(args)...); }
    F f_;
  };
  std::unique_ptr<Callable> callable_;
};

}  // namespace spate
