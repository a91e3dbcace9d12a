// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

#include <gmock/gmock.h>

#include <cerrno>
#include <memory>
#include <set>
#include <type_traits>
#include <utility>

#include "base/expect.h"
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
    EXPECT_THAT(describe(code), testing::Not(testing::IsEmpty()));
  }
  EXPECT_EQ(known, 56);
}

TEST(Error, MessagePutsTheOuterContextFirst) {
  Error e = errno_error(ENOSPC, "write /data/7");
  EXPECT_ERRC(e, Errc::kNoSpace);
  Error outer = std::move(e).within("server 3");
  EXPECT_EQ(outer.message(), "server 3: write /data/7: no space left on device");
}

TEST(Error, KeepsTheTextOfErrnoIfTheCodeSaysLess) {
  EXPECT_EQ(errno_error(ECONNRESET, "read").message(), "read (Connection reset by peer): connection lost");
  EXPECT_ERRC(errno_error(EADDRINUSE, "bind"), Errc::kBusy);
}

TEST(Error, ACopyHasItsOwnContextAndAMovedFromErrorKeepsItsCode) {
  Error first(Errc::kNotFound, "a name of a file that is longer than what a string holds in place");
  Error copy(first);
  Error moved(std::move(first));
  EXPECT_ERRC(first, Errc::kNotFound);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(first.context(), "");
  EXPECT_EQ(moved.context(), copy.context());
  copy = moved;
  moved = Error(Errc::kBusy);
  EXPECT_EQ(moved.message(), describe(Errc::kBusy));
  Error target(Errc::kBusy, "what it was before");
  Error source(Errc::kExists, "what it is now");
  target = std::move(source);
  EXPECT_EQ(target.context(), "what it is now");
  EXPECT_EQ(source.context(), "") << "a moved-from Error has the other's context";  // NOLINT(bugprone-use-after-move)
  Error& same = copy;
  copy = same;
  copy = std::move(same);
  EXPECT_ERRC(copy, Errc::kNotFound);
  EXPECT_EQ(std::move(copy).within("ls").context(),
            "ls: a name of a file that is longer than what a string holds in place");
  EXPECT_EQ(Error(Errc::kBusy).within("ls").message(), "ls: " + std::string(describe(Errc::kBusy)));
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
  EXPECT_ERRC(quarter(6), Errc::kInvalidArgument);
  EXPECT_OK(check_quarter(4));
  EXPECT_ERRC(check_quarter(1), Errc::kInvalidArgument);
}

/// Counts the objects of its type that exist.
class Counted {
 public:
  explicit Counted(int value) : value_(value) { ++there; }
  Counted(const Counted& other) : value_(other.value_) { ++there; }
  Counted(Counted&& other) noexcept : value_(std::exchange(other.value_, -1)) { ++there; }
  Counted& operator=(const Counted&) = default;
  Counted& operator=(Counted&&) = default;
  ~Counted() { --there; }
  int value() const { return value_; }
  static inline int there = 0;

 private:
  int value_;
};

TEST(Result, ConstructsAndDestroysItsContentOnceHoweverItIsAssigned) {
  const Error error(Errc::kNotFound, "what was looked for, in more letters than a string holds in place");
  {
    Result<Counted> a(Counted(1));
    Result<Counted> b(error);
    EXPECT_EQ(Counted::there, 1);
    b = a;
    EXPECT_EQ(b->value(), 1);
    EXPECT_EQ(Counted::there, 2);
    a = error;
    EXPECT_EQ(a.error().context(), error.context());
    EXPECT_EQ(Counted::there, 1);
    Result<Counted> c(std::move(b));
    EXPECT_EQ(b->value(), -1) << "a moved-from Result keeps its alternative";
    a = std::move(c);
    EXPECT_EQ(a->value(), 1);
    const Result<Counted> copy(a);
    Result<Counted>& same = a;
    a = same;
    a = std::move(same);
    EXPECT_EQ(a->value() + copy->value(), 2);
    b = Result<Counted>(error);
    b = error;
    EXPECT_ERRC(b, Errc::kNotFound);
  }
  EXPECT_EQ(Counted::there, 0);
}

TEST(Result, AResultOfAMoveOnlyTypeCannotBeCopied) {
  static_assert(!std::is_copy_constructible_v<Result<std::unique_ptr<int>>>);
  static_assert(!std::is_copy_assignable_v<Result<std::unique_ptr<int>>>);
  static_assert(std::is_nothrow_move_constructible_v<Result<std::unique_ptr<int>>>);
  Result<std::unique_ptr<int>> a(std::make_unique<int>(3));
  Result<std::unique_ptr<int>> b(Errc::kBusy);
  b = std::move(a);
  EXPECT_EQ(**b, 3);
  const std::unique_ptr<int> taken = *std::move(b);
  EXPECT_EQ(*taken, 3);
}

TEST(ErrorTest, AToldErrorPrintsItsContextAlone) {
  const Error error = Error::told(Errc::kBusy, "port 7400 is taken; choose another with --port");
  EXPECT_EQ(error.message(), "port 7400 is taken; choose another with --port");
  EXPECT_EQ(Error(error).within("server 3").message(), "server 3: port 7400 is taken; choose another with --port");
  Error other = Errc::kNotFound;
  other = error;
  EXPECT_EQ(other.message(), error.message());
  other = Error(Errc::kNotFound, "x");
  EXPECT_EQ(other.message(), "x: no such file or directory");
}

}  // namespace
}  // namespace spate
