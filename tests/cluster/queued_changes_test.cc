// SPDX-License-Identifier: Apache-2.0
// A client answers changes in its new directories itself, and sends them later. Other clients see all of them.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/expect.h"
#include "tests/cluster/queueing_test.h"

namespace spate::cluster {
namespace {

using client::path_from_root;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::UnorderedElementsAre;

class QueuedChangesTest : public QueueingTest {};

TEST_F(QueuedChangesTest, ManyChangesAreOneRequest) {
  asked_.clear();
  const Handle sub = made(d_, "sub", FileType::kDirectory);
  for (int i = 0; i < 20; ++i) {
    const Handle file = made(sub, "f" + std::to_string(i), FileType::kRegular, wire::kOpenWrite);
    EXPECT_TRUE(queued().close({file, Rights::kWrite}, 0)) << "the close is queued";
  }
  made(sub, "link", FileType::kSymlink);
  EXPECT_EQ(asked_[wire::Op::kQueuedChanges], 0U);
  EXPECT_EQ(stat(*a_, "d/sub/f3").value().size, 0U);
  EXPECT_ERRC(stat(*a_, "d/sub/f20"), Errc::kNotFound);
  EXPECT_EQ(make(sub, "f3"), std::nullopt) << "the name exists";
  world_.run_for(seconds(1));
  EXPECT_EQ(asked_[wire::Op::kQueuedChanges], 1U);
  EXPECT_EQ(asked_[wire::Op::kCreate] + asked_[wire::Op::kMkdir] + asked_[wire::Op::kClose], 0U);
  EXPECT_EQ(list(*b_, d_), std::vector<std::string>{"sub"});
  EXPECT_EQ(list(*b_, sub).size(), 21U);
  EXPECT_EQ(run(*b_, b_->client().lookup(path_from_root("d/sub/link", false))).value().target, "to link");
}

/// The client's own answers are those that the server gives later.
TEST_F(QueuedChangesTest, AttributesAreThoseThatTheServerGives) {
  const Handle sub = made(d_, "sub", FileType::kDirectory);
  const Handle file = made(sub, "f", FileType::kRegular, kReadWrite);
  made(sub, "link", FileType::kSymlink);
  world_.run_for(milliseconds(5));
  wire::SetattrRequest change;
  change.where.start = file;
  change.mode = 0600;
  change.mtime = WallTime{1234567};
  ASSERT_TRUE(queued().set(change, 0).has_value());
  EXPECT_TRUE(queued().close({file, Rights::kReadWrite}, 0));
  std::map<std::string, Attributes> before;
  for (const std::string name : {"d", "d/sub", "d/sub/f", "d/sub/link"})
    before[name] = run(*a_, a_->client().lookup(path_from_root(name, false))).value().attributes;
  EXPECT_TRUE(queued().any()) << "it was sent before it was looked at";
  world_.run_for(seconds(1));
  EXPECT_FALSE(queued().any());
  for (const auto& [name, attributes] : before) {
    const Attributes theirs = run(*b_, b_->client().lookup(path_from_root(name, false))).value().attributes;
    EXPECT_EQ(text(theirs), text(attributes)) << name;
    EXPECT_EQ(run(*a_, a_->client().lookup(path_from_root(name, false))).value().attributes, theirs) << name;
  }
}

TEST_F(QueuedChangesTest, AnotherClientSeesEachChangeAtOnce) {
  for (int i = 0; i < 30; ++i) {
    const std::string name = "e" + std::to_string(i);
    const Handle directory = new_directory(name);
    const Handle sub = made(directory, "sub", FileType::kDirectory);
    const Handle file = made(sub, "f");
    wire::SetattrRequest change;
    change.where.start = file;
    change.mode = 0600;
    ASSERT_TRUE(queued().set(change, 0).has_value());
    world_.run_for(milliseconds(i % 5));
    switch (i % 3) {
      case 0: EXPECT_EQ(stat(*b_, name + "/sub/f").value().mode, 0600U) << i; break;
      case 1: EXPECT_EQ(list(*b_, directory), std::vector<std::string>{"sub"}) << i; break;
      default: EXPECT_EQ(stat(*b_, name).value().size, 1U) << i; break;
    }
    EXPECT_EQ(list(*b_, sub), std::vector<std::string>{"f"}) << i;
    EXPECT_ERRC(run(*b_, b_->client().mkdir(path_from_root(name + "/sub"), {})), Errc::kExists);
    EXPECT_EQ(make(directory, "more"), std::nullopt) << "after the recall";
  }
}

TEST_F(QueuedChangesTest, OtherRequestsOfTheClientFollowThem) {
  const Handle file = made(d_, "f");
  EXPECT_OK(run(*a_, a_->client().rename(path_from_root("d/f"), path_from_root("d/g"))));
  made(d_, "h");
  EXPECT_OK(run(*a_, a_->client().unlink(path_from_root("d/h"))));
  made(d_, "i");
  EXPECT_OK(run(*a_, a_->client().sync()));
  EXPECT_FALSE(queued().any()) << "a sync covers what was queued";
  EXPECT_THAT(list(*b_, d_), UnorderedElementsAre("g", "i"));
  EXPECT_EQ(stat(*b_, "d/g").value().handle, file);
}

TEST_F(QueuedChangesTest, AFileThatIsWrittenGetsItsPlaceFirst) {
  const Handle file = made(d_, "f", FileType::kRegular, kReadWrite);
  auto opened = run(*a_, a_->client().queued_files().open(file, kReadWrite));
  ASSERT_OK(opened);
  const Bytes bytes(1000, std::byte{7});
  EXPECT_OK(run(*a_, (*opened)->write(0, bytes)));
  EXPECT_OK(run(*a_, (*opened)->close()));
  EXPECT_EQ(stat(*b_, "d/f").value().size, 1000U);
}

TEST_F(QueuedChangesTest, ARestartOfTheMetaServerLosesNothing) {
  for (int i = 0; i < 300; ++i) made(d_, "f" + std::to_string(i));
  world_.run_for(std::chrono::microseconds(300));
  const ServerId meta = world_.leader();
  world_.kill_server(meta, bmi::sim::Death::kProcess);
  for (int i = 300; i < 500; ++i) std::ignore = make(d_, "f" + std::to_string(i));
  world_.run_for(milliseconds(200));
  world_.start_server(meta);
  EXPECT_EQ(stat(*b_, "d").value().size, stat(*a_, "d").value().size);
  EXPECT_GE(stat(*b_, "d").value().size, 300U);
  EXPECT_FALSE(queued().any());
  EXPECT_EQ(queued().counters().lost, 0U);
}

/// The process is killed at any moment of a batch. The next one sends what was left, and nothing is made twice.
TEST_F(QueuedChangesTest, TheNextProcessSendsWhatIsLeft) {
  for (int i = 0; i < 40; ++i) {
    const UniqueFd state(::memfd_create("state", MFD_CLOEXEC));
    const UniqueFd memory(::memfd_create("queue", MFD_CLOEXEC));
    states_.push_back(client::HandoverState::open(state.get()).value());
    a_ = &start(memory.get(), states_.back().get());
    const std::string name = "k" + std::to_string(i);
    EXPECT_ERRC(stat(*a_, name), Errc::kNotFound);
    const Handle directory = new_directory(name);
    for (int j = 0; j < 10; ++j) made(directory, "a" + std::to_string(j));
    world_.run_for(milliseconds(100) + std::chrono::microseconds(20 * i));
    std::size_t more = 0;
    while (more < 10 && make(directory, "b" + std::to_string(more))) ++more;
    const UniqueFd next_state = memory_copy(state.get());
    const UniqueFd next_memory = memory_copy(memory.get());
    world_.kill_client(*a_, bmi::sim::Death::kProcess);
    states_.push_back(client::HandoverState::open(next_state.get()).value());
    a_ = &start(next_memory.get(), states_.back().get());
    a_->client().session().resume();
    EXPECT_TRUE(run(*a_, queued().send_all_within(seconds(20)))) << i;
    EXPECT_EQ(queued().counters().lost, 0U) << i;
    EXPECT_EQ(list(*b_, directory).size(), 10 + more) << i;
    EXPECT_EQ(stat(*b_, name).value().size, 10 + more) << i;
    const Handle again = new_directory(name + "again");
    EXPECT_TRUE(make(again, "f")) << "the next process queues, too";
    world_.run_for(seconds(1));
    EXPECT_EQ(queued().counters().lost, 0U) << i;
    a_->quit();
  }
  a_ = b_;
}

TEST_F(QueuedChangesTest, RemovalsAreAnsweredLocallyToo) {
  asked_.clear();
  const Handle sub = made(d_, "sub", FileType::kDirectory);
  const Handle file = made(sub, "f", FileType::kRegular, wire::kOpenWrite);
  made(sub, "link", FileType::kSymlink);
  const auto remove = [&](Handle directory, const std::string& name, wire::Op op) {
    return queued().answers().remove({directory, name, 0}, op, 0).has_value();
  };
  EXPECT_FALSE(remove(sub, "f", wire::Op::kUnlink)) << "it is open for writing";
  EXPECT_TRUE(queued().close({file, Rights::kWrite}, 0)) << "nothing was written";
  EXPECT_FALSE(remove(d_, "sub", wire::Op::kRmdir)) << "it has entries";
  EXPECT_FALSE(remove(d_, "sub", wire::Op::kUnlink)) << "it is a directory";
  EXPECT_FALSE(remove(sub, "f", wire::Op::kRmdir)) << "it is a file";
  EXPECT_FALSE(remove(sub, "none", wire::Op::kUnlink)) << "nothing is there";
  EXPECT_TRUE(remove(sub, "f", wire::Op::kUnlink)) << "it has one name";
  EXPECT_TRUE(remove(sub, "link", wire::Op::kUnlink)) << "it has one name";
  EXPECT_ERRC(stat(*a_, "d/sub/f"), Errc::kNotFound);
  made(sub, "f");  // the name is free
  EXPECT_TRUE(remove(sub, "f", wire::Op::kUnlink)) << "it has one name";
  EXPECT_TRUE(remove(d_, "sub", wire::Op::kRmdir)) << "it is empty";
  EXPECT_ERRC(stat(*a_, "d/sub"), Errc::kNotFound);
  const Attributes here = run(*a_, a_->client().lookup(path_from_root("d", false))).value().attributes;
  EXPECT_EQ(asked_[wire::Op::kQueuedChanges] + asked_[wire::Op::kUnlink] + asked_[wire::Op::kRmdir], 0U);
  EXPECT_EQ(text(run(*b_, b_->client().lookup(path_from_root("d", false))).value().attributes), text(here));
  EXPECT_EQ(here.size, 0U);
  EXPECT_EQ(queued().counters().lost, 0U);
}

TEST_F(QueuedChangesTest, OpensForReadingAreAnsweredLocally) {
  const Handle file = made(d_, "f", FileType::kRegular, wire::kOpenWrite);
  client::LocalAnswers& answers = queued().answers();
  EXPECT_FALSE(answers.open(file, 0).has_value()) << "it is being written";
  EXPECT_FALSE(answers.open(d_, 0).has_value()) << "it is a directory";
  EXPECT_TRUE(queued().close({file, Rights::kWrite}, 0)) << "nothing was written";
  EXPECT_OK(run(*a_, queued().send_all(a_->client().session().limits())));
  asked_.clear();
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(answers.open(file, 0).has_value()) << i;
    if (i > 0) EXPECT_TRUE(queued().close({file, Rights::kRead}, 0)) << i;
  }
  world_.run_for(seconds(1));
  EXPECT_TRUE(answers.open(file, 0).has_value()) << "the answer to opens takes no delegation";
  EXPECT_TRUE(queued().close({file, Rights::kRead}, 0)) << "the answer to opens takes no delegation";
  EXPECT_EQ(asked_[wire::Op::kOpen] + asked_[wire::Op::kClose], 0U);
  EXPECT_OK(run(*b_, b_->client().unlink(path_from_root("d/f"))));
  EXPECT_EQ(run(*a_, a_->client().stat({file, "", 0})).value().attributes.link_count, 0U) << "it is open here";
  EXPECT_FALSE(queued().close({file, Rights::kRead}, 0)) << "after the recall";
}

TEST_F(QueuedChangesTest, ListingsAreAnsweredLocally) {
  client::LocalAnswers& answers = queued().answers();
  const Handle sub = made(d_, "sub", FileType::kDirectory);
  std::map<std::string, Handle> names;
  for (int i = 0; i < 20; ++i) names[fmt::format("f{}", i)] = made(sub, fmt::format("f{}", i));
  EXPECT_TRUE(answers.remove({sub, "f7", 0}, wire::Op::kUnlink, 0)) << "it has one name";
  names.erase("f7");
  asked_.clear();
  const auto all = answers.list(sub);
  ASSERT_TRUE(all.has_value()) << "all names are known";
  EXPECT_TRUE(all->end) << "it is one page";
  EXPECT_EQ(all->parent, d_);
  std::map<std::string, Handle> listed;
  std::uint64_t last = 2;
  for (const wire::DirectoryEntry& entry : all->entries) {
    listed[entry.name] = entry.handle;
    EXPECT_GT(entry.cookie, last) << entry.name;
    EXPECT_LT(entry.cookie, client::kLocalCookies) << entry.name;
    last = entry.cookie;
  }
  EXPECT_EQ(listed, names);
  EXPECT_TRUE(asked_.empty()) << "a server was asked";
  EXPECT_FALSE(answers.list(names["f3"]).has_value()) << "it is a file";
  EXPECT_OK(run(*a_, a_->client().rename({d_, "sub", 0}, path_from_root("moved"), {})));
  EXPECT_FALSE(answers.list(sub).has_value()) << "it has another parent";
  EXPECT_EQ(list(*b_, d_).size(), 0U);
}

TEST_F(QueuedChangesTest, AFileWithAnotherNameIsRemovedByTheServer) {
  made(d_, "f");
  EXPECT_OK(run(*a_, a_->client().link({d_, "f", 0}, path_from_root("other"))));
  EXPECT_FALSE(queued().answers().remove({d_, "f", 0}, wire::Op::kUnlink, 0).has_value()) << "it has two names";
  EXPECT_OK(run(*a_, a_->client().unlink({d_, "f", 0})));
  EXPECT_EQ(stat(*b_, "other").value().link_count, 1U);
}

/// The device of the meta server is full when the changes arrive.
TEST_F(QueuedChangesTest, AChangeThatTheServerRefusesHasNoEffectAndIsTold) {
  bool& full = world_.disks(kMetaServer).records.faults.short_of_space;
  for (const FileType type : {FileType::kRegular, FileType::kDirectory, FileType::kSymlink}) {
    const std::string name = fmt::format("t{}", static_cast<int>(type));
    const Handle directory = new_directory(name);
    const std::uint64_t lost = queued().counters().lost;
    full = true;
    const Handle refused = made(directory, "f", type);
    EXPECT_TRUE(run(*a_, queued().send_all_within(seconds(5)))) << "changes are left";
    full = false;
    world_.run_for(milliseconds(20));
    EXPECT_EQ(queued().counters().lost, lost + 1) << name;
    const auto failure = queued().failures().take(refused);
    ASSERT_TRUE(failure.has_value()) << name;
    EXPECT_EQ(failure->code(), Errc::kNoSpace) << name;
    EXPECT_FALSE(queued().failures().take(refused).has_value()) << "it is told once";
    EXPECT_ERRC(stat(*a_, name + "/f"), Errc::kNotFound);
    EXPECT_EQ(stat(*a_, name).value().size, 0U) << name;
    EXPECT_OK(run(*a_, a_->client().mkdir(path_from_root(name + "/f"), {})));
    EXPECT_EQ(list(*b_, directory), std::vector<std::string>{"f"});
  }
  // Another change of the same batch is made.
  for (const FileType type : {FileType::kRegular, FileType::kDirectory, FileType::kSymlink}) {
    const std::string name = fmt::format("m{}", static_cast<int>(type));
    const Handle directory = new_directory(name);
    wire::SetattrRequest change;
    change.where.start = made(directory, "g");
    EXPECT_TRUE(run(*a_, queued().send_all_within(seconds(5)))) << name;
    world_.run_for(milliseconds(20));
    full = true;
    change.mode = 0600;
    ASSERT_TRUE(queued().set(change, 0).has_value()) << name;
    made(directory, "f", type);
    EXPECT_TRUE(run(*a_, queued().send_all_within(seconds(5)))) << name;
    full = false;
    EXPECT_EQ(stat(*a_, name).value().size, 1U) << name;
    EXPECT_EQ(stat(*a_, name + "/g").value().mode, 0600U) << name;
  }
  const Handle directory = new_directory("opened");
  full = true;
  const Handle file = made(directory, "f", FileType::kRegular, wire::kOpenWrite);
  EXPECT_ERRC(run(*a_, a_->client().queued_files().open(file, wire::kOpenWrite)), Errc::kNoSpace);
  full = false;
}

/// A list that says no more than a mode is a chmod, as long as no request has given the object another list.
TEST_F(QueuedChangesTest, AShortAccessListIsAMode) {
  const Handle file = made(d_, "f", FileType::kRegular, kReadWrite);
  const auto set = queued().answers().set_permissions(file, 0640, 0);
  ASSERT_TRUE(set.has_value()) << "the server is asked";
  EXPECT_EQ((*set)->mode, 0640U);
  const auto removed = queued().answers().set_permissions(made(d_, "below", FileType::kDirectory), std::nullopt, 0);
  ASSERT_TRUE(removed.has_value()) << "the server is asked to remove a list that is not there";
  EXPECT_EQ((*removed)->mode, 0644U) << "a mode has changed";
  EXPECT_EQ(stat(*b_, "d/f")->mode, 0640U);
  const Handle e = new_directory("e");
  const Handle other = made(e, "f");
  wire::SetxattrRequest list;
  list.where.start = other;
  list.name = "user.x";
  EXPECT_OK(run(*a_, a_->client().setxattr(list)));
  EXPECT_FALSE(queued().answers().set_permissions(other, 0640, 0).has_value()) << "it may have a list";
}

/// The client is silent until its session has ended. Its queue is lost then, is counted, and is not sent later.
TEST_F(QueuedChangesTest, TheEndOfTheSessionLosesTheQueue) {
  const Handle kept = made(d_, "kept");
  EXPECT_TRUE(run(*a_, queued().send_all_within(seconds(5)))) << "something was not sent";
  world_.fabric().links().partition(kMetaServer.value, a_->node(), true);
  const Handle lost = made(d_, "lost", FileType::kRegular, wire::kOpenWrite);
  made(d_, "lost too");
  world_.run_for(seconds(60));
  EXPECT_EQ(list(*b_, d_), std::vector<std::string>{"kept"}) << "while it is silent";
  world_.fabric().links().partition(kMetaServer.value, a_->node(), false);
  world_.run_for(seconds(30));
  EXPECT_ERRC(stat(*a_, "d/lost"), Errc::kNotFound);
  EXPECT_EQ(stat(*a_, "d/kept").value().handle, kept);
  EXPECT_EQ(queued().counters().lost, 2U);
  EXPECT_ERRC(run(*a_, a_->client().queued_files().open(lost, wire::kOpenWrite)), Errc::kSessionFenced);
  EXPECT_EQ(list(*b_, d_), std::vector<std::string>{"kept"});
  const Handle next = new_directory("next");
  EXPECT_TRUE(make(next, "f")) << "in the next session it queues again";
  EXPECT_EQ(list(*b_, next), std::vector<std::string>{"f"});
}

/// No program misses them: the meta server ends all opens with the session.
TEST_F(QueuedChangesTest, OpensAndClosesOfReadersAreNotTold) {
  const Handle file = made(d_, "f", FileType::kRegular, wire::kOpenWrite);
  EXPECT_TRUE(queued().close({file, Rights::kWrite}, 0)) << "the close is queued";
  EXPECT_TRUE(run(*a_, queued().send_all_within(seconds(5)))) << "something was not sent";
  world_.fabric().links().partition(kMetaServer.value, a_->node(), true);
  for (const bool reads : {false, true}) {
    ASSERT_TRUE(queued().answers().open(file, 0).has_value()) << reads;
    const auto read_at = reads ? std::optional(a_->client().session().fs_time()) : std::nullopt;
    EXPECT_TRUE(queued().close({file, Rights::kRead, read_at}, 0)) << reads;
  }
  EXPECT_EQ(queued().counters().waiting, 4U);
  world_.run_for(seconds(60));
  world_.fabric().links().partition(kMetaServer.value, a_->node(), false);
  world_.run_for(seconds(30));
  EXPECT_EQ(stat(*a_, "d/f").value().handle, file);
  EXPECT_EQ(queued().counters().waiting, 0U);
  EXPECT_EQ(queued().counters().lost, 0U);
  EXPECT_FALSE(queued().failures().any()) << "nothing has failed";
}

/// Their close changes nothing that extended attributes have, unlike a change of the mode.
TEST_F(QueuedChangesTest, ExtendedAttributesDoNotWaitForClosesOfReaders) {
  const Handle file = made(d_, "f", FileType::kRegular, wire::kOpenWrite);
  EXPECT_TRUE(queued().close({file, Rights::kWrite}, 0)) << "the close is queued";
  EXPECT_TRUE(run(*a_, queued().send_all_within(seconds(5)))) << "something was not sent";
  ASSERT_TRUE(queued().answers().open(file, 0).has_value()) << "the open is answered locally";
  EXPECT_TRUE(queued().close({file, Rights::kRead}, 0)) << "the close is queued";
  EXPECT_ERRC(run(*a_, a_->client().getxattr({file, "", 0}, "user.x")), Errc::kNoAttribute);
  EXPECT_EQ(queued().counters().waiting, 2U);
}

/// The holder is silent, and another client waits until the session of the holder has ended.
TEST_F(QueuedChangesTest, ASilentHolderIsFenced) {
  made(d_, "f");
  world_.fabric().links().partition(kMetaServer.value, a_->node(), true);
  client::Options options = small_client_options({}, {}, {});
  options.deadline = std::chrono::minutes(5);
  ClientProcess& patient = world_.start_client(std::move(options));
  EXPECT_ERRC(run(patient, patient.client().stat(path_from_root("d/f"))), Errc::kNotFound);
  EXPECT_OK(run(patient, patient.client().mkdir(path_from_root("d/f"), {})));
  world_.fabric().links().partition(kMetaServer.value, a_->node(), false);
  world_.run_for(seconds(30));
  EXPECT_EQ(stat(*a_, "d/f").value().type, FileType::kDirectory);
}

}  // namespace
}  // namespace spate::cluster
