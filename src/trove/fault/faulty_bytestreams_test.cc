// SPDX-License-Identifier: Apache-2.0
#include "trove/fault/faulty_bytestreams.h"

#include "base/expect.h"
#include "trove/sim/sim_bytestreams.h"

namespace spate::trove {
namespace {

constexpr DatafileId kFile{Handle(1), 0};
using Kind = BytestreamFault::Kind;

class FaultyBytestreamsTest : public testing::Test {
 protected:
  BytestreamCompletion run(BytestreamOp op, Bytes& memory) {
    const std::vector<Extent> extents{{0, memory.size()}};
    const std::vector<MutableByteView> pieces{memory};
    BytestreamRequest request;
    request.op = op;
    request.id = kFile;
    request.extents = extents;
    request.memory = pieces;
    std::array<BytestreamCompletion, 1> done;
    if (!store.post(request, this, done[0])) {
      while (store.test(done) == 0) clock.set(std::min(store.next_event_time(), disk.next_event_time()));
    }
    EXPECT_EQ(done[0].user, this);
    return std::move(done[0]);
  }
  Errc write(int value) {
    Bytes data(100, static_cast<std::byte>(value));
    return run(BytestreamOp::kWrite, data).status;
  }
  std::byte stored() {
    Bytes out(100);
    EXPECT_EQ(run(BytestreamOp::kRead, out).bytes, 100U);
    return out[0];
  }
  void plan(Kind kind, BytestreamOp op, std::uint64_t nth) {
    BytestreamFault fault;
    fault.kind = kind;
    fault.op = op;
    fault.nth = nth;
    fault.bytes = 10;
    fault.delay = std::chrono::seconds(3);
    store.add(fault);
  }

  ManualClock clock;
  SeededRandom random{1};
  SimDisk disk{clock, random, 0};
  FaultyBytestreams store{std::make_unique<SimBytestreams>(disk), {}, clock};
};

TEST_F(FaultyBytestreamsTest, FailsOnlyTheNthOperationOfItsKind) {
  plan(Kind::kFail, BytestreamOp::kWrite, 2);
  EXPECT_EQ(write(1), Errc::kOk);
  EXPECT_EQ(stored(), std::byte{1});
  EXPECT_EQ(write(2), Errc::kIoError);
  EXPECT_EQ(stored(), std::byte{1});
  EXPECT_EQ(write(3), Errc::kOk);
  EXPECT_EQ(store.fired(), 1U);
  EXPECT_EQ(store.posted(BytestreamOp::kWrite), 3U);
}

TEST_F(FaultyBytestreamsTest, FailAfterHasItsEffect) {
  for (const std::uint32_t immediate : {0U, 1000U}) {
    SimDiskModel model;
    model.immediate_per_mille = immediate;
    disk.set_model(model);
    plan(Kind::kFailAfter, BytestreamOp::kWrite, 1);
    EXPECT_EQ(write(static_cast<int>(immediate % 255)), Errc::kIoError);
    EXPECT_EQ(stored(), static_cast<std::byte>(immediate % 255));
  }
}

TEST_F(FaultyBytestreamsTest, ShortReadTouchesNothingBehind) {
  write(5);
  plan(Kind::kShortRead, BytestreamOp::kRead, 1);
  Bytes out(100);
  const BytestreamCompletion done = run(BytestreamOp::kRead, out);
  EXPECT_EQ(done.status, Errc::kOk);
  EXPECT_EQ(done.bytes, 10U);
  EXPECT_EQ(out[9], std::byte{5});
  EXPECT_EQ(out[10], std::byte{0});
}

TEST_F(FaultyBytestreamsTest, DelayHoldsTheCompletionBack) {
  for (const std::uint32_t immediate : {0U, 1000U}) {
    SimDiskModel model;
    model.immediate_per_mille = immediate;
    disk.set_model(model);
    plan(Kind::kDelay, BytestreamOp::kWrite, 1);
    const MonoTime before = clock.now();
    EXPECT_EQ(write(6), Errc::kOk);
    EXPECT_GE(clock.now() - before, std::chrono::seconds(3));
    EXPECT_EQ(store.next_event_time(), MonoTime::never());
  }
}

}  // namespace
}  // namespace spate::trove
