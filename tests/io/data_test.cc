// SPDX-License-Identifier: Apache-2.0
// Reads, writes, punches and truncations of every shape against a model, over the simulated network and over TCP.

#include "base/expect.h"
#include "base/expect_bytes.h"
#include "datatype/measure.h"
#include "tests/io/client.h"
#include "tests/io/model.h"

namespace spate::io::testing {
namespace {

using wire::DataPath;

class DataTest : public ::testing::TestWithParam<bool> {
 protected:
  static WorldOptions options() {
    WorldOptions options;
    options.tcp = GetParam();
    options.fabric.link.jitter = std::chrono::microseconds(200);
    return options;
  }
  void write(const datatype::DescriptionCase& drawn) {
    std::vector<Bytes> streams;
    for (const std::uint64_t size : model_.sizes(drawn.bytes)) streams.push_back(pattern(random_.next(), size));
    wire::WriteRequest request = write_request(where_, drawn.description);
    request.has_inline_data = random_.chance(1, 2);
    request.sync = random_.chance(1, 4);
    const auto reply = world_.run(client_.write(request, streams, client_.capability(kFile)));
    ASSERT_OK(reply);
    model_.write(drawn.bytes, streams);
    check_sizes(reply->datafiles);
  }
  void read(const datatype::DescriptionCase& drawn, DataPath path, bool in_reply) {
    wire::ReadRequest request = read_request(where_, drawn.description);
    request.inline_limit = in_reply ? kMaxInlineBytes : 0;
    request.path = in_reply ? DataPath::kAutomatic : path;
    request.unit_bytes = static_cast<std::uint32_t>(4096 + random_.below(20000));
    const auto outcome = world_.run(client_.read(request, client_.capability(kFile, Rights::kRead)));
    ASSERT_OK(outcome);
    for (std::uint32_t slot = 0; slot < 3; ++slot) {
      const Bytes expected = model_.expected(drawn.bytes, slot);
      ASSERT_EQ(outcome->streams[slot].size(), expected.size());
      ASSERT_BYTES(outcome->streams[slot], expected) << "slot " << slot;
    }
    check_sizes(outcome->reply.datafiles);
  }
  void punch(const datatype::DescriptionCase& drawn) {
    wire::PunchRequest request;
    request.where = where_;
    request.what = drawn.description;
    request.fs_time = WallTime{1'000'000'000'000'000'000};
    const Capability capability = client_.capability(kFile);
    const auto reply = client_.ask<wire::PunchReply>(request, &capability);
    ASSERT_OK(reply);
    model_.punch(drawn.bytes);
    check_sizes(reply->datafiles);
  }
  void truncate() {
    wire::DatafileTruncateRequest request;
    request.handle = kFile;
    request.slots = where_.slots;
    for (std::uint32_t slot = 0; slot < 3; ++slot) request.sizes.push_back(random_.below(30000));
    request.truncate_generation = ++generation_;
    request.fs_time = WallTime{1'000'000'000'000'000'000};
    const auto reply = server_.ask<wire::DatafileTruncateReply>(request);
    ASSERT_OK(reply);
    for (std::uint32_t slot = 0; slot < 3; ++slot) model_.truncate(slot, request.sizes[slot]);
    check_sizes(reply->datafiles);
  }
  void check_sizes(const std::vector<wire::DatafileState>& states) {
    ASSERT_EQ(states.size(), 3U);
    for (std::uint32_t slot = 0; slot < 3; ++slot) EXPECT_EQ(states[slot].size, model_.size(slot)) << "slot " << slot;
  }

  /// Delays storage operations, so that those of several slots and messages overtake each other.
  void slow_down_storage() {
    for (std::size_t target = 0; target < 2; ++target) {
      for (std::uint64_t nth = 1; nth < 400; nth += 1 + random_.below(3)) {
        trove::BytestreamFault late;
        late.nth = nth;
        late.kind = trove::BytestreamFault::Kind::kDelay;
        late.delay = std::chrono::microseconds(random_.below(1000));
        world_.storage(target).add(late);
      }
    }
  }

  World world_{options()};
  Client client_{world_};
  Client server_{world_, {.kind = wire::PeerKind::kServer}};
  wire::SlotSet where_ = slot_set(kFile);
  std::unique_ptr<const Distribution> distribution_ = distribution_of(where_);
  Model model_{*distribution_};
  SeededRandom random_{2024};
  std::uint64_t generation_ = 0;
};

TEST_P(DataTest, RandomOperationsAgreeWithTheModel) {
  const int steps = GetParam() ? 80 : 160;
  if (!GetParam()) slow_down_storage();
  for (int i = 0; i < steps; ++i) {
    SCOPED_TRACE(i);
    const auto drawn = draw(random_);
    const bool disjoint = datatype::check_disjoint(drawn.description).has_value();
    const std::uint64_t dice = random_.below(10);
    if (dice == 0) {
      truncate();
    } else if (dice == 1) {
      punch(drawn);
    } else if (dice < 5 && disjoint) {
      write(drawn);
    } else {
      const DataPath paths[] = {DataPath::kAutomatic, DataPath::kBuffered, DataPath::kCached};
      read(drawn, paths[random_.below(3)], random_.chance(1, 3));
    }
    if (HasFatalFailure()) return;
  }
  EXPECT_EQ(world_.buffers_used(), 0U);
}

TEST_P(DataTest, ALargeStreamOfManyMessages) {
  const auto what = *datatype::Description::contiguous(1000, 3'000'000);
  std::vector<std::uint64_t> bytes;
  datatype::spell_block(1000, 3'000'000, bytes);
  write({what, bytes});
  for (const DataPath path : {DataPath::kBuffered, DataPath::kCached}) read({what, bytes}, path, false);
}

TEST_P(DataTest, ADatafileThatWasNeverWrittenIsEmpty) {
  const auto what = *datatype::Description::contiguous(0, 50000);
  std::vector<std::uint64_t> bytes;
  datatype::spell_block(0, 50000, bytes);
  read({what, bytes}, DataPath::kAutomatic, false);
  read({what, bytes}, DataPath::kBuffered, false);
  read({what, bytes}, DataPath::kAutomatic, true);
  wire::DatafileStatRequest request;
  request.handle = kFile;
  request.slots = where_.slots;
  const auto stat = client_.ask<wire::DatafileStatReply>(request);
  ASSERT_OK(stat);
  for (const auto& state : stat->datafiles) {
    EXPECT_EQ(state.size, 0U);
    EXPECT_EQ(state.change_counter, 0U);
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, DataTest, ::testing::Bool(),
                         [](const auto& which) { return which.param ? "tcp" : "sim"; });

}  // namespace
}  // namespace spate::io::testing
