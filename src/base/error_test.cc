// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <set>

#include "base/result.h"

namespace spate {
namespace {

TEST(Error, EveryKnownNumberHasItsOwnNameAndUnknownNumbersBecomeUnknown) {
  std::set<std::string_view> names;
  int known = 0;
  for (unsigned value = 0; value < 300; ++value) {
    const Errc code = errc_from_wire(static_cast<std::uint16_t>(value));
    if (static_cast<unsigned>(code) != value) {
      EXPECT_EQ(code, Errc::kUnknown) << value;
      continue;
    }
    ++known;
    EXPECT_TRUE(names.insert(name(code)).second) << name(code);
    EXPECT_FALSE(describe(code).empty());
  }
  EXPECT_EQ(known, 55);
}

TEST(Error, MessageReadsOutsideIn) {
  Error e = errno_error(ENOSPC, "write /data/7");
  EXPECT_EQ(e.code(), Errc::kNoSpace);
  Error outer = std::move(e).within("server 3");
  EXPECT_EQ(outer.message(), "server 3: write /data/7: no space left on device");
}

TEST(Error, TheSystemsOwnWordsAreKeptWhereTheCodeSaysLess) {
  EXPECT_EQ(errno_error(ECONNRESET, "read").message(), "read (Connection reset by peer): connection lost");
  EXPECT_EQ(errno_error(EADDRINUSE, "bind").code(), Errc::kBusy);
}

Result<int> half(int v) {
  if (v % 2 != 0) return Errc::kInvalidArgument;
  return v / 2;
}
Result<int> quarter(int v) {
  SPATE_TRY(const int h, half(v));
  SPATE_TRY(const int q, half(h));
  return q;
}
Result<void> check_quarter(int v) {
  SPATE_TRY(std::ignore, quarter(v));
  return {};
}

TEST(Result, TryReturnsTheErrorOrBindsTheValue) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_EQ(quarter(6).code(), Errc::kInvalidArgument);
  EXPECT_TRUE(check_quarter(4).has_value());
  EXPECT_EQ(check_quarter(1).code(), Errc::kInvalidArgument);
}

}  // namespace
}  // namespace spate
