// SPDX-License-Identifier: Apache-2.0
#include "fuse/kernel_copies.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <set>
#include <thread>

#include "base/expect.h"

namespace spate::fuse {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::int32_t kNewEpoch = 8;
constexpr Handle kFile{11};

/// The messages that were sent to the kernel.
struct Told {
  std::set<Handle> attributes;
  int epochs = 0;
};

class KernelCopiesTest : public ::testing::Test {
 protected:
  KernelCopiesTest() : memory_(::memfd_create("handover", MFD_CLOEXEC)) {
    std::array<int, 2> ends{-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    device_.reset(ends[0]);
    kernel_.reset(ends[1]);
    next_process();
  }
  void next_process() {
    handover_.reset();
    auto opened = client::HandoverState::open(memory_.get());
    ASSERT_OK(opened);
    handover_ = *std::move(opened);
  }
  /// Reads the messages that were written, or waits for one.
  Told read(bool wait = false) {
    Told told;
    struct {
      fuse_out_header header;
      fuse_notify_inval_inode_out what;
    } message{};
    while (::recv(kernel_.get(), &message, sizeof(message), wait ? 0 : MSG_DONTWAIT) > 0) {
      wait = false;
      EXPECT_EQ(message.header.unique, 0U);
      if (message.header.error == kNewEpoch) {
        EXPECT_EQ(message.header.len, sizeof(message.header));
        ++told.epochs;
      } else {
        EXPECT_EQ(message.header.error, FUSE_NOTIFY_INVAL_INODE);
        EXPECT_EQ(message.header.len, sizeof(message));
        EXPECT_LT(message.what.off, 0);  // no pages
        told.attributes.insert(Handle(message.what.ino));
      }
    }
    return told;
  }
  static MonoTime in(Duration span) { return SystemClock().now() + span; }
  /// Whether everything is dropped within the time `within`.
  bool dropped(KernelCopies& copies, Duration within = seconds(10)) {
    const auto done = std::make_shared<std::atomic<bool>>(false);
    if (!copies.when_dropped([done] { *done = true; })) return true;
    const MonoTime limit = in(within);
    while (!*done && SystemClock().now() < limit) std::this_thread::sleep_for(milliseconds(1));
    return *done;
  }

  UniqueFd memory_, device_, kernel_;
  std::unique_ptr<client::HandoverState> handover_;
};

TEST_F(KernelCopiesTest, TheKernelDropsCopiesBeforeWaitersContinue) {
  KernelCopies copies(*handover_);
  EXPECT_EQ(copies.takes_names(), client::Copies::Names::kOfNone) << "begin() was not called";
  EXPECT_FALSE(copies.begin_attributes(kFile, in(seconds(5)))) << "begin() was not called";
  ASSERT_OK(copies.begin(device_.get()));
  EXPECT_EQ(read().epochs, 1);  // the message by which it learns whether the kernel knows epochs
  EXPECT_EQ(copies.takes_names(), client::Copies::Names::kOfAll) << "the kernel knows epochs";
  EXPECT_TRUE(copies.begin_attributes(kFile, in(seconds(5)))) << "there is room for the copy";
  EXPECT_TRUE(dropped(copies)) << "nothing must be dropped, and yet it waits";
  copies.drop_attributes(kFile);
  copies.drop_attributes(kFile);
  copies.drop_attributes(Handle(12));
  copies.drop_names();
  EXPECT_TRUE(dropped(copies)) << "the kernel took every message, and yet it waits";
  const Told told = read();
  EXPECT_EQ(told.attributes, (std::set<Handle>{kFile, Handle(12)}));
  EXPECT_EQ(told.epochs, 1);
}

TEST_F(KernelCopiesTest, CallersWaitWhileTheKernelIsBusy) {
  KernelCopies copies(*handover_);
  ASSERT_OK(copies.begin(device_.get()));
  read();
  const std::array<char, 1024> full{};
  while (::send(device_.get(), full.data(), full.size(), MSG_DONTWAIT) > 0) {
  }
  copies.drop_names();
  EXPECT_FALSE(dropped(copies, milliseconds(100))) << "the kernel has taken no message";
  for (int i = 0; i < 1000; ++i) copies.drop_names();  // these become one message
  std::array<char, 1024> room{};
  while (::recv(kernel_.get(), room.data(), room.size(), MSG_DONTWAIT) == static_cast<ssize_t>(room.size())) {
  }
  EXPECT_TRUE(dropped(copies)) << "the kernel takes messages again";
  EXPECT_LE(read().epochs, 2);
}

TEST_F(KernelCopiesTest, AKernelWithoutEpochsGetsNoNames) {
  const UniqueFd deaf(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  KernelCopies copies(*handover_);
  ASSERT_OK(copies.begin(deaf.get()));
  EXPECT_EQ(copies.takes_names(), client::Copies::Names::kOfNone) << "the kernel knows no epochs";
  EXPECT_TRUE(copies.begin_attributes(kFile, in(seconds(5)))) << "attributes need no epochs";
  copies.drop_attributes(kFile);
  EXPECT_TRUE(dropped(copies)) << "the mount is gone, and yet it waits";
}

TEST_F(KernelCopiesTest, CopiesFromAnEarlierProcessAreDroppedFirst) {
  {
    KernelCopies copies(*handover_);
    ASSERT_OK(copies.begin(device_.get()));
    EXPECT_TRUE(copies.begin_attributes(kFile, in(seconds(100)))) << "there is room for the copy";
    EXPECT_TRUE(copies.begin_attributes(Handle(12), in(seconds(-1)))) << "there is room for the copy";
  }
  read();
  next_process();
  KernelCopies copies(*handover_);
  EXPECT_FALSE(dropped(copies, milliseconds(50))) << "begin() was not called, so the kernel has its copies still";
  ASSERT_OK(copies.begin(device_.get()));
  EXPECT_TRUE(dropped(copies)) << "the kernel took every message, and yet it waits";
  const Told told = read();
  EXPECT_EQ(told.attributes, std::set<Handle>{kFile});
  EXPECT_EQ(told.epochs, 1);
}

TEST_F(KernelCopiesTest, AtTheEndTheKernelDropsAllCopies) {
  KernelCopies copies(*handover_);
  ASSERT_OK(copies.begin(device_.get()));
  EXPECT_TRUE(copies.begin_attributes(kFile, in(seconds(100)))) << "there is room for the copy";
  EXPECT_TRUE(copies.begin_attributes(Handle(12), in(seconds(-1)))) << "there is room for the copy";
  read();
  copies.end();
  const Told told = read();
  EXPECT_EQ(told.attributes, std::set<Handle>{kFile});
  EXPECT_EQ(told.epochs, 1);
  copies.end();
  EXPECT_EQ(read().epochs, 0);
}

TEST_F(KernelCopiesTest, EndReleasesAllWaiters) {
  next_process();
  KernelCopies copies(*handover_);
  std::atomic<int> told = 0;
  EXPECT_TRUE(copies.when_dropped([&] { ++told; })) << "begin() was not called, so it must wait";
  copies.end();
  EXPECT_EQ(told, 1);
  copies.drop_names();
  EXPECT_FALSE(copies.when_dropped([&] { ++told; })) << "end() was called, so nothing waits";
  EXPECT_FALSE(copies.begin_attributes(kFile, in(seconds(5)))) << "end() was called";
}

}  // namespace
}  // namespace spate::fuse
