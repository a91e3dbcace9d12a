// SPDX-License-Identifier: Apache-2.0
// Tests include this header instead of <gtest/gtest.h>. It has assertions on Result, Error and Errc that say why they
// failed, and it teaches GoogleTest to print these types. For tests only.
//
//   ASSERT_OK(client.open("/a"));                        EXPECT_OK goes on after a failure
//   EXPECT_ERRC(client.open("/b"), Errc::kNotFound);     ASSERT_ERRC ends the test
//
// Each takes a Result, an Error, an Errc, or a std::optional of one of them. An empty optional means that the operation
// has not ended.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <ostream>
#include <string>
#include <type_traits>

#include "base/result.h"

namespace spate {
namespace expect {

/// Whether GoogleTest has words for a T. It would print the bytes of another one.
template <typename T>
constexpr bool has_words() {
  if constexpr (requires { typename T::deleter_type; }) {
    return false;  // GoogleTest prints what a std::unique_ptr points to
  } else if constexpr (requires(std::ostream& out, const T& value) { out << value; }) {
    return true;
  } else if constexpr (requires(std::ostream* out, const T& value) { PrintTo(value, out); }) {
    return true;
  } else if constexpr (requires { typename T::value_type; }) {  // a container, or an optional
    return has_words<typename T::value_type>();
  } else if constexpr (requires {
                         typename T::first_type;
                         typename T::second_type;
                       }) {
    return has_words<std::remove_const_t<typename T::first_type>>() && has_words<typename T::second_type>();
  } else {
    return std::is_enum_v<T>;
  }
}

}  // namespace expect

// GoogleTest finds these by the types that it prints. Each file of a test binary must see them, or the linker may
// choose GoogleTest's own, which print bytes. So all tests include this one header.
inline void PrintTo(Errc code, std::ostream* out) { *out << name(code); }
inline void PrintTo(const Error& error, std::ostream* out) { *out << name(error.code()) << ": " << error.message(); }
template <typename T>
void PrintTo(const Result<T>& result, std::ostream* out) {
  if (!result.has_value()) {
    PrintTo(result.error(), out);
  } else if constexpr (std::is_void_v<T>) {
    *out << "success";
  } else if constexpr (expect::has_words<T>()) {
    *out << ::testing::PrintToString(*result);
  } else {
    *out << "a value";
  }
}

namespace expect {

/// How an operation ended: the code to compare and the words to print. Without a code it has not ended.
struct Outcome {
  std::optional<Errc> code;
  std::string text;
};

inline Outcome outcome_of(Errc code) { return {code, std::string(name(code))}; }
inline Outcome outcome_of(const Error& error) { return {error.code(), ::testing::PrintToString(error)}; }
template <typename T>
Outcome outcome_of(const Result<T>& result) {
  return {result.code(), ::testing::PrintToString(result)};
}
template <typename T>
Outcome outcome_of(const std::optional<T>& ended) {
  return ended ? outcome_of(*ended) : Outcome{std::nullopt, "it has not ended"};
}

inline ::testing::AssertionResult matches(const char* what, const Outcome& outcome, Errc expected) {
  if (outcome.code == expected) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << what << "\n  expected: " << name(expected) << "\n  actual: " << outcome.text;
}

template <typename T>
::testing::AssertionResult is_ok(const char* what, const T& ended) {
  return matches(what, outcome_of(ended), Errc::kOk);
}

template <typename T>
::testing::AssertionResult has_code(const char* what, const char* /*expected_text*/, const T& ended, Errc expected) {
  return matches(what, outcome_of(ended), expected);
}

}  // namespace expect
}  // namespace spate

// Variadic, so that a comma between template arguments or in braces needs no parentheses.
#define EXPECT_OK(...) EXPECT_PRED_FORMAT1(::spate::expect::is_ok, (__VA_ARGS__))
#define ASSERT_OK(...) ASSERT_PRED_FORMAT1(::spate::expect::is_ok, (__VA_ARGS__))
#define EXPECT_ERRC(ended, code) EXPECT_PRED_FORMAT2(::spate::expect::has_code, ended, code)
#define ASSERT_ERRC(ended, code) ASSERT_PRED_FORMAT2(::spate::expect::has_code, ended, code)
