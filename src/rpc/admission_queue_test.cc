// SPDX-License-Identifier: Apache-2.0
#include "rpc/admission_queue.h"

#include "base/expect.h"

namespace spate::rpc {
namespace {

Arrived request(std::uint64_t peer, std::uint64_t tag, std::size_t bytes) {
  Arrived made;
  made.message.peer = bmi::Address(peer);
  made.message.tag = bmi::Tag(tag);
  made.message.payload = Buffer(bytes);
  return made;
}

bool put(AdmissionQueue& queue, std::uint64_t peer, std::uint64_t tag, std::size_t bytes) {
  Arrived one = request(peer, tag, bytes);
  return queue.put(one);
}

TEST(AdmissionQueueTest, RequestsLeaveInTheOrderOfArrival) {
  AdmissionQueue queue(10'000, 10'000);
  for (const std::uint64_t tag : {1U, 2U, 3U}) EXPECT_TRUE(put(queue, 2 - tag % 2, tag, 10)) << "request " << tag;
  for (const std::uint64_t tag : {1U, 2U, 3U}) EXPECT_EQ(queue.take().message.tag, bmi::Tag(tag));
  EXPECT_TRUE(queue.empty()) << "all three were taken";
}

TEST(AdmissionQueueTest, OnePeerTakesOnlyItsShare) {
  AdmissionQueue queue(10'000, 1000);
  EXPECT_TRUE(put(queue, 1, 1, 600)) << "the queue is empty";
  EXPECT_FALSE(put(queue, 1, 2, 600)) << "peer 1 has 600 of its 1000 bytes";
  EXPECT_TRUE(put(queue, 2, 3, 600)) << "peer 2 has a share of its own";
  queue.take();
  EXPECT_TRUE(put(queue, 1, 4, 600)) << "the request of peer 1 was taken";
}

TEST(AdmissionQueueTest, HoldsNoMoreThanItsBound) {
  AdmissionQueue queue(1000, 1000);
  EXPECT_TRUE(put(queue, 1, 1, 600)) << "the queue is empty";
  Arrived refused = request(2, 2, 600);
  EXPECT_FALSE(queue.put(refused)) << "600 of 1000 bytes are in use";
  EXPECT_EQ(refused.message.payload.size(), 600U) << "a request that was refused is the caller's still";
  queue.take();
  EXPECT_TRUE(queue.put(refused)) << "the other request was taken";
}

}  // namespace
}  // namespace spate::rpc
