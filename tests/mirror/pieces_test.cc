// SPDX-License-Identifier: Apache-2.0
// Large writes: their messages are on the way to the other members at the same time, and the own copy of each comes
// last.
#include <gmock/gmock.h>

#include "base/expect.h"
#include "base/expect_bytes.h"
#include "tests/mirror/mirror_world.h"

namespace spate::cluster {
namespace {

using bmi::sim::Death;
using FilePtr = std::unique_ptr<client::File>;
using namespace std::chrono_literals;

constexpr std::uint64_t kLargeKiB = 1024;
constexpr std::uint64_t kLargeWrite = 1024 * kLargeKiB;  // of a write

client::Options large_messages() {
  client::Options options = small_client_options({}, {}, {});
  options.unit_bytes = 1024 * kLargeKiB;
  options.max_transfer_bytes = 4096 * kLargeKiB;
  return options;
}

Bytes large_write_of(std::uint8_t with) { return Bytes(kLargeWrite, static_cast<std::byte>(with)); }

class PiecesTest : public ::testing::Test {
 protected:
  PiecesTest() : client_(world().start_client(large_messages())), reader_(world().start_client()) {
    client::NewObject object;
    object.layout.slot_count = 1;
    auto made = run(client_.client().create(client::path_from_root("f"), kMirrorOpen, object));
    EXPECT_OK(made);
    file_ = *std::move(made);
    EXPECT_OK(run(file_->write(0, large_write_of(1))));
    EXPECT_TRUE(mirrors_.become_whole()) << "a group lacks a copy";
    world().watch().on_arrival([this](const WatchedRequest& request) {
      if (request.op == wire::Op::kMirrorForward) ++forwards_;
    });
  }
  ~PiecesTest() override { planted_defect = Defect::kNone; }

  template <typename T>
  T run(job::Task<T> task) {
    return call(world(), client_, std::move(task));
  }
  World& world() { return mirrors_.world; }
  ServerId primary() { return mirrors_.primary_of(*file_); }
  ServerId backup() { return mirrors_.backup_of(*file_); }
  void cut_one_way(ServerId from, ServerId to, bool on) {
    world().fabric().links().partition_one_way(from.value, to.value, on);
  }
  Bytes content_at(ServerId server) { return *world().disks(server).targets.front()->content({file_->handle(), 0}); }
  /// Reads by another client.
  Bytes content() {
    auto opened = call(world(), reader_, reader_.client().open(client::path_from_root("f"), kMirrorOpen));
    EXPECT_OK(opened);
    Bytes found(kLargeWrite);
    EXPECT_OK(call(world(), reader_, (*opened)->read(0, found)));
    EXPECT_OK(call(world(), reader_, (*opened)->close()));
    return found;
  }
  void expect_equal_copies() {
    ASSERT_TRUE(mirrors_.become_whole()) << "a group lacks a copy";
    EXPECT_EQ(mirrors_.differences(), "");
  }

  MirrorWorld mirrors_;
  ClientProcess& client_;
  ClientProcess& reader_;
  FilePtr file_;
  std::size_t forwards_ = 0;
};

TEST_F(PiecesTest, TheNextPieceIsSentBeforeTheBackupHasAnswered) {
  const ServerId from = backup();
  const ServerId to = primary();
  cut_one_way(from, to, true);  // no answer arrives
  const Bytes data = large_write_of(2);
  const auto pending = begin_call(client_, file_->write(0, data));
  world().run_for(10ms);  // nothing is sent again so soon
  EXPECT_EQ(forwards_, 4U) << "one piece after the other";
  world().run_for(300ms);
  EXPECT_FALSE(*pending) << "answered without the backup";
  EXPECT_BYTES(content_at(to), large_write_of(1));  // whatever the backup has taken, the own copy comes last
  EXPECT_BYTES(content(), large_write_of(1));
  cut_one_way(from, to, false);
  EXPECT_OK(end_call(world(), pending));
  EXPECT_BYTES(content(), data);
  expect_equal_copies();
}

TEST_F(PiecesTest, TheTraceOfTheWriteGoesWithItToTheBackup) {
  TraceId of_write;
  std::vector<TraceId> of_forwards;
  world().watch().on_arrival([&](const WatchedRequest& request) {
    if (request.op == wire::Op::kWrite) of_write = request.trace;
    if (request.op == wire::Op::kMirrorForward) of_forwards.push_back(request.trace);
  });
  for (const std::size_t size : {std::size_t{100}, std::size_t{1} << 20U}) {
    of_forwards.clear();
    EXPECT_OK(run(file_->write(0, Bytes(size, std::byte{1}))));
    EXPECT_TRUE(of_write);
    EXPECT_THAT(of_forwards, ::testing::Each(of_write));
    EXPECT_THAT(of_forwards, ::testing::Not(::testing::IsEmpty()));
  }
}

TEST_F(PiecesTest, AServerWithMoreToDoGetsWholeMessages) {
  EXPECT_OK(run(file_->write(0, large_write_of(2))));
  EXPECT_EQ(forwards_, 4U);
  forwards_ = 0;
  const Bytes first = large_write_of(3);
  const Bytes second = large_write_of(4);
  const auto one = begin_call(client_, file_->write(0, first));
  world().run_for(10us);
  const auto two = begin_call(client_, file_->write(kLargeWrite, second));
  EXPECT_OK(end_call(world(), one));
  EXPECT_OK(end_call(world(), two));
  EXPECT_EQ(forwards_, 5U);
  expect_equal_copies();
}

TEST_F(PiecesTest, TheWrongOrderOfCopiesIsDetected) {
  planted_defect = Defect::kOwnCopyFirst;
  const ServerId from = backup();
  const ServerId to = primary();
  cut_one_way(from, to, true);
  const Bytes data = large_write_of(2);
  const auto pending = begin_call(client_, file_->write(0, data));
  world().run_for(300ms);
  EXPECT_NE(content(), large_write_of(1));
  cut_one_way(from, to, false);
  EXPECT_OK(end_call(world(), pending));
}

TEST_F(PiecesTest, APrimaryThatDiesBetweenPiecesLeavesEqualCopies) {
  for (const Death death : {Death::kProcess, Death::kMachine}) {
    for (int step = 0; step < 12; ++step) {
      const ServerId dead = primary();
      const Bytes data = large_write_of(static_cast<std::uint8_t>(10 + step));
      const auto pending = begin_call(client_, file_->write(0, data));
      world().run_for(step * 100us);
      mirrors_.kill(dead, death);
      EXPECT_OK(end_call(world(), pending)) << step;
      EXPECT_BYTES(content(), data);
      mirrors_.restart(dead);
      expect_equal_copies();
    }
  }
}

TEST_F(PiecesTest, ABackupThatDiesBetweenPiecesIsLeftOutOnce) {
  for (int step = 0; step < 12; ++step) {
    const ServerId dead = backup();
    const Bytes data = large_write_of(static_cast<std::uint8_t>(30 + step));
    const auto pending = begin_call(client_, file_->write(0, data));
    world().run_for(step * 100us);
    mirrors_.kill(dead);
    EXPECT_OK(end_call(world(), pending)) << step;
    EXPECT_BYTES(content(), data);
    mirrors_.restart(dead);
    expect_equal_copies();
  }
}

TEST_F(PiecesTest, AFailureEndsTheWriteAndTheCopiesAreEqual) {
  for (const bool primary_fails : {false, true}) {
    auto& disk = *world().disks(primary_fails ? primary() : backup()).targets.front();
    disk.faults().refuse(trove::BytestreamOp::kWrite, Errc::kNoSpace);
    EXPECT_ERRC(run(file_->write(0, large_write_of(3))), Errc::kNoSpace);
    disk.faults().clear();
    expect_equal_copies();
    const Bytes data = large_write_of(primary_fails ? 5 : 4);
    EXPECT_OK(run(file_->write(0, data)));
    EXPECT_BYTES(content(), data);
    expect_equal_copies();
  }
}

TEST_F(PiecesTest, TheWritersEndLeavesEqualCopies) {
  const Bytes data = large_write_of(7);
  for (int step = 0; step < 8; ++step) {
    ClientProcess& writer = world().start_client(large_messages());
    auto opened = call(world(), writer, writer.client().open(client::path_from_root("f"), kMirrorOpen));
    ASSERT_OK(opened);
    const auto pending = begin_call(writer, (*opened)->write(0, data));
    world().run_for(step * 150us);
    world().kill_client(writer, Death::kProcess);
    world().run_for(1s);
    expect_equal_copies();
    while (!*pending) world().run_for(1s);  // the file outlives the call, also that of a dead process
  }
}

}  // namespace
}  // namespace spate::cluster
