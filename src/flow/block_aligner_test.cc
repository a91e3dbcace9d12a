// SPDX-License-Identifier: Apache-2.0
#include "flow/block_aligner.h"

#include <algorithm>

#include "base/expect.h"
#include "base/expect_bytes.h"
#include "base/random.h"

namespace spate::flow {
namespace {

constexpr std::uint32_t kCarryBlock = 512;

struct Outcome {
  Bytes file;
  std::size_t edges = 0;
  std::uint64_t edge_bytes = 0;
};

/// Writes a run of `data` at `offset`, in messages of the given sizes, over a file full of ones.
Outcome write(std::uint64_t offset, const Bytes& data, const std::vector<std::uint64_t>& messages) {
  Outcome outcome;
  outcome.file.assign(offset + data.size() + 2000, std::byte{1});
  const auto put = [&](std::uint64_t at, ByteView bytes) {
    std::copy(bytes.begin(), bytes.end(), outcome.file.begin() + static_cast<std::ptrdiff_t>(at));
  };
  BlockAligner aligner(offset, kCarryBlock);
  std::uint64_t done = 0;
  for (const std::uint64_t size : messages) {
    Bytes buffer(size + kCarryBlock, std::byte{0xEE});
    const std::uint64_t lead = aligner.lead(offset + done);
    std::copy_n(data.begin() + static_cast<std::ptrdiff_t>(done), size,
                buffer.begin() + static_cast<std::ptrdiff_t>(lead));
    const BlockAligner::Blocks blocks = aligner.take(buffer, size);
    EXPECT_EQ(blocks.offset % kCarryBlock, 0U);
    EXPECT_EQ(blocks.data.size() % kCarryBlock, 0U);
    if (!blocks.data.empty())
      EXPECT_EQ(static_cast<std::uint64_t>(blocks.data.data() - buffer.data()) % kCarryBlock, 0U);
    put(blocks.offset, blocks.data);
    done += size;
  }
  for (const Edge& edge : aligner.finish()) {
    put(edge.offset, edge.data);
    ++outcome.edges;
    outcome.edge_bytes += edge.data.size();
  }
  return outcome;
}

TEST(BlockAligner, WritesExactlyTheRunHoweverItIsCutIntoMessages) {
  SeededRandom random(5);
  for (int round = 0; round < 2000; ++round) {
    const std::uint64_t offset = random.below(3) == 0 ? random.below(20) * kCarryBlock : random.below(9000);
    std::vector<std::uint64_t> messages;
    std::uint64_t total = 0;
    for (std::uint64_t n = 1 + random.below(6); n > 0; --n) {
      messages.push_back(1 + random.below(random.chance(1, 2) ? 300 : 4000));
      total += messages.back();
    }
    Bytes data(total);
    for (std::uint64_t i = 0; i < total; ++i) data[i] = static_cast<std::byte>(2 + (i + i / 250) % 250);
    Bytes expected(offset + total + 2000, std::byte{1});
    std::copy(data.begin(), data.end(), expected.begin() + static_cast<std::ptrdiff_t>(offset));
    const Outcome outcome = write(offset, data, messages);
    ASSERT_BYTES(outcome.file, expected) << "round " << round << " offset " << offset;
    EXPECT_LE(outcome.edges, 2U);
    EXPECT_LT(outcome.edge_bytes, 2 * kCarryBlock);
  }
}

TEST(BlockAligner, WholeBlocksHaveNoEdges) {
  const Outcome outcome =
      write(4 * kCarryBlock, Bytes(8 * kCarryBlock, std::byte{7}), {4 * kCarryBlock, 4 * kCarryBlock});
  EXPECT_EQ(outcome.edges, 0U);
}

}  // namespace
}  // namespace spate::flow
