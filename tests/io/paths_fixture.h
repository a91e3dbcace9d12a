// SPDX-License-Identifier: Apache-2.0
// PathsTest: reads and writes of one datafile by any path, and the counters of each path.
#pragma once

#include "base/expect.h"
#include "tests/io/client.h"

namespace spate::io::testing {

inline constexpr std::uint64_t kStreamBytes = 200'000;

/// The file has one slot, on target 0, so that faults there affect it.
class PathsTest : public ::testing::Test {
 protected:
  explicit PathsTest(WorldOptions options = {}) : world_(std::move(options)) {}

  Result<wire::WriteReply> write(std::uint64_t offset, const Bytes& data, bool in_request = false,
                                 wire::DataPath path = wire::DataPath::kAutomatic) {
    wire::WriteRequest request = write_request(where_, *datatype::Description::contiguous(offset, data.size()));
    request.has_inline_data = in_request;
    request.path = path;
    std::vector<Bytes> streams{data};
    return world_.run(client_.write(request, streams, client_.capability(kFile)));
  }
  Result<ReadOutcome> read(std::uint64_t offset, std::uint64_t size, wire::DataPath path,
                           std::uint32_t inline_limit = 0) {
    wire::ReadRequest request = read_request(where_, *datatype::Description::contiguous(offset, size));
    request.path = path;
    request.inline_limit = inline_limit;
    return world_.run(client_.read(request, client_.capability(kFile)));
  }
  std::uint64_t moved(flow::Lane lane, flow::Direction direction) {
    return world_.io().counters().bytes(lane, direction);
  }
  std::uint64_t copied(flow::Lane lane, flow::Direction direction) {
    return world_.io().counters().copied(lane, direction);
  }

  World world_;
  Client client_{world_};
  wire::SlotSet where_ = slot_set(kFile, 1, 1 << 20);
};

/// A run that is worth a request to the device, and so many single bytes in blocks of their own that their blocks
/// exceed a buffer.
inline constexpr std::uint64_t kRun = 8192;
inline constexpr std::uint64_t kSinglePieces = 600;

inline datatype::Description run_and_single_bytes() {
  std::vector<Extent> pieces{{0, kRun}};
  for (std::uint64_t i = 0; i < kSinglePieces; ++i) pieces.push_back({(16 + i) * 4096 + i, 1});
  return *datatype::Description::list(pieces);
}

inline Bytes run_and_single_bytes_of(const Bytes& all) {
  Bytes expected(all.begin(), all.begin() + kRun);
  for (std::uint64_t i = 0; i < kSinglePieces; ++i) expected.push_back(all[(16 + i) * 4096 + i]);
  return expected;
}

}  // namespace spate::io::testing
