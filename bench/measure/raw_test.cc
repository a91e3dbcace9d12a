// SPDX-License-Identifier: Apache-2.0
// Checks that the raw probes move the right data.
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/expect.h"
#include "base/expect_bytes.h"
#include "measure/cpu.h"
#include "measure/raw_stream.h"

namespace spate::measure {
namespace {

constexpr std::uint64_t kPiece = 64 * 1024;

Result<RawPeers> two_peers(std::uint64_t file_bytes) {
  RawPeersOptions options;
  options.peers = 2;
  options.folder = "/tmp";
  options.file_bytes = file_bytes;
  return RawPeers::start(options);
}

StreamPlan plan_of(StreamPlan::Direction direction) {
  StreamPlan plan;
  plan.direction = direction;
  plan.total_bytes = 8 * kPiece;
  plan.request_bytes = kPiece;
  plan.in_flight = 3;
  return plan;
}

TEST(RawStream, ReadsTheWrittenData) {
  auto peers = two_peers(0);
  ASSERT_OK(peers);
  Buffer memory(8 * kPiece);
  for (std::size_t i = 0; i < memory.size(); ++i) memory.data()[i] = static_cast<std::byte>(i / kPiece + i);
  const Bytes expected = to_bytes(std::as_const(memory).view());
  StreamPlan plan = plan_of(StreamPlan::Direction::kWrite);
  plan.in_flight = 8;  // one buffer for each request, so that each must have its own data
  ASSERT_OK(run_stream(*peers, plan, memory.view()));
  std::memset(memory.data(), 0, memory.size());
  plan.direction = StreamPlan::Direction::kRead;
  ASSERT_OK(run_stream(*peers, plan, memory.view()));
  EXPECT_BYTES(memory.view(), expected);
}

TEST(RawStream, BuffersTakeTurns) {
  auto peers = two_peers(4 * kPiece);
  ASSERT_OK(peers);
  Buffer memory(3 * kPiece);
  EXPECT_OK(run_stream(*peers, plan_of(StreamPlan::Direction::kRead), memory.view()));
  EXPECT_BYTES(memory.view(), Bytes(memory.size(), std::byte{0x5a}));
  Buffer small(kPiece);
  EXPECT_ERRC(run_stream(*peers, plan_of(StreamPlan::Direction::kRead), small.view()), Errc::kInvalidArgument);
}

TEST(RawStream, APeerWithTooFewBytesIsAnError) {
  auto peers = two_peers(kPiece);
  ASSERT_OK(peers);
  Buffer memory(3 * kPiece);
  // The error depends on which side notices first.
  EXPECT_NE(run_stream(*peers, plan_of(StreamPlan::Direction::kRead), memory.view()).code(), Errc::kOk);
}

TEST(RawRate, EachRequestIsAnswered) {
  auto peers = two_peers(16 * 4096);
  ASSERT_OK(peers);
  RatePlan plan;
  plan.requests = 100;
  plan.reply_bytes = 4096;
  auto rate = run_requests(*peers, plan);
  ASSERT_OK(rate);
  EXPECT_EQ(rate->latency_us.size(), 100U);
  plan.op = RawRequest::Op::kRead;
  plan.file_bytes = 16 * 4096;
  plan.in_flight = 8;
  rate = run_requests(*peers, plan);
  ASSERT_OK(rate);
  EXPECT_GT(rate->seconds, 0);
}

TEST(Cpu, TimeOfAProcessGrows) {
  const auto before = cpu_seconds(::getpid());
  ASSERT_OK(before);
  volatile std::uint64_t work = 0;
  const auto grown = [&] { return *cpu_seconds(::getpid()) > *before; };
  // The kernel counts in ticks, and the machine may be busy with other programs.
  for (std::uint64_t i = 0; i < 20'000'000'000 && (i % 1'000'000 != 0 || !grown()); ++i) work = work + 1;
  EXPECT_TRUE(grown());
  EXPECT_ERRC(cpu_seconds(0x7fffff), Errc::kNotFound);
}

}  // namespace
}  // namespace spate::measure
