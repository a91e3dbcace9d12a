// SPDX-License-Identifier: Apache-2.0
// The module really uses the ring, and has a fallback where it cannot. tests/trove tests the operations themselves.
#include "trove/uring/uring_bytestreams.h"

#include <filesystem>
#include <thread>

#include "base/expect.h"
#include "base/expect_bytes.h"

namespace spate::trove {
namespace {

constexpr TargetIdentity kIdentity{FsId(1), TargetId(1)};

class UringTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(::mkdtemp(root_.data()), nullptr);
    ASSERT_OK(create_target(root_ + "/t", kIdentity));
    target_ = LocalTarget::open(root_ + "/t", kIdentity).value();
    UringOptions options;
    options.local.inline_limit_bytes = 0;
    options.lone_writes_by_threads = false;
    Result<std::unique_ptr<UringBytestreams>> made = UringBytestreams::make(target_, options);
    if (!made) GTEST_SKIP() << made.error().message();
    streams_ = *std::move(made);
  }
  void TearDown() override {
    streams_.reset();
    target_.reset();
    std::filesystem::remove_all(root_);
  }

  BytestreamCompletion run(BytestreamOp op, MutableByteView data) {
    const std::vector<Extent> extents{{0, data.size()}};
    const std::vector<MutableByteView> memory{data};
    BytestreamRequest request;
    request.op = op;
    request.id = {Handle(1), 0};
    request.extents = extents;
    request.memory = memory;
    std::array<BytestreamCompletion, 1> done;
    if (!streams_->post(request, nullptr, done[0])) {
      while (streams_->test(done) == 0) std::this_thread::yield();
    }
    return std::move(done[0]);
  }

  std::string root_ = "/dev/shm/spate-uring-XXXXXX";
  std::shared_ptr<LocalTarget> target_;
  std::unique_ptr<UringBytestreams> streams_;
};

// Only the ring uses registered memory, so the bytes moved from it tell which operations went through the ring.

TEST_F(UringTest, OpenDatafilesGoThroughTheRing) {
  EXPECT_EQ(streams_->describe().rfind("uring(", 0), 0U);
  Buffer data(8192, Buffer::kPageAlignment);
  Buffer back(8192, Buffer::kPageAlignment);
  std::fill(data.view().begin(), data.view().end(), std::byte{3});
  ASSERT_OK(streams_->register_memory(data.view()));
  ASSERT_OK(streams_->register_memory(back.view()));
  EXPECT_EQ(run(BytestreamOp::kWrite, data.view()).registered_bytes, 0U) << "a thread opens the datafile";
  EXPECT_EQ(run(BytestreamOp::kWrite, data.view()).registered_bytes, 8192U);
  EXPECT_EQ(run(BytestreamOp::kRead, back.view()).registered_bytes, 8192U);
  EXPECT_BYTES(back.view(), data.view());
}

TEST_F(UringTest, AnotherThreadCanTakeOverWhenIdle) {
  Buffer data(8192, Buffer::kPageAlignment);
  Buffer back(8192, Buffer::kPageAlignment);
  std::fill(data.view().begin(), data.view().end(), std::byte{3});
  ASSERT_OK(streams_->register_memory(data.view()));
  ASSERT_OK(streams_->register_memory(back.view()));
  run(BytestreamOp::kWrite, data.view());
  EXPECT_EQ(run(BytestreamOp::kWrite, data.view()).registered_bytes, 8192U);
  std::thread([&] {
    EXPECT_EQ(run(BytestreamOp::kRead, back.view()).registered_bytes, 8192U);
    EXPECT_BYTES(back.view(), data.view());
  }).join();
  EXPECT_EQ(run(BytestreamOp::kRead, back.view()).registered_bytes, 8192U);
}

TEST_F(UringTest, RegisteredMemoryIsPassedToTheRingBySlot) {
  Buffer region(1U << 20U, Buffer::kPageAlignment);
  Buffer other(1U << 20U, Buffer::kPageAlignment);
  const MutableByteView part = region.view().subspan(4096, 500'000);
  std::fill(part.begin(), part.end(), std::byte{7});
  run(BytestreamOp::kWrite, part);  // opens it
  EXPECT_EQ(run(BytestreamOp::kWrite, part).registered_bytes, 0U);
  ASSERT_OK(streams_->register_memory(region.view()));
  EXPECT_EQ(run(BytestreamOp::kWrite, part).registered_bytes, part.size());
  std::fill(part.begin(), part.end(), std::byte{0});
  EXPECT_EQ(run(BytestreamOp::kRead, part).registered_bytes, part.size());
  EXPECT_EQ(std::count(part.begin(), part.end(), std::byte{7}), 500'000);
  EXPECT_EQ(run(BytestreamOp::kRead, other.view().first(part.size())).registered_bytes, 0U);
  EXPECT_BYTES(other.view().first(part.size()), part);
  streams_->forget_memory(region.view());
  EXPECT_EQ(run(BytestreamOp::kRead, part).registered_bytes, 0U);
}

TEST_F(UringTest, MemoryStaysRegisteredWhenAnotherThreadTakesOver) {
  Buffer region(64 * 1024, Buffer::kPageAlignment);
  ASSERT_OK(streams_->register_memory(region.view()));
  run(BytestreamOp::kWrite, region.view());
  std::thread([&] { EXPECT_EQ(run(BytestreamOp::kWrite, region.view()).registered_bytes, 64U * 1024); }).join();
}

TEST_F(UringTest, TheNumberOfRegionsIsLimited) {
  Buffer region((Ring::kRegions + 1) * 4096, Buffer::kPageAlignment);
  for (std::size_t i = 0; i < Ring::kRegions; ++i)
    ASSERT_OK(streams_->register_memory(region.view().subspan(i * 4096, 4096)));
  EXPECT_ERRC(streams_->register_memory(region.view().subspan(Ring::kRegions * 4096, 4096)), Errc::kBusy);
  streams_->forget_memory(region.view().subspan(4096, 4096));
  EXPECT_OK(streams_->register_memory(region.view().subspan(Ring::kRegions * 4096, 4096)));
}

TEST_F(UringTest, DestroyedWithWorkInFlight) {
  Bytes data(1U << 20U, std::byte{3});
  run(BytestreamOp::kWrite, data);
  const std::vector<Extent> extents{{0, data.size()}};
  const std::vector<MutableByteView> memory{data};
  BytestreamRequest request;
  request.op = BytestreamOp::kWrite;
  request.id = {Handle(1), 0};
  request.extents = extents;
  request.memory = memory;
  BytestreamCompletion done;
  for (int i = 0; i < 20; ++i) ASSERT_FALSE(streams_->post(request, nullptr, done));
  streams_.reset();
  std::fill(data.begin(), data.end(), std::byte{0});  // must not reach the file any more
  streams_ = UringBytestreams::make(target_, {}).value();
  Bytes back(data.size());
  run(BytestreamOp::kRead, back);
  EXPECT_EQ(back, Bytes(data.size(), std::byte{3}));
}

TEST(Ring, RefusalIsAnError) {
  // The descriptor is not an eventfd: every setup fails at its registration and reports that.
  const Result<std::unique_ptr<Ring>> ring = Ring::make(8, -1);
  EXPECT_ERRC(ring, Errc::kNotSupported);
}

}  // namespace
}  // namespace spate::trove
