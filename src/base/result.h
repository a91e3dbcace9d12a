// SPDX-License-Identifier: Apache-2.0
// Result<T>: a value or an Error, with the interface of std::expected; and the two TRY macros.
#pragma once

#include <type_traits>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/error.h"

namespace spate {

/// The value of a Result<void>; lets SPATE_TRY treat all results alike.
struct Unit {};

/// A value of type T, or the Error that stood in its way. A moved-from Result keeps its alternative.
/// Reading the alternative that is not there is a bug and ends the process (SPATE_CHECK).
template <typename T>
class [[nodiscard]] Result {
 public:
  using Value = T;

  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)
  Result(Errc code) : state_(std::in_place_index<1>, code) {}                // NOLINT(google-explicit-constructor)

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  T& value() & { return get(); }
  const T& value() const& { return const_cast<Result*>(this)->get(); }
  T&& value() && { return std::move(get()); }
  T& operator*() & { return get(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(get()); }
  T* operator->() { return &get(); }
  const T* operator->() const { return &value(); }

  const Error& error() const& {
    SPATE_CHECK(!has_value());
    return *std::get_if<1>(&state_);
  }
  Error&& error() && {
    SPATE_CHECK(!has_value());
    return std::move(*std::get_if<1>(&state_));
  }
  /// kOk for a value, else the error's code.
  Errc code() const { return has_value() ? Errc::kOk : std::get_if<1>(&state_)->code(); }

  template <typename U>
  T value_or(U&& fallback) && {
    return has_value() ? std::move(get()) : static_cast<T>(std::forward<U>(fallback));
  }

 private:
  T& get() {
    SPATE_CHECK(has_value());
    return *std::get_if<0>(&state_);
  }

  std::variant<T, Error> state_;
};

/// Success, or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  using Value = void;

  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)
  Result(Errc code) : error_(code) {}                // NOLINT(google-explicit-constructor)

  bool has_value() const { return error_.code() == Errc::kOk; }
  explicit operator bool() const { return has_value(); }
  Unit value() const {
    SPATE_CHECK(has_value());
    return {};
  }
  Unit operator*() const { return value(); }
  const Error& error() const& { return error_; }
  Error&& error() && { return std::move(error_); }
  Errc code() const { return error_.code(); }

 private:
  Error error_{Errc::kOk};
};

}  // namespace spate

#define SPATE_CONCAT_INNER(a, b) a##b
#define SPATE_CONCAT(a, b) SPATE_CONCAT_INNER(a, b)
#define SPATE_TRY_WITH(ret, tmp, lhs, ...)          \
  auto tmp = (__VA_ARGS__);                         \
  if (!tmp.has_value()) ret std::move(tmp).error(); \
  lhs = *std::move(tmp)

/// `SPATE_TRY(auto x, f());` binds the value or returns the error. Two statements: never the body of an if without
/// braces. For a Result<void>: `SPATE_TRY(std::ignore, f());`.
#define SPATE_TRY(lhs, ...) SPATE_TRY_WITH(return, SPATE_CONCAT(spate_try_, __COUNTER__), lhs, __VA_ARGS__)

/// The same in a coroutine: `SPATE_CO_TRY(auto x, co_await f(y));`. What is awaited is a call on names only (house
/// rule).
#define SPATE_CO_TRY(lhs, ...) SPATE_TRY_WITH(co_return, SPATE_CONCAT(spate_try_, __COUNTER__), lhs, __VA_ARGS__)
