// SPDX-License-Identifier: Apache-2.0
#include "fuse/brief_copies.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "base/expect.h"

namespace spate::fuse {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Handle kObject{11};

class BriefCopiesTest : public ::testing::Test {
 protected:
  BriefCopiesTest() {
    std::array<int, 2> ends{-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    device_.reset(ends[0]);
    kernel_.reset(ends[1]);
  }
  /// How often the kernel was told to drop all names.
  int epochs() const {
    constexpr std::int32_t kNewEpoch = 8;
    int count = 0;
    fuse_out_header message{};
    while (::recv(kernel_.get(), &message, sizeof(message), MSG_DONTWAIT) == sizeof(message)) {
      EXPECT_EQ(message.error, kNewEpoch);
      ++count;
    }
    return count;
  }
  /// The objects that the kernel was told to drop, in order.
  std::vector<Handle> told() const {
    std::vector<Handle> objects;
    struct {
      fuse_out_header header;
      fuse_notify_inval_inode_out what;
    } message{};
    while (::recv(kernel_.get(), &message, sizeof(message), MSG_DONTWAIT) == sizeof(message)) {
      EXPECT_EQ(message.header.error, FUSE_NOTIFY_INVAL_INODE);
      EXPECT_LT(message.what.off, 0) << "pages are dropped, too";
      objects.emplace_back(message.what.ino);
    }
    return objects;
  }
  static bool dropped(BriefCopies& copies) {
    const auto done = std::make_shared<std::atomic<bool>>(false);
    if (!copies.when_dropped([done] { *done = true; })) return true;
    const MonoTime limit = SystemClock().now() + seconds(20);
    while (!*done && SystemClock().now() < limit) std::this_thread::sleep_for(milliseconds(1));
    return *done;
  }
  /// A device that refuses messages, as the kernel does those on objects that it does not know.
  static UniqueFd deaf() { return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

  UniqueFd device_, kernel_;
  ManualClock clock_;
};

TEST_F(BriefCopiesTest, WhatMayHaveACopyIsDroppedAtOnce) {
  BriefCopies copies(clock_, false);
  EXPECT_FALSE(copies.begin_attributes(kObject, {})) << "begin() was not called";
  ASSERT_OK(copies.begin(device_.get()));
  EXPECT_TRUE(copies.begin_attributes(kObject, {})) << "there is room for the copy";
  copies.drop_attributes(Handle(12));
  copies.drop_attributes(kObject);
  copies.drop_attributes(kObject);
  EXPECT_EQ(told(), std::vector<Handle>{kObject}) << "others have no copy, and it is dropped once";
  EXPECT_FALSE(copies.when_dropped([] {})) << "the kernel has dropped it";
}

TEST_F(BriefCopiesTest, AnOldCopyHasEndedByItself) {
  BriefCopies copies(clock_, false);
  ASSERT_OK(copies.begin(device_.get()));
  EXPECT_TRUE(copies.begin_attributes(kObject, {})) << "there is room for the copy";
  clock_.advance(milliseconds(900));
  EXPECT_TRUE(copies.begin_attributes(Handle(12), {})) << "there is room for the copy";
  clock_.advance(milliseconds(900));
  copies.drop_attributes(Handle(12));
  EXPECT_EQ(told(), std::vector<Handle>{Handle(12)}) << "an answer may take that long";
  clock_.advance(seconds(2));
  copies.drop_attributes(kObject);
  EXPECT_TRUE(told().empty()) << "the copy ended long ago";
}

TEST_F(BriefCopiesTest, IfTheKernelDoesNotKnowTheObjectAnAnswerOnItsWayIsWaitedFor) {
  BriefCopies copies(clock_, false);
  const UniqueFd device = deaf();
  ASSERT_OK(copies.begin(device.get()));
  EXPECT_TRUE(copies.begin_attributes(kObject, {})) << "there is room for the copy";
  copies.drop_attributes(kObject);
  std::atomic<bool> told = false;
  EXPECT_TRUE(copies.when_dropped([&] { told = true; })) << "the answer may arrive now";
  EXPECT_FALSE(told) << "the answer may arrive now";
  clock_.advance(milliseconds(50));
  EXPECT_TRUE(dropped(copies)) << "the answer has arrived, and the copy has ended";
  copies.end();
  EXPECT_TRUE(told) << "nobody told the first who waited";
}

TEST_F(BriefCopiesTest, TheCopiesOfAnEarlierProcessEndFirst) {
  const SystemClock clock;
  BriefCopies copies(clock, true);
  std::atomic<bool> told = false;
  EXPECT_TRUE(copies.when_dropped([&] { told = true; })) << "the kernel may have copies";
  ASSERT_OK(copies.begin(device_.get()));
  EXPECT_TRUE(dropped(copies)) << "their time is over, and yet it waits";
  copies.end();
  EXPECT_TRUE(told) << "nobody told the first who waited";
}

TEST_F(BriefCopiesTest, AfterTheEndNothingIsCopiedAndNobodyWaits) {
  BriefCopies copies(clock_, false);
  ASSERT_OK(copies.begin(device_.get()));
  copies.end();
  EXPECT_FALSE(copies.begin_attributes(kObject, {})) << "end() was called";
  EXPECT_FALSE(copies.when_dropped([] {})) << "end() was called";
}

TEST_F(BriefCopiesTest, NamesAreDroppedAtTheBeginningAtOnceAndAtTheEnd) {
  BriefCopies copies(clock_, false, true);
  ASSERT_OK(copies.begin(device_.get()));
  EXPECT_EQ(copies.takes_names(), client::Copies::Names::kOfDelegated);
  EXPECT_EQ(epochs(), 1) << "an earlier process may have given names";
  copies.drop_names();
  EXPECT_EQ(epochs(), 1);
  EXPECT_FALSE(copies.when_dropped([] {})) << "the kernel has dropped them";
  copies.end();
  EXPECT_EQ(epochs(), 1) << "the leases end after that";
}

TEST_F(BriefCopiesTest, AKernelThatCannotDropNamesGetsNone) {
  BriefCopies copies(clock_, false, true);
  const UniqueFd device = deaf();
  ASSERT_OK(copies.begin(device.get()));
  EXPECT_EQ(copies.takes_names(), client::Copies::Names::kOfNone);
}

TEST_F(BriefCopiesTest, NamesThatTheKernelHadNoMemoryToDropAreDroppedLater) {
  BriefCopies copies(clock_, false, true);
  ASSERT_OK(copies.begin(device_.get()));
  int messages = 0;
  const fuse_out_header filler{};
  while (::send(device_.get(), &filler, sizeof(filler), MSG_DONTWAIT) > 0)
    ++messages;  // the queue of the socket is full
  const int flags = ::fcntl(device_.get(), F_GETFL);
  ASSERT_EQ(::fcntl(device_.get(), F_SETFL, flags | O_NONBLOCK), 0);
  copies.drop_names();
  std::atomic<bool> told = false;
  ASSERT_TRUE(copies.when_dropped([&] { told = true; })) << "the kernel has taken no message";
  EXPECT_FALSE(told) << "the kernel has taken no message";
  std::array<char, 64> room{};
  EXPECT_GT(messages, 0);
  while (::recv(kernel_.get(), room.data(), room.size(), MSG_DONTWAIT) > 0) continue;
  EXPECT_TRUE(dropped(copies)) << "the kernel takes messages again";
  copies.end();
  EXPECT_TRUE(told) << "nobody told the first who waited";
}

TEST_F(BriefCopiesTest, TheNumberOfCopiesHasABound) {
  BriefCopies copies(clock_, false);
  ASSERT_OK(copies.begin(device_.get()));
  std::uint64_t given = 0;
  while (given < (1U << 20U) && copies.begin_attributes(Handle(100 + given), {})) ++given;
  EXPECT_EQ(given, 1U << 17U);
  clock_.advance(seconds(3));
  EXPECT_TRUE(copies.begin_attributes(kObject, {})) << "the others have ended";
}

}  // namespace
}  // namespace spate::fuse
