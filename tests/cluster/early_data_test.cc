// SPDX-License-Identifier: Apache-2.0
// A client writes to files whose creation it has queued. Their data, and what comes after them, are sent later.
#include <fmt/format.h>

#include "tests/cluster/queueing_test.h"

namespace spate::cluster {
namespace {

using client::path_from_root;
using std::chrono::milliseconds;
using std::chrono::seconds;

class EarlyDataTest : public QueueingTest {
 protected:
  /// Learns how much room the targets have.
  void learn_room() {
    std::ignore = a_->client().cluster().gathered().has_room();
    world_.run_for(milliseconds(20));
  }
  /// Writes without waiting for the creation.
  void write_early(Handle file, std::uint64_t offset, const Bytes& bytes, const std::string& what = {}) {
    const client::NewFile open{file, kReadWrite, nullptr};
    EXPECT_TRUE(a_->client().queued_files().keep(open, offset, bytes)) << what << " the write waits";
  }
  /// As tar does.
  Handle file_with(Handle directory, const std::string& name, const Bytes& bytes, WallTime mtime) {
    const Handle file = made(directory, name, FileType::kRegular, kReadWrite);
    write_early(file, 0, bytes, name);
    wire::SetattrRequest change;
    change.where.start = file;
    change.mtime = mtime;
    change.mode = 0600;
    const auto set = queued().set(change, 0);
    EXPECT_TRUE(set.has_value()) << name << " asks the server";
    if (set) {
      EXPECT_EQ(set->value().mtime, mtime) << name;
      EXPECT_EQ(set->value().size, bytes.size()) << name;
    }
    EXPECT_TRUE(queued().close({file, Rights::kReadWrite}, 0)) << name;
    return file;
  }
  void expect_file(ClientProcess& process, const std::string& path, const Bytes& bytes, WallTime mtime) {
    const auto found = stat(process, path);
    ASSERT_OK(found) << path;
    EXPECT_EQ(found->size, bytes.size()) << path;
    EXPECT_EQ(found->mtime, mtime) << path;
    EXPECT_EQ(found->mode, 0600U) << path;
    auto file = run(process, process.client().open(path_from_root(path), wire::kOpenRead));
    ASSERT_OK(file) << path;
    Bytes got(bytes.size() + 1);
    const auto size = run(process, (*file)->read(0, got));
    ASSERT_OK(size) << path;
    got.resize(static_cast<std::size_t>(*size));
    EXPECT_TRUE(got == bytes) << path << " has other data";
    EXPECT_OK(run(process, (*file)->close())) << path;
  }
  /// Attributes that the client answers itself.
  Attributes kept(Handle file) {
    const auto found = a_->client().cluster().attributes().find_attributes({file, "", 0});
    EXPECT_TRUE(found.has_value()) << "the server would be asked";
    return found ? found->value() : Attributes();
  }
  static Bytes content(std::size_t number) { return Bytes(100 + number, static_cast<std::byte>(number + 1)); }
};

/// A crash of the client's machine must not take both a copy and what it was made from.
TEST_F(EarlyDataTest, ARemovalWaitsForEarlyData) {
  learn_room();
  made(d_, "old");
  file_with(d_, "copy", content(3), WallTime{5});
  const auto remove = [&] { return queued().answers().remove({d_, "old", 0}, wire::Op::kUnlink, 0).has_value(); };
  EXPECT_FALSE(remove()) << "the data of the copy were not sent";
  EXPECT_OK(run(*a_, queued().send_all(a_->client().session().limits())));
  EXPECT_TRUE(remove()) << "all data were sent";
  EXPECT_ERRC(stat(*b_, "d/old"), Errc::kNotFound);
  expect_file(*b_, "d/copy", content(3), WallTime{5});
}

/// The server learns of the read, and of its time, with the queue.
TEST_F(EarlyDataTest, ClosesOfReadFilesAreAnsweredLocally) {
  learn_room();
  const WallTime later{a_->client().session().fs_time().ns + 1'000'000'000'000};  // so each read counts
  const Handle handle = file_with(d_, "f", content(3), later);
  EXPECT_OK(run(*a_, queued().send_all(a_->client().session().limits())));
  const Attributes before = stat(*a_, "d/f").value();
  auto file = run(*a_, a_->client().open(path_from_root("d/f"), wire::kOpenRead));
  ASSERT_OK(file);
  Bytes got(10);
  world_.run_for(seconds(1));
  EXPECT_OK(run(*a_, (*file)->read(0, got)));
  asked_.clear();
  bool ended = false;
  EXPECT_OK(run(*a_, (*file)->close({}, [&] { ended = true; })));
  EXPECT_TRUE(ended) << "the handover state keeps the open";
  const Attributes here = kept(handle);
  EXPECT_EQ(asked_[wire::Op::kClose] + asked_[wire::Op::kQueuedChanges] + asked_[wire::Op::kGetattr], 0U);
  EXPECT_GT(here.atime.ns, before.atime.ns + 900'000'000);
  EXPECT_EQ(text(stat(*b_, "d/f").value()), text(here));
  EXPECT_EQ(queued().counters().lost, 0U);
  EXPECT_OK(run(*b_, b_->client().unlink(path_from_root("d/f"))));
  EXPECT_ERRC(run(*b_, b_->client().stat({handle, "", 0})), Errc::kStaleHandle);
}

/// A mount that lets the kernel read its own pages knows no more of a read than the open and the close.
TEST_F(EarlyDataTest, TheCloseOfALocalOpenMovesATime) {
  learn_room();
  const WallTime later{a_->client().session().fs_time().ns + 1'000'000'000'000};
  const Handle handle = file_with(d_, "f", content(3), later);
  EXPECT_OK(run(*a_, queued().send_all(a_->client().session().limits())));
  const Attributes before = kept(handle);
  world_.run_for(seconds(1));
  for (const bool reads : {false, true}) {
    ASSERT_TRUE(queued().answers().open(handle, 0).has_value()) << reads;
    const auto read_at = reads ? std::optional(a_->client().session().fs_time()) : std::nullopt;
    EXPECT_TRUE(queued().close({handle, Rights::kRead, read_at}, 0)) << reads;
    EXPECT_EQ(kept(handle).atime > before.atime, reads) << reads;
  }
  const Attributes here = kept(handle);
  EXPECT_EQ(text(stat(*b_, "d/f").value()), text(here));
}

/// The close of a reader leaves the answer to the creation, by which the creator writes.
TEST_F(EarlyDataTest, AReaderDoesNotDisturbTheCreator) {
  const Handle handle = made(d_, "f", FileType::kRegular, kReadWrite);
  auto reader = run(*a_, a_->client().open(path_from_root("d/f"), wire::kOpenRead));
  ASSERT_OK(reader);
  EXPECT_OK(run(*a_, (*reader)->close()));
  EXPECT_OK(run(*a_, queued().send_all(a_->client().session().limits())));
  asked_.clear();
  auto file = run(*a_, a_->client().queued_files().open(handle, kReadWrite));
  ASSERT_OK(file);
  EXPECT_EQ(asked_[wire::Op::kOpen], 0U);
  EXPECT_OK(run(*a_, (*file)->write(0, content(500))));
  EXPECT_EQ(stat(*a_, "d/f").value().size, 600U);
  EXPECT_OK(run(*a_, (*file)->close()));
  EXPECT_EQ(stat(*b_, "d/f").value().size, 600U);
}

/// A change of the file that is queued later does not make it new again.
TEST_F(EarlyDataTest, AWriteIsNotEarlyOnceTheDataWereSent) {
  learn_room();
  const Handle handle = made(d_, "f", FileType::kRegular, kReadWrite);
  write_early(handle, 0, content(1));
  auto reader = run(*a_, a_->client().open(path_from_root("d/f"), wire::kOpenRead));
  ASSERT_OK(reader);
  world_.run_for(seconds(1));
  Bytes got(10);
  EXPECT_OK(run(*a_, (*reader)->read(0, got)));
  EXPECT_OK(run(*a_, (*reader)->close()));
  EXPECT_TRUE(queued().log().has(handle)) << "the close is not queued";
  EXPECT_FALSE(a_->client().queued_files().keep({handle, kReadWrite, nullptr}, 0, content(2)))
      << "the creation is not queued any more";
  auto file = run(*a_, a_->client().queued_files().open(handle, kReadWrite));
  ASSERT_OK(file);
  EXPECT_OK(run(*a_, (*file)->write(0, content(2))));
  EXPECT_OK(run(*a_, (*file)->close()));
  EXPECT_EQ(stat(*b_, "d/f").value().size, content(2).size());
}

/// Without the answer the creator's File does not tell the cache of its writes.
TEST_F(EarlyDataTest, AFileThatWasOpenedAgainHasTheSizeOfItsData) {
  const Handle handle = made(d_, "f", FileType::kRegular, kReadWrite);
  EXPECT_OK(run(*a_, queued().answer_of(handle, a_->client().session().limits())));  // nobody has it now
  auto file = run(*a_, a_->client().queued_files().open(handle, kReadWrite));
  ASSERT_OK(file);
  EXPECT_OK(run(*a_, (*file)->write(0, content(500))));
  EXPECT_EQ(stat(*a_, "d/f").value().size, 600U);
  EXPECT_OK(run(*a_, (*file)->close()));
  EXPECT_EQ(stat(*b_, "d/f").value().size, 600U);
}

/// The same of a file that was written through the io servers.
TEST_F(EarlyDataTest, ClosesOfWrittenFilesAreAnsweredLocally) {
  const Handle handle = made(d_, "f", FileType::kRegular, kReadWrite);
  auto file = run(*a_, a_->client().queued_files().open(handle, kReadWrite));
  ASSERT_OK(file);
  EXPECT_OK(run(*a_, (*file)->write(0, content(5000))));
  world_.run_for(seconds(1));
  asked_.clear();
  EXPECT_OK(run(*a_, (*file)->close()));
  const Attributes here = kept(handle);
  EXPECT_EQ(asked_[wire::Op::kClose] + asked_[wire::Op::kQueuedChanges] + asked_[wire::Op::kGetattr], 0U);
  EXPECT_TRUE(here.size_known) << "the close tells it";
  EXPECT_EQ(here.size, 5100U);
  EXPECT_EQ(text(stat(*b_, "d/f").value()), text(here));
}

/// The data of many files follow their creations, and the closes with the times follow the data.
TEST_F(EarlyDataTest, DataDoNotWaitForTheCreation) {
  learn_room();
  asked_.clear();
  std::uint64_t early = 0;
  world_.watch().on_arrival([&](const WatchedRequest& request) {
    ++asked_[request.op];
    if (request.op == wire::Op::kWrite && asked_[wire::Op::kQueuedChanges] == 0) ++early;
  });
  for (std::size_t i = 0; i < 6; ++i)
    file_with(d_, fmt::format("f{}", i), content(i), WallTime{static_cast<std::int64_t>(i) + 5});
  EXPECT_EQ(asked_[wire::Op::kWrite], 0U) << "data went before the creation";
  for (std::size_t i = 0; i < 6; ++i)
    EXPECT_EQ(stat(*a_, fmt::format("d/f{}", i)).value().mtime.ns, static_cast<std::int64_t>(i) + 5) << i;
  world_.run_for(seconds(1));
  EXPECT_EQ(early, 0U) << "data went before the creation";
  EXPECT_FALSE(queued().any());
  EXPECT_EQ(asked_[wire::Op::kWrite], 6U);
  EXPECT_LE(asked_[wire::Op::kQueuedChanges], 3U);
  EXPECT_EQ(asked_[wire::Op::kCreate] + asked_[wire::Op::kSetattr] + asked_[wire::Op::kClose] + asked_[wire::Op::kOpen],
            0U);
  for (std::size_t i = 0; i < 6; ++i)
    expect_file(*b_, fmt::format("d/f{}", i), content(i), WallTime{static_cast<std::int64_t>(i) + 5});
}

TEST_F(EarlyDataTest, AnotherClientSeesEarlyDataAtAnyMoment) {
  for (int i = 0; i < 40; ++i) {
    const std::string name = fmt::format("m{}", i);
    const Handle directory = new_directory(name);
    learn_room();
    for (std::size_t j = 0; j < 3; ++j)
      file_with(directory, fmt::format("f{}", j), content(j), WallTime{static_cast<std::int64_t>(j) + 7});
    const Handle open = made(directory, "open", FileType::kRegular, kReadWrite);
    write_early(open, 0, content(9), "open");
    world_.run_for(std::chrono::microseconds(i % 2 == 0 ? 40 * i : 100'000 + 20 * i));
    EXPECT_EQ(stat(*b_, name + "/open").value().size, content(9).size()) << i;
    for (std::size_t j = 0; j < 3; ++j)
      expect_file(*b_, fmt::format("{}/f{}", name, j), content(j), WallTime{static_cast<std::int64_t>(j) + 7});
    auto file = run(*a_, a_->client().queued_files().open(open, kReadWrite));
    ASSERT_OK(file) << i;
    EXPECT_OK(run(*a_, (*file)->write(content(9).size(), content(1)))) << i;
    EXPECT_OK(run(*a_, (*file)->sync())) << i;
    EXPECT_OK(run(*a_, (*file)->close())) << i;
    EXPECT_EQ(stat(*b_, name + "/open").value().size, content(9).size() + content(1).size()) << i;
  }
}

/// The process is killed at any moment. The next one sends the data that are left, and what has waited for them.
TEST_F(EarlyDataTest, TheNextProcessSendsEarlyData) {
  for (int i = 0; i < 60; ++i) {
    const UniqueFd state(::memfd_create("state", MFD_CLOEXEC));
    const UniqueFd memory(::memfd_create("queue", MFD_CLOEXEC));
    const UniqueFd gather(::memfd_create("gather", MFD_CLOEXEC));
    states_.push_back(client::HandoverState::open(state.get()).value());
    a_ = &start(memory.get(), states_.back().get(), gather.get());
    const std::string name = fmt::format("k{}", i);
    EXPECT_ERRC(stat(*a_, name), Errc::kNotFound);
    const Handle directory = new_directory(name);
    learn_room();
    for (std::size_t j = 0; j < 3; ++j)
      file_with(directory, fmt::format("f{}", j), content(j), WallTime{static_cast<std::int64_t>(j) + 7});
    world_.run_for(i == 0 ? milliseconds(0) : milliseconds(100) + std::chrono::microseconds(25 * i));
    const UniqueFd next_state = memory_copy(state.get());
    const UniqueFd next_memory = memory_copy(memory.get());
    const UniqueFd next_gather = memory_copy(gather.get());
    world_.kill_client(*a_, bmi::sim::Death::kProcess);
    states_.push_back(client::HandoverState::open(next_state.get()).value());
    a_ = &start(next_memory.get(), states_.back().get(), next_gather.get());
    a_->client().session().resume();
    EXPECT_TRUE(run(*a_, queued().send_all_within(seconds(20)))) << i;
    for (client::GatherMemory::Piece* const piece : gathers_.back()->inherited()) {
      EXPECT_OK(run(*a_, a_->client().queued_files().take_over(*piece))) << i;
      a_->client().cluster().gathered().taken_over();
    }
    for (std::size_t j = 0; j < 3; ++j)
      expect_file(*b_, fmt::format("{}/f{}", name, j), content(j), WallTime{static_cast<std::int64_t>(j) + 7});
    EXPECT_EQ(queued().counters().lost, 0U) << i;
    EXPECT_EQ(gathers_.back()->losses().requests, 0U) << i;
    EXPECT_EQ(gathers_.back()->used(), 0U) << i;
    a_->quit();
  }
  a_ = b_;
}

/// The server refuses the creation. Its data are lost with it, and that is told.
TEST_F(EarlyDataTest, EarlyDataOfARefusedCreationAreToldToBeLost) {
  learn_room();
  bool& full = world_.disks(kMetaServer).records.faults.short_of_space;
  full = true;
  const Handle file = file_with(d_, "f", content(3), WallTime{7});
  EXPECT_TRUE(run(*a_, queued().send_all_within(seconds(5)))) << "something was not sent";
  full = false;
  const auto failure = queued().failures().take(file);
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->code(), Errc::kNoSpace);
  EXPECT_EQ(gathers_.back()->losses().requests, 1U);
  EXPECT_EQ(gathers_.back()->used(), 0U);
  EXPECT_ERRC(stat(*a_, "d/f"), Errc::kNotFound);
}

/// The io servers refuse the data. The file is there with its times, and the next fsync or close tells the loss.
TEST_F(EarlyDataTest, EarlyDataThatAreRefusedAreToldToBeLost) {
  learn_room();
  const Handle closed = file_with(d_, "closed", content(3), WallTime{7});
  const Handle open = made(d_, "open", FileType::kRegular, kReadWrite);
  write_early(open, 0, content(4));
  for (std::uint32_t server = 2; server <= 4; ++server) {
    for (auto& disk : world_.disks(ServerId(server)).targets)
      disk->faults().refuse(trove::BytestreamOp::kWrite, Errc::kNoSpace);
  }
  EXPECT_TRUE(run(*a_, queued().send_all_within(seconds(20)))) << "something was not sent";
  const auto failure = queued().failures().take(closed);
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->code(), Errc::kNoSpace);
  EXPECT_EQ(stat(*b_, "d/closed").value().mtime, WallTime{7});
  auto file = run(*a_, a_->client().queued_files().open(open, kReadWrite));
  ASSERT_OK(file);
  EXPECT_ERRC(run(*a_, (*file)->sync()), Errc::kNoSpace);
  EXPECT_EQ(gathers_.back()->losses().requests, 2U);
  EXPECT_OK(run(*a_, (*file)->close()));
}

}  // namespace
}  // namespace spate::cluster
