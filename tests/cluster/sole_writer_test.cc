// SPDX-License-Identifier: Apache-2.0
// A client that made a file and is its only writer knows its size and times without requests. Others see no difference.
#include <array>
#include <map>
#include <string>
#include <utility>

#include "base/expect.h"
#include "base/random.h"
#include "tests/cluster/calls.h"

namespace spate::cluster {
namespace {

using bmi::sim::Death;
using client::path_from_root;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint8_t kToReadAndWrite = wire::kOpenRead | wire::kOpenWrite;

class SoleWriterTest : public ::testing::Test {
 protected:
  SoleWriterTest() : world_({}), a_(&start()), b_(&start()) {
    world_.watch().on_arrival([this](const WatchedRequest& request) { ++asked_[request.op]; });
    EXPECT_ERRC(run(*a_, a_->client().stat(path_from_root("f"))), Errc::kNotFound);  // brings the session's first lease
  }

  ClientProcess& start() {
    client::Options options = small_client_options({}, {}, {});
    options.keep_attributes = true;
    return world_.start_client(std::move(options));
  }
  template <typename T>
  T run(ClientProcess& process, job::Task<T> task) {
    return call(world_, process, std::move(task));
  }
  std::unique_ptr<client::File> create(const std::string& path) {
    auto made = run(*a_, a_->client().create(path_from_root(path), kToReadAndWrite, {}));
    SPATE_CHECK(made.has_value());
    return *std::move(made);
  }
  Result<Attributes> stat(ClientProcess& process, const std::string& path = "f") {
    SPATE_TRY(auto found, run(process, process.client().stat(path_from_root(path))));
    return found.attributes;
  }
  void set_mtime(WallTime mtime) {
    wire::SetattrRequest request;
    request.where = path_from_root("f");
    request.mtime = mtime;
    EXPECT_OK(run(*a_, a_->client().setattr(request)));
  }
  /// Requests about the file that any server has had since the last call.
  std::uint64_t questions() {
    std::uint64_t sum = 0;
    for (const wire::Op op : {wire::Op::kLookup, wire::Op::kLookupLease, wire::Op::kGetattr, wire::Op::kDatafileStat})
      sum += std::exchange(asked_[op], 0);
    return sum;
  }
  /// Both clients must report the same attributes.
  void compare(int step) {
    const auto by_a = stat(*a_);
    const auto by_b = stat(*b_);
    ASSERT_OK(by_a);
    ASSERT_OK(by_b);
    EXPECT_EQ(by_a->size, by_b->size) << step;
    EXPECT_EQ(by_a->allocated_bytes, by_b->allocated_bytes) << step;
    EXPECT_EQ(by_a->mtime, by_b->mtime) << step;
    EXPECT_EQ(by_a->ctime, by_b->ctime) << step;
    EXPECT_EQ(by_a->mode, by_b->mode) << step;
  }
  void change(client::File& file, Random& random);

  std::map<wire::Op, std::uint64_t> asked_;
  World world_;
  ClientProcess* a_;
  ClientProcess* b_;
};

TEST_F(SoleWriterTest, SizeAndTimesAreKnownWithoutTheServers) {
  const auto file = create("f");
  questions();
  EXPECT_EQ(stat(*a_).value().size, 0U);
  ASSERT_OK(run(*a_, file->write(0, Bytes(300000))));
  EXPECT_EQ(stat(*a_).value().size, 300000U);
  set_mtime(WallTime{1000});
  EXPECT_EQ(stat(*a_).value().mtime, WallTime{1000});
  EXPECT_EQ(a_->client().kept_attributes(path_from_root("f"))->value().size, 300000U);
  EXPECT_EQ(questions(), 0U);
  ASSERT_OK(run(*a_, file->close()));
  EXPECT_EQ(stat(*b_).value().mtime, WallTime{1000});
}

TEST_F(SoleWriterTest, WritesOfAnotherClientAreSeenAtOnce) {
  const auto file = create("f");
  ASSERT_OK(run(*a_, file->write(0, Bytes(1000))));
  auto other = run(*b_, b_->client().open(path_from_root("f"), wire::kOpenWrite));
  ASSERT_OK(other);
  ASSERT_OK(run(*b_, (*other)->write(1000, Bytes(1000))));
  EXPECT_EQ(stat(*a_).value().size, 2000U);
  ASSERT_OK(run(*a_, file->write(0, Bytes(100))));
  ASSERT_OK(run(*b_, (*other)->write(2000, Bytes(1000))));
  EXPECT_EQ(stat(*a_).value().size, 3000U);
  ASSERT_OK(run(*b_, (*other)->close()));
  EXPECT_EQ(stat(*a_).value().size, 3000U);
  ASSERT_OK(run(*b_, b_->client().truncate(path_from_root("f"), 7)));
  EXPECT_EQ(stat(*a_).value().size, 7U);
  ASSERT_OK(run(*a_, file->close()));
  compare(0);
}

TEST_F(SoleWriterTest, AppendsNeedNoRequestForTheEnd) {
  const auto file = create("f");
  const auto append = [&](std::size_t size) {
    const Bytes bytes(size, std::byte{1});
    const std::array<ByteView, 1> memory{bytes};
    return run(*a_, file->append(memory));
  };
  questions();
  std::uint64_t end = 0;
  for (const std::size_t size : {100UL, 70000UL, 300000UL, 1UL}) {
    EXPECT_EQ(append(size).value(), end);
    end += size;
  }
  EXPECT_EQ(questions(), 0U);
  auto other = run(*b_, b_->client().open(path_from_root("f"), wire::kOpenWrite));
  ASSERT_OK(other);
  ASSERT_OK(run(*b_, (*other)->write(end, Bytes(1000))));
  EXPECT_EQ(append(10).value(), end + 1000);
  ASSERT_OK(run(*b_, b_->client().truncate(path_from_root("f"), 7)));
  EXPECT_EQ(append(10).value(), 7U);
  ASSERT_OK(run(*b_, (*other)->close()));
  ASSERT_OK(run(*a_, file->close()));
  compare(0);
}

TEST_F(SoleWriterTest, ACopyNeedsNoRequestForTheSizeOfItsSource) {
  const auto source = create("f");
  const auto target = create("g");
  ASSERT_OK(run(*a_, source->write(0, Bytes(300000, std::byte{1}))));
  questions();
  EXPECT_EQ(run(*a_, target->copy_from(*source, {0, 0, 1U << 20U})).value(), 300000U);
  EXPECT_EQ(questions(), 0U);
  ASSERT_OK(run(*a_, source->close()));
  const auto again = run(*a_, a_->client().open(path_from_root("f"), wire::kOpenRead));
  ASSERT_OK(again);
  questions();
  EXPECT_EQ(run(*a_, target->copy_from(**again, {0, 0, 1U << 20U})).value(), 300000U);
  EXPECT_EQ(questions(), 0U);
  auto other = run(*b_, b_->client().open(path_from_root("f"), wire::kOpenWrite));
  ASSERT_OK(other);
  ASSERT_OK(run(*b_, (*other)->write(300000, Bytes(5))));
  EXPECT_EQ(run(*a_, target->copy_from(**again, {0, 0, 1U << 20U})).value(), 300005U);
  ASSERT_OK(run(*b_, (*other)->close()));
  ASSERT_OK(run(*a_, (*again)->close()));
  ASSERT_OK(run(*a_, target->close()));
}

/// Wherever the write of the other client meets the appends of this one, an append that begins after it goes behind it.
TEST_F(SoleWriterTest, AnAppendFollowsACompletedWriteOfAnotherClient) {
  const Bytes bytes(10, std::byte{1});
  const std::array<ByteView, 1> memory{bytes};
  for (int i = 0; i < 40; ++i) {
    const std::string name = "h" + std::to_string(i);
    const auto file = create(name);
    ASSERT_OK(run(*a_, file->append(memory)));
    const auto opened = begin_call(*b_, b_->client().open(path_from_root(name), wire::kOpenWrite));
    world_.run_for(std::chrono::microseconds(5 * i));
    ASSERT_OK(run(*a_, file->append(memory)));
    auto other = end_call(world_, opened);
    ASSERT_OK(other);
    ASSERT_OK(run(*b_, (*other)->write(1000, bytes)));
    EXPECT_EQ(run(*a_, file->append(memory)).value(), 1010U) << i;
    ASSERT_OK(run(*b_, (*other)->close()));
    ASSERT_OK(run(*a_, file->close()));
  }
}

/// The other client's open comes at any moment of this client's calls.
TEST_F(SoleWriterTest, AWriteOfAnotherClientAtAnyMomentIsSeen) {
  for (int i = 0; i < 60; ++i) {
    const std::string name = "g" + std::to_string(i);
    const auto opened = begin_call(*b_, b_->client().create(path_from_root(name), wire::kOpenWrite, {}));
    world_.run_for(std::chrono::microseconds(5 * i));
    const auto file = create(name);
    ASSERT_OK(run(*a_, file->write(0, Bytes(100))));
    auto other = end_call(world_, opened);
    ASSERT_OK(other);
    ASSERT_OK(run(*b_, (*other)->write(100, Bytes(100))));
    EXPECT_EQ(stat(*a_, name).value().size, 200U) << i;
    ASSERT_OK(run(*b_, (*other)->close()));
    ASSERT_OK(run(*a_, file->close()));
  }
}

TEST_F(SoleWriterTest, WritesThroughAnotherOpenOfThisClientAreSeen) {
  const auto file = create("f");
  auto other = run(*a_, a_->client().open(path_from_root("f"), wire::kOpenWrite));
  ASSERT_OK(other);
  ASSERT_OK(run(*a_, (*other)->write(0, Bytes(1000))));
  EXPECT_EQ(stat(*a_).value().size, 1000U);
  ASSERT_OK(run(*a_, file->write(0, Bytes(10))));
  EXPECT_EQ(stat(*a_).value().size, 1000U);
  ASSERT_OK(run(*a_, (*other)->close()));
  ASSERT_OK(run(*a_, file->close()));
}

TEST_F(SoleWriterTest, AClientThatIsCutOffUsesNoKnownData) {
  const auto file = create("f");
  ASSERT_OK(run(*a_, file->write(0, Bytes(1000))));
  world_.fabric().links().partition(kMetaServer.value, a_->node(), true);
  auto other = run(*b_, b_->client().open(path_from_root("f"), wire::kOpenWrite));
  ASSERT_OK(other);
  ASSERT_OK(run(*b_, (*other)->write(1000, Bytes(1000))));
  EXPECT_FALSE(a_->client().kept_attributes(path_from_root("f")));
  world_.fabric().links().partition(kMetaServer.value, a_->node(), false);
  EXPECT_EQ(stat(*a_).value().size, 2000U);
  ASSERT_OK(run(*b_, (*other)->close()));
  std::ignore = run(*a_, file->close());
}

TEST_F(SoleWriterTest, ARestartOfTheMetaServerEndsTheSoleWriterState) {
  const auto file = create("f");
  ASSERT_OK(run(*a_, file->write(0, Bytes(1000))));
  world_.kill_server(kMetaServer, Death::kProcess);
  world_.start_server(kMetaServer);
  auto other = run(*b_, b_->client().open(path_from_root("f"), wire::kOpenWrite));
  ASSERT_OK(other);
  ASSERT_OK(run(*b_, (*other)->write(1000, Bytes(1000))));
  EXPECT_EQ(stat(*a_).value().size, 2000U);
  ASSERT_OK(run(*b_, (*other)->close()));
  ASSERT_OK(run(*a_, file->close()));
}

/// The replies to the lost writes count their bytes.
TEST_F(SoleWriterTest, BytesWhoseLossWasReportedAreNotCounted) {
  const auto file = create("f");
  ASSERT_OK(run(*a_, file->write(0, Bytes(100000))));
  ASSERT_OK(run(*a_, file->sync()));
  ASSERT_OK(run(*a_, file->write(100000, Bytes(200000))));
  for (const ServerId id : world_.servers()) {
    if (id == kMetaServer) continue;
    world_.kill_server(id, Death::kMachine);
    world_.start_server(id);
  }
  EXPECT_ERRC(run(*a_, file->sync()), Errc::kLostWrite);
  compare(0);
  ASSERT_OK(run(*a_, file->close()));
}

void SoleWriterTest::change(client::File& file, Random& random) {
  const std::uint64_t at = random.below(400000);
  const std::uint64_t size = 1 + random.below(100000);
  const Bytes bytes(size, std::byte{7});
  const std::array<ByteView, 1> memory{bytes};
  switch (random.below(7)) {
    case 0: EXPECT_OK(run(*a_, file.punch(at, size))); break;
    case 1: EXPECT_OK(run(*a_, file.append(memory))); break;
    case 2: EXPECT_OK(run(*a_, file.extend_to(at))); break;
    case 3: set_mtime(WallTime{static_cast<std::int64_t>(at)}); break;
    case 4: EXPECT_OK(run(*a_, file.allocate(at, size))); break;
    case 5: EXPECT_OK(run(*a_, file.copy_from(file, {at, at + size, size}))); break;
    default: EXPECT_OK(run(*a_, file.write(at, bytes)));
  }
}

/// After each change of any kind, this client's own answers equal the servers' answers to the other client.
TEST_F(SoleWriterTest, RandomChangesGiveTheAttributesOfTheServers) {
  SeededRandom random(7);
  for (int round = 0; round < 8; ++round) {
    const auto file = create("f");
    for (int step = 0; step < 25; ++step) {
      if (random.below(60) == 0) EXPECT_OK(run(*a_, file->truncate(random.below(500000))));
      change(*file, random);
      ASSERT_NO_FATAL_FAILURE(compare(round * 100 + step));
    }
    ASSERT_OK(run(*a_, file->close()));
    ASSERT_NO_FATAL_FAILURE(compare(round * 100 + 99));
    ASSERT_OK(run(*a_, a_->client().unlink(path_from_root("f"))));
  }
}

}  // namespace
}  // namespace spate::cluster
