// SPDX-License-Identifier: Apache-2.0
// Assertions on many bytes, which print where they differ instead of all of them. For tests only.
//
//   EXPECT_BYTES(file.read(), expected);          sizes and contents are equal
//   EXPECT_BYTES(ByteView(room).first(3), want);  a part
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/bytes.h"
#include "base/expect.h"

namespace spate::expect {

inline ::testing::AssertionResult same_bytes(const char* what, const char* expected_text, ByteView actual,
                                             ByteView expected) {
  const auto [a, e] = std::ranges::mismatch(actual, expected);
  if (a == actual.end() && e == expected.end()) return ::testing::AssertionSuccess();
  auto failure = ::testing::AssertionFailure() << what << "\n  differs from " << expected_text << "\n";
  if (actual.size() != expected.size()) {
    failure << "  sizes: " << actual.size() << " instead of " << expected.size() << " bytes\n";
  }
  failure << "  first difference: byte " << a - actual.begin();
  if (a != actual.end() && e != expected.end()) {
    failure << " is " << std::to_integer<int>(*a) << " instead of " << std::to_integer<int>(*e);
  }
  return failure;
}

}  // namespace spate::expect

#define EXPECT_BYTES(actual, expected) EXPECT_PRED_FORMAT2(::spate::expect::same_bytes, actual, expected)
#define ASSERT_BYTES(actual, expected) ASSERT_PRED_FORMAT2(::spate::expect::same_bytes, actual, expected)
