// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "trove/bytestream_harness.h"

namespace spate::trove {

Bytes pattern(std::uint64_t seed, std::size_t size) {
  Bytes out(size);
  for (std::size_t i = 0; i < size; ++i) {
    const std::uint64_t word = (seed + 1) * 0x9E3779B97F4A7C15ULL + (i / 8) * 0xBF58476D1CE4E5B9ULL;
    out[i] = static_cast<std::byte>((word ^ (word >> 29U)) >> (8 * (i % 8)));
  }
  return out;
}

void BytestreamTest::SetUp() {
  std::string skip;
  backend_ = make_backend(GetParam(), skip);
  if (backend_ == nullptr) GTEST_SKIP() << skip;
}

void BytestreamTest::TearDown() {
  if (backend_ != nullptr) wait_all();
}

OwnedRequest& BytestreamTest::post(BytestreamOp op, DatafileId id, std::vector<Extent> extents,
                                   std::vector<MutableByteView> memory) {
  OwnedRequest request;
  request.request.op = op;
  request.request.id = id;
  request.extents = std::move(extents);
  request.memory = std::move(memory);
  return post_request(std::move(request));
}

OwnedRequest& BytestreamTest::post_request(OwnedRequest posted) {
  requests_.push_back(std::move(posted));
  OwnedRequest& owned = requests_.back();
  now.ns += 1000;
  owned.request.now = now;
  // The spans refer to copies that are gone after the post, since a post must copy what it needs.
  std::vector<Extent> extents = owned.extents;
  std::vector<MutableByteView> memory = owned.memory;
  owned.request.extents = extents;
  owned.request.memory = memory;
  owned.ended = streams().post(owned.request, &owned, owned.done);
  if (!owned.ended) ++in_flight_;
  std::fill(extents.begin(), extents.end(), Extent{1U << 30U, 77});
  std::fill(memory.begin(), memory.end(), MutableByteView{});
  if (owned.ended) EXPECT_EQ(owned.done.user, &owned);
  return owned;
}

bool BytestreamTest::collect() {
  std::array<BytestreamCompletion, 3> some;
  const std::size_t n = streams().test(some);
  for (std::size_t i = 0; i < n; ++i) {
    auto& owned = *static_cast<OwnedRequest*>(some[i].user);
    EXPECT_FALSE(owned.ended) << "completed twice";
    owned.ended = true;
    owned.done = std::move(some[i]);
    --in_flight_;
  }
  return n > 0;
}

const BytestreamCompletion& BytestreamTest::wait(OwnedRequest& request) {
  while (!request.ended) {
    if (!collect()) backend_->idle();
  }
  return request.done;
}

void BytestreamTest::wait_all() {
  while (in_flight_ > 0) {
    if (!collect()) backend_->idle();
  }
  requests_.clear();
}

BytestreamCompletion BytestreamTest::run(BytestreamOp op, DatafileId id, std::vector<Extent> extents) {
  return wait(post(op, id, std::move(extents)));
}

BytestreamCompletion BytestreamTest::write(DatafileId id, std::uint64_t offset, ByteView data) {
  Bytes copy = to_bytes(data);
  return wait(post(BytestreamOp::kWrite, id, {{offset, copy.size()}}, {copy}));
}

Bytes BytestreamTest::read(DatafileId id, std::uint64_t offset, std::size_t size) {
  Bytes out(size, std::byte{0xEE});
  const BytestreamCompletion done = wait(post(BytestreamOp::kRead, id, {{offset, size}}, {out}));
  EXPECT_EQ(done.status, Errc::kOk);
  EXPECT_LE(done.bytes, size);
  for (std::size_t i = done.bytes; i < size; ++i) {
    if (out[i] != std::byte{0xEE}) {
      ADD_FAILURE() << "memory after a short read was touched at " << i;
      break;
    }
  }
  out.resize(done.bytes);
  return out;
}

BytestreamCompletion BytestreamTest::truncate(DatafileId id, std::uint64_t size) {
  OwnedRequest request;
  request.request.op = BytestreamOp::kTruncate;
  request.request.id = id;
  request.request.size = size;
  return wait(post_request(std::move(request)));
}

BytestreamStat BytestreamTest::stat(DatafileId id) {
  const BytestreamCompletion done = run(BytestreamOp::kStat, id);
  EXPECT_EQ(done.status, Errc::kOk);
  return done.stat;
}

}  // namespace spate::trove
