// SPDX-License-Identifier: Apache-2.0
// Clients that lie, stop or vanish get errors, and the server releases all their resources.

#include <gmock/gmock.h>

#include "base/expect.h"
#include "tests/io/client.h"

namespace spate::io::testing {
namespace {

class HostileTest : public ::testing::Test {
 protected:
  explicit HostileTest(WorldOptions options = {}) : world_(std::move(options)) {}

  Errc write(const wire::WriteRequest& request) {
    const Capability capability = client_.capability(kFile);
    return client_.ask<wire::WriteReply>(request, &capability).code();
  }
  Errc read(const wire::ReadRequest& request) {
    const Capability capability = client_.capability(kFile);
    return client_.ask<wire::ReadReply>(request, &capability).code();
  }
  static job::Task<void> keep(job::Task<Result<wire::WriteReply>> task, std::vector<Errc>& codes) {
    auto result = co_await std::move(task);
    codes.push_back(result.code());
  }

  World world_;
  Client client_{world_};
  wire::SlotSet where_ = slot_set(kFile, 1, 1 << 20);
  datatype::Description some_ = *datatype::Description::contiguous(0, 100'000);
};

TEST_F(HostileTest, ImpossibleSlots) {
  const auto refused = [this](const wire::SlotSet& where) {
    wire::ReadRequest request = read_request(where, some_);
    const Errc on_read = read(request);
    wire::WriteRequest write_too = write_request(where, *datatype::Description::contiguous(0, 0));
    write_too.has_inline_data = true;
    EXPECT_EQ(write(write_too), on_read);
    return on_read;
  };
  wire::SlotSet where = where_;
  where.slots.clear();
  EXPECT_EQ(refused(where), Errc::kInvalidArgument);
  where = where_;
  where.slots.push_back(where.slots[0]);  // the same slot twice
  EXPECT_EQ(refused(where), Errc::kInvalidArgument);
  where = where_;
  where.slots[0].slot = 1;  // the file has only one slot
  EXPECT_EQ(refused(where), Errc::kInvalidArgument);
  where = where_;
  where.slots[0].slot = 0xFFFFFFFF;
  EXPECT_EQ(refused(where), Errc::kInvalidArgument);
  where = where_;
  where.slot_count = 0xFFFFFFFF;
  EXPECT_EQ(refused(where), Errc::kInvalidArgument);
  where = where_;
  where.strip_bytes = 0;
  EXPECT_EQ(refused(where), Errc::kInvalidArgument);
  where = where_;
  where.distribution.kind = 77;
  EXPECT_EQ(refused(where), Errc::kNotSupported);
  where = where_;
  where.slots.clear();
  for (std::uint32_t slot = 0; slot < 5000; ++slot) where.slots.push_back({slot, World::target(0)});
  EXPECT_EQ(refused(where), Errc::kInvalidArgument);
}

TEST_F(HostileTest, ImpossibleUnits) {
  for (const std::uint32_t unit : {0U, 1U, 4095U, (8U << 20U) + 1, 0xFFFFFFFFU}) {
    wire::ReadRequest request = read_request(where_, some_);
    request.unit_bytes = unit;
    EXPECT_EQ(read(request), Errc::kInvalidArgument) << unit;
    wire::WriteRequest write_too = write_request(where_, some_);
    write_too.unit_bytes = unit;
    EXPECT_EQ(write(write_too), Errc::kInvalidArgument) << unit;
  }
}

TEST_F(HostileTest, InlineDataOfTheWrongLength) {
  for (const std::uint64_t size : {0U, 99U, 101U}) {
    wire::WriteRequest request = write_request(where_, *datatype::Description::contiguous(0, 100));
    request.has_inline_data = true;
    request.data = pattern(1, size);
    EXPECT_EQ(write(request), Errc::kProtocol) << size;
  }
  wire::WriteRequest request = write_request(where_, some_);
  request.data = pattern(1, 5);  // the header does not announce this data
  EXPECT_EQ(write(request), Errc::kProtocol);
}

TEST_F(HostileTest, AReplyThatCannotHoldTheData) {
  wire::ReadRequest request = read_request(where_, *datatype::Description::contiguous(0, 100'000));
  request.inline_limit = 100'000;
  EXPECT_EQ(read(request), Errc::kInvalidArgument);  // the reply has room for 16 KiB only
  request.inline_limit = 0xFFFFFFFF;
  EXPECT_EQ(read(request), Errc::kInvalidArgument);
}

TEST_F(HostileTest, ChecksumsAreRefusedNotIgnored) {
  wire::ReadRequest request = read_request(where_, some_);
  request.want_checksum = true;
  EXPECT_EQ(read(request), Errc::kNotSupported);
  wire::WriteRequest write_too = write_request(where_, some_);
  write_too.checksum = 7;
  EXPECT_EQ(write(write_too), Errc::kNotSupported);
}

TEST_F(HostileTest, AnUnknownPathIsRefusedEvenIfItIsNotUsed) {
  wire::ReadRequest request = read_request(where_, *datatype::Description::contiguous(0, 100));
  request.path = static_cast<wire::DataPath>(6);
  EXPECT_EQ(read(request), Errc::kInvalidArgument);
  request.inline_limit = 4096;
  EXPECT_EQ(read(request), Errc::kInvalidArgument);
}

TEST_F(HostileTest, AMessageShorterThanAnnounced) {
  Sending cut;
  cut.messages = 3;
  cut.cut_bytes = 1;
  const auto reply =
      world_.run(client_.write(write_request(where_, some_), {pattern(1, 100'000)}, client_.capability(kFile), cut));
  EXPECT_ERRC(reply, Errc::kProtocol);
  EXPECT_EQ(world_.buffers_used(), 0U);
}

// One slot's disk fails while no data comes for the other slot. The answer must not wait for that data.
TEST_F(HostileTest, AFailureOfOneSlotEndsTheOthers) {
  world_.storage(0).add({.op = trove::BytestreamOp::kWrite, .status = Errc::kIoError});
  Sending first_only;
  first_only.messages = 1;
  const wire::WriteRequest request = write_request(slot_set(kFile, 2, 1 << 16), some_);
  const std::uint64_t first_slot = 65536;
  const MonoTime before = world_.clock().now();
  const auto reply = world_.run(client_.write(request, {pattern(1, first_slot), pattern(2, 100'000 - first_slot)},
                                              client_.capability(kFile), first_only));
  EXPECT_ERRC(reply, Errc::kIoError);
  EXPECT_LT(world_.clock().now() - before, std::chrono::seconds(2));
}

TEST_F(HostileTest, AServerThatStopsDoesNotWaitForASlowClient) {
  constexpr std::uint64_t kMuch = 4 << 20;  // more than the network buffers
  const auto what = *datatype::Description::contiguous(0, kMuch);
  wire::WriteRequest write_first = write_request(where_, what);
  write_first.unit_bytes = kMuch;
  ASSERT_OK(world_.run(client_.write(write_first, {pattern(1, kMuch)}, client_.capability(kFile))));
  const auto read_and_forget = [](job::Task<Result<ReadOutcome>> task) -> job::Task<void> {
    std::ignore = co_await std::move(task);
  };
  wire::ReadRequest request = read_request(where_, what);
  request.unit_bytes = kMuch;
  request.path = wire::DataPath::kCached;
  client_.set_deadline(std::chrono::seconds(90));
  world_.spawn(read_and_forget(client_.read(request, client_.capability(kFile))));
  world_.pass(std::chrono::microseconds(45));  // the request has arrived, and its data is on the way
  world_.fabric().links().partition(1, client_.node(), true);
  world_.pass(std::chrono::milliseconds(10));
  EXPECT_EQ(world_.io().counters().bytes(flow::Lane::kCached, flow::Direction::kRead), kMuch);
  const MonoTime before = world_.clock().now();
  world_.restart();
  EXPECT_LT(world_.clock().now() - before, std::chrono::seconds(5));
  world_.fabric().links().partition(1, client_.node(), false);
  world_.pass(std::chrono::seconds(100));
}

TEST_F(HostileTest, AClientThatStopsSendingTimesOut) {
  Sending some;
  some.messages = 2;
  std::vector<Errc> codes;
  world_.spawn(
      keep(client_.write(write_request(where_, some_), {pattern(1, 100'000)}, client_.capability(kFile), some), codes));
  world_.pass(std::chrono::seconds(5));
  EXPECT_GT(world_.buffers_used(), 0U);
  world_.pass(std::chrono::seconds(120));
  EXPECT_EQ(world_.buffers_used(), 0U);
}

TEST_F(HostileTest, AClientThatSendsSlowlyDoesNotHoldUpARemoval) {
  std::vector<Errc> codes;
  Sending some;
  some.messages = 2;
  world_.spawn(
      keep(client_.write(write_request(where_, some_), {pattern(1, 100'000)}, client_.capability(kFile), some), codes));
  world_.pass(std::chrono::seconds(5));
  EXPECT_GT(world_.buffers_used(), 0U);
  Client server(world_, {.kind = wire::PeerKind::kServer});
  wire::DatafileRemoveRequest removal;
  removal.datafiles.push_back({kFile, where_.slots[0]});
  removal.tombstone_until.ns = world_.clock().wall().ns + Duration(std::chrono::hours(2)).count();
  const MonoTime before = world_.clock().now();
  EXPECT_OK(server.ask<wire::DatafileRemoveReply>(removal));
  EXPECT_LT(world_.clock().now() - before, std::chrono::seconds(1));
  world_.pass(std::chrono::seconds(1));
  EXPECT_EQ(codes, std::vector<Errc>({Errc::kStaleHandle}));
  EXPECT_EQ(world_.buffers_used(), 0U);
}

TEST_F(HostileTest, AClientThatVanishesInAWrite) {
  Sending some;
  some.messages = 2;
  client_.set_deadline(std::chrono::seconds(5));
  std::vector<Errc> codes;
  world_.spawn(
      keep(client_.write(write_request(where_, some_), {pattern(1, 100'000)}, client_.capability(kFile), some), codes));
  world_.pass(std::chrono::seconds(1));
  EXPECT_GT(world_.buffers_used(), 0U);
  world_.fabric().kill_node(client_.node());
  world_.pass(std::chrono::seconds(1));
  EXPECT_EQ(world_.buffers_used(), 0U);
  world_.pass(std::chrono::seconds(10));
}

TEST_F(HostileTest, AClientThatVanishesInARead) {
  ASSERT_OK(world_.run(client_.write(write_request(where_, some_), {pattern(1, 100'000)}, client_.capability(kFile))));
  for (const wire::DataPath path : {wire::DataPath::kBuffered, wire::DataPath::kCached}) {
    Client victim(world_, {.client = ClientId(500 + static_cast<std::uint64_t>(path))});
    victim.set_deadline(std::chrono::seconds(5));
    wire::ReadRequest request = read_request(where_, some_);
    request.path = path;
    std::vector<Errc> codes;
    const auto keep_read = [](job::Task<Result<ReadOutcome>> task, std::vector<Errc>& out) -> job::Task<void> {
      auto result = co_await std::move(task);
      out.push_back(result.code());
    };
    world_.spawn(keep_read(victim.read(request, victim.capability(kFile)), codes));
    world_.pass(std::chrono::microseconds(150));
    world_.fabric().kill_node(victim.node());
    world_.pass(std::chrono::seconds(20));
    EXPECT_EQ(codes.size(), 1U);
    EXPECT_EQ(world_.buffers_used(), 0U);
  }
}

/// Requests that name slots without any described block. The walk over each slot examines all blocks and finds no
/// byte.
class EmptySlotsTest : public HostileTest {
 protected:
  static constexpr std::uint64_t kStrip = 65536;
  static constexpr std::uint64_t kBlocks = 65000;

  /// All slots but the last one of a file with `slots` + 1 slots. The last slot holds all blocks.
  static wire::SlotSet all_but_one(std::uint32_t slots) {
    wire::SlotSet where = slot_set(kFile, slots + 1, kStrip);
    where.slots.pop_back();
    return where;
  }
  static datatype::Description in_last_slot(std::uint32_t slots, std::uint64_t blocks) {
    const datatype::Level level{blocks, (slots + 1) * kStrip};
    return *datatype::Description::strided(slots * kStrip, 1, {&level, 1});
  }
  /// The number of turns of the loop that a read of `blocks` blocks takes.
  std::uint64_t turns_of_read(std::uint32_t slots, std::uint64_t blocks, wire::DataPath path) {
    wire::ReadRequest request = read_request(all_but_one(slots), in_last_slot(slots, blocks));
    request.path = path;
    const std::uint64_t before = world_.turns();
    EXPECT_OK(world_.run(client_.read(request, client_.capability(kFile))));
    return world_.turns() - before;
  }
  Errc write_inline(std::uint32_t slots, std::uint64_t blocks) {
    wire::WriteRequest request = write_request(all_but_one(slots), in_last_slot(slots, blocks));
    request.has_inline_data = true;
    return write(request);
  }
};

TEST_F(EmptySlotsTest, OthersRunDuringARead) {
  constexpr std::uint32_t kSlots = 63;
  std::ignore = turns_of_read(kSlots, 2, wire::DataPath::kBuffered);
  for (const wire::DataPath path : {wire::DataPath::kAutomatic, wire::DataPath::kBuffered, wire::DataPath::kCached}) {
    const std::uint64_t with_few_blocks = turns_of_read(kSlots, 2, path);
    EXPECT_GE(turns_of_read(kSlots, kBlocks, path), with_few_blocks + kSlots * kBlocks / 262144)
        << static_cast<int>(path);
  }
}

TEST_F(EmptySlotsTest, OthersRunDuringAWriteWhoseDataCameInTheRequest) {
  constexpr std::uint32_t kSlots = 16;
  ASSERT_EQ(write_inline(kSlots, 2), Errc::kOk);
  std::uint64_t before = world_.turns();
  EXPECT_EQ(write_inline(kSlots, 2), Errc::kOk);
  const std::uint64_t with_few_blocks = world_.turns() - before;
  before = world_.turns();
  EXPECT_EQ(write_inline(kSlots, kBlocks), Errc::kOk);
  EXPECT_GE(world_.turns() - before, with_few_blocks + kSlots * kBlocks / 131072);
}

TEST_F(EmptySlotsTest, DataInTheRequestIsRefusedIfItsPlaceTakesTooLongToFind) {
  EXPECT_EQ(write_inline(17, kBlocks), Errc::kInvalidArgument);
  EXPECT_EQ(write_inline(4095, kBlocks), Errc::kInvalidArgument);
}

class CrowdTest : public HostileTest {
 protected:
  static WorldOptions small_pool() {
    WorldOptions options;
    options.io.buffer_bytes = 16 << 20;
    return options;
  }
  CrowdTest() : HostileTest(small_pool()) {}
};

// Clients send much more data at once than the pool holds. The pool suffices, and every write succeeds.
TEST_F(CrowdTest, ManyHugeWritesKeepWithinThePool) {
  constexpr std::uint64_t kEach = 6 << 20;
  std::vector<std::unique_ptr<Client>> clients;
  std::vector<Errc> codes;
  for (std::uint64_t i = 0; i < 6; ++i) {
    clients.push_back(std::make_unique<Client>(world_, ClientOptions{.client = ClientId(600 + i)}));
    for (std::uint64_t file = 0; file < 4; ++file) {
      const Handle handle(1000 + i * 10 + file);
      wire::WriteRequest request =
          write_request(slot_set(handle, 2, 1 << 20), *datatype::Description::contiguous(0, kEach));
      request.unit_bytes = 1 << 20;
      world_.spawn(keep(clients.back()->write(request, {pattern(1, kEach / 2), pattern(2, kEach / 2)},
                                              clients.back()->capability(handle)),
                        codes));
    }
  }
  std::uint64_t most = 0;
  for (int i = 0; i < 4000 && codes.size() < 24; ++i) {
    world_.pass(std::chrono::microseconds(50));
    most = std::max(most, world_.buffers_used());
  }
  EXPECT_EQ(codes, std::vector<Errc>(24, Errc::kOk));
  EXPECT_LE(most, 16U << 20U);
  EXPECT_GT(most, 12U << 20U);  // the pool was almost full
  EXPECT_EQ(world_.buffers_used(), 0U);
}

// A client that announces writes and sends nothing holds at most half of the pool, so other clients can still write.
TEST_F(CrowdTest, ASilentClientDoesNotBlockOthers) {
  std::vector<Errc> silent;
  Sending nothing;
  nothing.messages = 0;
  for (std::uint64_t file = 0; file < 40; ++file) {
    const Handle handle(1000 + file);
    wire::WriteRequest request =
        write_request(slot_set(handle, 1, 1 << 20), *datatype::Description::contiguous(0, 4 << 20));
    request.unit_bytes = 1 << 20;
    world_.spawn(keep(client_.write(request, {pattern(1, 4 << 20)}, client_.capability(handle), nothing), silent));
  }
  world_.pass(std::chrono::seconds(1));
  EXPECT_EQ(world_.buffers_used(), 8U << 20U);
  Client other(world_, {.client = ClientId(700)});
  wire::WriteRequest request = write_request(where_, *datatype::Description::contiguous(0, 1 << 20));
  request.unit_bytes = 1 << 20;
  EXPECT_OK(world_.run(other.write(request, {pattern(1, 1 << 20)}, other.capability(kFile))));
  EXPECT_THAT(silent, ::testing::IsEmpty());
  world_.pass(std::chrono::seconds(300));
  EXPECT_EQ(world_.buffers_used(), 0U);
}

}  // namespace
}  // namespace spate::io::testing
