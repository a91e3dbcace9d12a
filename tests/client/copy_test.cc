// SPDX-License-Identifier: Apache-2.0
// Copies from file to file, and the location of data and holes, with real io servers.
#include "base/expect.h"
#include "tests/client/client_fixture.h"

namespace spate::client::testing {
namespace {

class ClientCopy : public ClientData {
 protected:
  Bytes contents(File& file) {
    Bytes all(1U << 20U);
    const auto n = executor_.run(file.read(0, all));
    EXPECT_OK(n);
    all.resize(static_cast<std::size_t>(n ? *n : 0));
    return all;
  }
  /// Bytes that all io servers have sent.
  std::uint64_t bytes_read() {
    std::uint64_t sum = 0;
    for (const auto& host : io_) {
      for (const flow::Lane lane : {flow::Lane::kInline, flow::Lane::kBuffered, flow::Lane::kCached})
        sum += host->service->counters().bytes(lane, flow::Direction::kRead);
    }
    return sum;
  }
};

TEST_F(ClientCopy, CopiesBetweenEqualLayoutsAreTheServersWork) {
  auto from = create("from");
  auto to = create("to");
  ASSERT_NE(from, nullptr);
  ASSERT_NE(to, nullptr);
  Bytes model;
  for (int round = 0; round < 60; ++round) {
    const Bytes data = bytes(1 + random_.below(20'000));
    const std::uint64_t at = random_.below(300'000);
    ASSERT_OK(executor_.run(from->write(at, data)));
    const Bytes source = contents(*from);
    CopySpan span{random_.below(300'000), random_.below(300'000), random_.below(100'000)};
    const std::uint64_t stripe = io_.size() * kStrip;
    span.to = span.from % stripe + span.to / stripe * stripe;  // both ranges begin at the same place of a stripe
    const std::uint64_t sent = bytes_read();
    const auto copied = executor_.run(to->copy_from(*from, span));
    ASSERT_OK(copied);
    EXPECT_EQ(bytes_read(), sent);
    const std::uint64_t want =
        span.from < source.size() ? std::min<std::uint64_t>(span.size, source.size() - span.from) : 0;
    ASSERT_EQ(*copied, want);
    if (want > 0 && model.size() < span.to + want) model.resize(span.to + want);
    std::copy_n(source.begin() + static_cast<std::ptrdiff_t>(want > 0 ? span.from : 0), want,
                model.begin() + static_cast<std::ptrdiff_t>(want > 0 ? span.to : 0));
    ASSERT_EQ(contents(*to), model) << round;
  }
  ASSERT_OK(executor_.run(from->close()));
  ASSERT_OK(executor_.run(to->close()));
}

TEST_F(ClientCopy, DataIsNeverCalledAHole) {
  auto file = create("holes");
  ASSERT_NE(file, nullptr);
  for (int round = 0; round < 40; ++round) {
    const std::uint64_t at = random_.below(400'000);
    if (random_.chance(2, 3)) {
      ASSERT_OK(executor_.run(file->write(at, bytes(1 + random_.below(9'000)))));
    } else {
      ASSERT_OK(executor_.run(file->punch(at, 1 + random_.below(60'000))));
    }
    const Bytes all = contents(*file);
    const auto map = executor_.run(file->data_map(0, 256));
    ASSERT_OK(map);
    ASSERT_EQ(map->file_size(), all.size());
    ASSERT_GE(map->known_to(), all.size());
    for (std::uint64_t i = 0; i < all.size();) {
      const std::uint64_t data = map->next_data(i);
      for (; i < data; ++i) ASSERT_EQ(all[i], std::byte{0}) << i;
      i = map->next_hole(data);
      if (data != all.size()) ASSERT_GT(i, data);
    }
  }
  ASSERT_OK(executor_.run(file->close()));
}

}  // namespace
}  // namespace spate::client::testing
