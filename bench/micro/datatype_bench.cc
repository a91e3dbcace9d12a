// SPDX-License-Identifier: Apache-2.0
// The cost of finding a slot's part of a request. items/s counts pieces, bytes/s counts the file bytes of these pieces.
// For comparison, BM_NaiveStrips walks over all strips, as a server without SlotCursor would.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <vector>

#include "datatype/measure.h"
#include "dist/simple_stripe.h"

namespace spate::datatype {
namespace {

constexpr std::uint64_t kRequestBytes = 100ULL << 20U;

Description contiguous() { return *Description::contiguous(12345, kRequestBytes); }

Description strided(std::uint64_t block_bytes, std::uint64_t count) {
  const std::vector<Level> level{{count, 9 * block_bytes}};
  return *Description::strided(0, block_bytes, level);
}

Description list(std::size_t count) {
  std::vector<Extent> pieces;
  for (std::uint64_t i = 0; i < count; ++i) pieces.push_back({i * 10000, 512});
  return *Description::list(pieces);
}

template <typename Batch, typename Next>
void walk(benchmark::State& state, const Description& description, const Distribution& dist, const Next& next) {
  std::vector<Batch> batch;
  std::uint64_t pieces = 0;
  std::uint64_t bytes = 0;
  for (auto _ : state) {
    SlotCursor cursor(description, dist, 1);
    while (!cursor.done()) {
      next(cursor, batch);
      benchmark::DoNotOptimize(batch.data());
      pieces += batch.size();
    }
    bytes += cursor.slot_offset();
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(pieces));
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes));
}

void server_walk(benchmark::State& state, const Description& description, const Distribution& dist) {
  walk<Extent>(state, description, dist, [](SlotCursor& c, std::vector<Extent>& b) { c.next_extents({}, b); });
}
void client_walk(benchmark::State& state, const Description& description, const Distribution& dist) {
  walk<SlotPiece>(state, description, dist, [](SlotCursor& c, std::vector<SlotPiece>& b) { c.next_batch({}, b); });
}

void BM_ContiguousServer(benchmark::State& state) { server_walk(state, contiguous(), SimpleStripe(4, 65536)); }
void BM_ContiguousClient(benchmark::State& state) { client_walk(state, contiguous(), SimpleStripe(4, 65536)); }
void BM_StridedServer(benchmark::State& state) {
  server_walk(state, strided(static_cast<std::uint64_t>(state.range(0)), 1U << 16U), SimpleStripe(4, 65536));
}
void BM_StridedClient(benchmark::State& state) {
  client_walk(state, strided(static_cast<std::uint64_t>(state.range(0)), 1U << 16U), SimpleStripe(4, 65536));
}
void BM_ListServer(benchmark::State& state) { server_walk(state, list(kMaxListPieces), SimpleStripe(4, 65536)); }

void BM_NaiveStrips(benchmark::State& state) {
  const SimpleStripe dist(4, 65536);
  std::vector<Extent> extents;
  for (auto _ : state) {
    extents.clear();
    std::uint64_t at = 12345;
    const std::uint64_t end = at + kRequestBytes;
    while (at < end) {
      const Physical physical = dist.to_physical(at);
      const std::uint64_t size = std::min(dist.contiguous_bytes(at), end - at);
      if (physical.slot == 1) extents.push_back({physical.offset, size});
      at += size;
    }
    benchmark::DoNotOptimize(extents.data());
  }
}

void BM_Cursor(benchmark::State& state) {
  const std::vector<Level> levels{{64, 1U << 20U}, {64, 4096}, {16, 128}};
  const Description description = *Description::strided(0, 64, levels);
  std::int64_t pieces = 0;
  for (auto _ : state) {
    for (Cursor cursor(description); !cursor.done(); cursor.next()) ++pieces;
  }
  state.SetItemsProcessed(pieces);
}

void BM_DecodeList(benchmark::State& state) {
  Bytes bytes;
  Encoder out(bytes);
  encode(out, list(kMaxListPieces));
  for (auto _ : state) {
    Decoder in(bytes);
    benchmark::DoNotOptimize(decode_description(in));
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kMaxListPieces));
}

void BM_ToPhysical(benchmark::State& state) {
  const SimpleStripe stripe(5, 100000);
  const Distribution& dist = stripe;
  std::uint64_t at = 0;
  for (auto _ : state) benchmark::DoNotOptimize(dist.to_physical(at += 4097));
}

BENCHMARK(BM_ContiguousServer);
BENCHMARK(BM_ContiguousClient);
BENCHMARK(BM_NaiveStrips);
BENCHMARK(BM_StridedServer)->Arg(8)->Arg(512)->Arg(65536);
BENCHMARK(BM_StridedClient)->Arg(8)->Arg(512)->Arg(65536);
BENCHMARK(BM_ListServer);
BENCHMARK(BM_Cursor);
BENCHMARK(BM_DecodeList);
BENCHMARK(BM_ToPhysical);

}  // namespace
}  // namespace spate::datatype
