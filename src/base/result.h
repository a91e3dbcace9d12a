// SPDX-License-Identifier: Apache-2.0
// Result<T>: a value or an Error, with the interface of std::expected; and the two TRY macros.
#pragma once

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace spate {

/// The value of a Result<void>; lets SPATE_TRY treat all results alike.
struct Unit {};

/// A value of type T, or the Error that prevented it. A moved-from Result keeps its alternative. Reading the
/// alternative that is not there is a bug and ends the process (SPATE_CHECK).
template <typename T>
class [[nodiscard]] Result {
 public:
  using Value = T;

  Result(T value) : good_(true), value_(std::move(value)) {}       // NOLINT(google-explicit-constructor)
  Result(Error error) : good_(false), error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)
  Result(Errc code) : good_(false), error_(code) {}                // NOLINT(google-explicit-constructor)
  Result(Result&& other) noexcept(std::is_nothrow_move_constructible_v<T>) : good_(other.good_) {
    take(std::move(other));
  }
  Result(const Result& other)
    requires std::copy_constructible<T>
      : good_(other.good_) {
    take(other);
  }
  Result& operator=(Result&& other) noexcept(std::is_nothrow_move_constructible_v<T>) {
    if (this == &other) return *this;
    drop();
    good_ = other.good_;
    take(std::move(other));
    return *this;
  }
  Result& operator=(const Result& other)
    requires std::copy_constructible<T>
  {
    if (this == &other) return *this;
    Result copy(other);
    return *this = std::move(copy);
  }
  ~Result() { drop(); }

  bool has_value() const { return good_; }
  explicit operator bool() const { return good_; }

  T& value() & { return get(); }
  const T& value() const& { return const_cast<Result*>(this)->get(); }
  T&& value() && { return std::move(get()); }
  T& operator*() & { return get(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(get()); }
  T* operator->() { return &get(); }
  const T* operator->() const { return &value(); }

  const Error& error() const& {
    SPATE_CHECK(!good_);
    return error_;
  }
  Error&& error() && {
    SPATE_CHECK(!good_);
    return std::move(error_);
  }
  /// kOk for a value, else the error's code.
  Errc code() const { return good_ ? Errc::kOk : error_.code(); }

  template <typename U>
  T value_or(U&& fallback) && {
    return good_ ? std::move(value_) : static_cast<T>(std::forward<U>(fallback));
  }

 private:
  T& get() {
    SPATE_CHECK(good_);
    return value_;
  }
  /// Constructs the alternative that `good_` names; neither exists before.
  template <typename Other>
  void take(Other&& other) {
    if (good_) {
      std::construct_at(&value_, std::forward<Other>(other).value_);
    } else {
      std::construct_at(&error_, std::forward<Other>(other).error_);
    }
  }
  void drop() {
    if (good_) {
      std::destroy_at(&value_);
    } else {
      std::destroy_at(&error_);
    }
  }

  // Not a std::variant, which takes several times as long to compile, in each file and for each type.
  bool good_;
  union {
    T value_;
    Error error_;
  };
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

/// The same in a coroutine: `SPATE_CO_TRY(auto x, co_await f(y));`. Await only calls whose arguments are names
/// (docs/architecture.md, "Coroutines").
#define SPATE_CO_TRY(lhs, ...) SPATE_TRY_WITH(co_return, SPATE_CONCAT(spate_try_, __COUNTER__), lhs, __VA_ARGS__)
