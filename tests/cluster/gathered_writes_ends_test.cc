// SPDX-License-Identifier: Apache-2.0
// Gathered writes that cannot be sent, whose session ends, or whose process is killed; and the plants.
#include <sys/mman.h>

#include "tests/cluster/gathered_writes_fixture.h"
#include "tests/cluster/memory_copy.h"

namespace spate::cluster {
namespace {

using bmi::sim::Death;
using client::path_from_root;
using std::chrono::milliseconds;
using std::chrono::seconds;

WorldOptions gathering_with(Plant plant) {
  WorldOptions options;
  options.plant = plant;
  return options;
}

TEST_F(GatheredWritesTest, AFailureIsReportedByTheNextWriteAndTheNextSync) {
  const auto file = create();
  ASSERT_OK(gather(*file, 0, 60000));
  EXPECT_TRUE(unsent(*file)) << "it was not gathered";
  for (const ServerId id : world_.servers()) {
    if (id != kMetaServer) world_.fabric().links().partition(id.value, a_->node(), true);
  }
  world_.run_for(seconds(20));  // the deadline of the client's operations is over
  EXPECT_FALSE(unsent(*file)) << "its deadline is over";
  for (const ServerId id : world_.servers()) {
    if (id != kMetaServer) world_.fabric().links().partition(id.value, a_->node(), false);
  }
  EXPECT_FALSE(gather(*file, 60000, 100).has_value()) << "the next write";
  EXPECT_OK(gather(*file, 60000, 100)) << "the write after it";
  EXPECT_FALSE(run(*a_, file->sync()).has_value()) << "the next fsync";
  EXPECT_OK(run(*a_, file->sync())) << "the fsync after it";
  EXPECT_OK(run(*a_, file->close()));
}

TEST_F(GatheredWritesTest, AFailureIsReportedByTheClose) {
  const auto file = create();
  ASSERT_OK(gather(*file, 0, 60000));
  for (const ServerId id : world_.servers()) {
    if (id != kMetaServer) world_.fabric().links().partition(id.value, a_->node(), true);
  }
  world_.run_for(seconds(20));
  for (const ServerId id : world_.servers()) {
    if (id != kMetaServer) world_.fabric().links().partition(id.value, a_->node(), false);
  }
  EXPECT_FALSE(run(*a_, file->close()).has_value());
}

/// A child process that begins another program closes the descriptors that it has inherited, and does not look.
TEST_F(GatheredWritesTest, ACloseOfACopyOfTheDescriptorTakesNoErrorFromTheOthers) {
  const auto file = create();
  ASSERT_OK(gather(*file, 0, 60000));
  for (const ServerId id : world_.servers()) {
    if (id != kMetaServer) world_.fabric().links().partition(id.value, a_->node(), true);
  }
  world_.run_for(seconds(20));
  for (const ServerId id : world_.servers()) {
    if (id != kMetaServer) world_.fabric().links().partition(id.value, a_->node(), false);
  }
  EXPECT_FALSE(file->check_lost().has_value()) << "the close of a copy";
  EXPECT_FALSE(gather(*file, 60000, 100).has_value()) << "the next write";
  EXPECT_FALSE(file->check_lost().has_value()) << "the close of another copy";
  EXPECT_FALSE(run(*a_, file->sync()).has_value()) << "the next fsync";
  EXPECT_OK(file->check_lost()) << "a close after the fsync";
  EXPECT_OK(run(*a_, file->close()));
}

/// While the io servers are away, others wait; after the session has ended, its writes are refused, and reported.
TEST_F(GatheredWritesTest, AfterAFenceNothingIsSent) {
  const auto file = create();
  ASSERT_OK(gather(*file, 0, 4096));
  EXPECT_TRUE(unsent(*file)) << "it was not gathered";
  for (const ServerId id : world_.servers()) world_.fabric().links().partition(id.value, a_->node(), true);
  const MonoTime cut_off = world_.now();
  auto other = open(*b_, kReadWrite);
  for (int tries = 0; !other && tries < 10; ++tries) other = open(*b_, kReadWrite);
  ASSERT_OK(other);
  EXPECT_LT(world_.now() - cut_off, world_.settings().session_lease + seconds(2))
      << "the end of the session waited for itself";
  const Bytes newer(5000, std::byte{3});
  ASSERT_OK(run(*b_, (*other)->write(0, newer)));
  for (const ServerId id : world_.servers()) world_.fabric().links().partition(id.value, a_->node(), false);
  world_.run_for(seconds(20));
  EXPECT_BYTES(read(*b_, **other, 10000), newer);
  EXPECT_FALSE(run(*a_, file->sync()).has_value()) << "a write is lost";
  ASSERT_OK(run(*b_, (*other)->close()));
  std::ignore = run(*a_, file->close());
}

TEST_F(GatheredWritesTest, ARestartOfTheMetaServerEndsTheGathering) {
  const auto file = create();
  ASSERT_OK(gather(*file, 0, 4096));
  world_.kill_server(kMetaServer, Death::kProcess);
  world_.start_server(kMetaServer);
  auto other = open(*b_, kReadWrite);
  ASSERT_OK(other);
  EXPECT_BYTES(read(*b_, **other, 10000), pattern(0, 4096));
  ASSERT_OK(gather(*file, 4096, 4096));
  EXPECT_BYTES(read(*b_, **other, 10000), pattern(0, 8192));
  ASSERT_OK(run(*b_, (*other)->close()));
  ASSERT_OK(run(*a_, file->close()));
}

/// A killed process leaves the memory of gathered writes, and the record of its open, to the next one.
TEST_F(GatheredWritesTest, AKilledProcessLosesNothing) {
  const UniqueFd state(::memfd_create("state", MFD_CLOEXEC));
  const UniqueFd bytes(::memfd_create("bytes", MFD_CLOEXEC));
  client::HandoverState* const handover = start_mount(state.get(), bytes.get());
  make_ready();
  auto file = create();
  client::HandoverState::Open* const record = handover->opens().take();
  record->handle = file->handle();
  record->open_flags = kReadWrite;
  file->keep_in(*record);
  handover->opens().publish(*record);
  for (std::uint64_t i = 0; i < 10; ++i) ASSERT_OK(gather(*file, i * 4096, 4096));
  EXPECT_TRUE(unsent(*file)) << "they were not gathered";
  const UniqueFd next_state = memory_copy(state.get());
  const UniqueFd next_bytes = memory_copy(bytes.get());
  world_.kill_client(*a_, Death::kProcess);
  file.reset();

  client::HandoverState* const next_handover = start_mount(next_state.get(), next_bytes.get());
  client::GatherMemory* const next_memory = memories_.back().get();
  a_->client().session().resume();
  const auto opening = begin_call(*b_, b_->client().open(path_from_root("f"), wire::kOpenRead));
  world_.run_for(milliseconds(300));
  EXPECT_FALSE(opening->has_value()) << "another client opens it before the next process has sent the writes";
  ASSERT_EQ(next_memory->inherited().size(), 1U);
  std::vector<client::HandoverState::Open*> records;
  next_handover->opens().for_each([&](client::HandoverState::Open& open) { records.push_back(&open); });
  ASSERT_EQ(records.size(), 1U);
  auto again = run(*a_, a_->client().open_again(*records.front()));
  ASSERT_OK(again);
  run_void(*a_, (*again)->take_over(*next_memory->inherited().front()));
  a_->client().cluster().gathered().taken_over();
  const auto other = end_call(world_, opening);
  ASSERT_OK(other);
  EXPECT_BYTES(read(*b_, **other, 100000), pattern(0, 10 * 4096));
  EXPECT_EQ(next_memory->used(), 0U);
  EXPECT_OK(run(*a_, (*again)->sync()));
  ASSERT_OK(run(*b_, (*other)->close()));
  ASSERT_OK(run(*a_, (*again)->close()));
}

/// Opens the file at `other` while `file` gathers. Whether it sees what was written.
bool sees_all(Plant plant, bool after_recall) {
  const auto memory = memory_of(-1);
  World world(gathering_with(plant));
  client::Options options = small_client_options({}, {}, {});
  options.keep_attributes = true;
  ClientProcess& other = world.start_client(options);
  options.gather = memory.get();
  ClientProcess& mount = world.start_client(options);
  std::ignore = call(world, mount, mount.client().stat(path_from_root("f")));
  std::ignore = mount.client().cluster().gathered().has_room();
  world.run_for(milliseconds(20));
  const auto file = *call(world, mount, mount.client().create(path_from_root("f"), kReadWrite, {}));
  const auto gather = [&](std::uint64_t offset) {
    const Bytes bytes = pattern(offset, 512);
    SPATE_CHECK(call(world, mount, file->gathering()->write(offset, bytes)).has_value());
  };
  gather(0);
  // The data needs longer to the servers than the recall to the client.
  for (const ServerId id : world.servers()) {
    if (id != kMetaServer) world.fabric().links().set_link(mount.node(), id.value, {.latency = milliseconds(30)});
  }
  auto opening = begin_call(other, other.client().open(path_from_root("f"), wire::kOpenRead));
  std::uint64_t size = 512;
  if (after_recall) {
    for (; size < 20 * 512; size += 512) {
      gather(size);
      world.run_for(milliseconds(1));
    }
  }
  const auto opened = end_call(world, opening);
  SPATE_CHECK(opened.has_value());
  if (after_recall) {
    gather(size);
    size += 512;
  }
  Bytes bytes(100000);
  const auto got = call(world, other, (*opened)->read(0, bytes));
  std::ignore = call(world, other, (*opened)->close());
  std::ignore = call(world, mount, file->close());
  return got && *got == size;
}

TEST(GatheredWritesPlantsTest, AnEarlyGiveBackIsFound) {
  EXPECT_TRUE(sees_all(Plant::kNone, false));
  EXPECT_FALSE(sees_all(Plant::kEarlyGiveBack, false)) << "the plant is not found";
}

TEST(GatheredWritesPlantsTest, AGatheredWriteAfterARecallIsFound) {
  EXPECT_TRUE(sees_all(Plant::kNone, true));
  EXPECT_FALSE(sees_all(Plant::kGatherAfterRecall, true)) << "the plant is not found";
}

}  // namespace
}  // namespace spate::cluster
