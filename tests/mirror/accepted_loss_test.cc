// SPDX-License-Identifier: Apache-2.0
// The only member that has everything is gone for good, and an operator lets an older copy lead.
#include "base/expect.h"
#include "base/expect_bytes.h"
#include "fsck/servers.h"
#include "tests/cluster/io_service_access.h"
#include "tests/mirror/mirror_world.h"
#include "wire/mirror_messages.h"

namespace spate::cluster {
namespace {

using bmi::sim::Death;
using FilePtr = std::unique_ptr<client::File>;
using namespace std::chrono_literals;

Bytes content(std::uint8_t with, std::size_t size = 300'000) { return Bytes(size, static_cast<std::byte>(with)); }

/// A file on two servers.
class AcceptedLossTest : public ::testing::Test {
 protected:
  ~AcceptedLossTest() override { planted_defect = Defect::kNone; }
  void begin(std::uint64_t seed = 1) {
    WorldOptions options = mirror_options(seed);
    options.io_servers = 2;
    options.rebuild_after = Duration(0);
    planted_defect = Defect::kNone;
    mirrors_ = std::make_unique<MirrorWorld>(options);
    planted_defect = defect_;
    client_ = &world().start_client();
    file_ = create("f");
    EXPECT_OK(run(file_->write(0, content(1))));
    ASSERT_TRUE(mirrors_->become_whole()) << "a group lacks a copy";
    newer_ = mirrors_->primary_of(*file_);
    older_ = mirrors_->backup_of(*file_);
  }
  World& world() { return mirrors_->world; }
  template <typename T>
  T run(job::Task<T> task) {
    return call(world(), *client_, std::move(task));
  }
  FilePtr create(const std::string& name) {
    client::NewObject object;
    object.layout.slot_count = 1;
    auto made = run(client_->client().create(client::path_from_root(name), kMirrorOpen, object));
    EXPECT_OK(made);
    return made ? *std::move(made) : nullptr;
  }
  /// One server goes on alone, and then is lost, too. The other one comes back.
  void lose_the_newer_copy(Death death = Death::kProcess) {
    mirrors_->kill(older_, death);
    EXPECT_OK(run(file_->write(0, content(2))));
    EXPECT_OK(run(file_->write(900'000, content(2))));
    EXPECT_OK(run(file_->sync()));
    mirrors_->kill(newer_, death);
    mirrors_->restart(older_);
  }
  void expect_content(const Bytes& wanted) {
    Bytes found(wanted.size() + 100);
    const auto got = run(file_->read(0, found));
    ASSERT_OK(got);
    found.resize(*got);
    EXPECT_BYTES(found, wanted);
  }
  Result<wire::ChangeGroupReply> ask(const wire::ChangeGroupRequest& request) {
    ClientProcess& process = world().start_client();
    fsck::ServersOptions options;
    options.map = world().settings().map;
    options.server_key = world().settings().server_key;
    options.deadline = 2s;
    fsck::Servers servers(options, process.client().session().network(), world().random());
    return call(world(), process, servers.ask_meta<wire::ChangeGroupReply>(request));
  }
  /// As `spate server lost` asks for each group.
  Result<wire::ChangeGroupReply> accept_loss() { return accept_loss(mirrors_->group_of(*file_)); }
  Result<wire::ChangeGroupReply> accept_loss(const DataGroup& group) {
    wire::ChangeGroupRequest request;
    request.from_epoch = group.epoch;
    for (const GroupMember& member : group.members) {
      if (server_of(member.target) == older_) request.next = without_serving(group, member.target);
    }
    return ask(request);
  }

  /// Returns what is wrong in the end.
  std::string change_alone(std::uint64_t seed) {
    begin(seed);
    const FilePtr cut = create("cut");
    EXPECT_OK(run(cut->write(0, content(4))));
    if (!mirrors_->become_whole()) return "a group lacks a copy";
    mirrors_->kill(older_, seed % 2 == 0 ? Death::kMachine : Death::kProcess);
    EXPECT_OK(run(file_->write(0, content(2))));
    EXPECT_OK(run(client_->client().truncate(client::path_from_root("cut"), 10)));
    const FilePtr late = create("late");
    EXPECT_OK(run(late->write(0, content(5))));
    world().run_for(std::chrono::seconds(seed % 12));           // windows of the change log
    EXPECT_OK(run(file_->write(2'000'000, content(8, 5000))));  // not synced
    mirrors_->kill(newer_, seed % 3 == 0 ? Death::kMachine : Death::kProcess);
    mirrors_->restart(older_);
    world().run_for(11s);  // the meta server has heard the lost one until now
    for (const auto& [id, group] : mirrors_->groups()) {
      if (server_of(group.primary) == newer_) EXPECT_OK(accept_loss(group));
    }
    EXPECT_OK(run(file_->write(5, content(6, 20))));
    EXPECT_OK(run(cut->write(5, content(7, 20))));
    EXPECT_OK(run(client_->client().truncate(client::path_from_root("cut"), 100)));
    mirrors_->restart(newer_);
    if (!mirrors_->become_whole()) return "a group lacks a copy";
    return mirrors_->differences();
  }
  /// The lost server only stood still, and goes on when another one leads. Returns the file's first byte: 3, unless a
  /// later write of 9 counts.
  std::byte stand_still() {
    begin();
    mirrors_->kill(older_);
    EXPECT_OK(run(file_->write(0, content(2))));
    world().pause(newer_, true);
    mirrors_->restart(older_);
    world().run_for(11s);
    EXPECT_OK(accept_loss());
    ClientProcess& other = world().start_client();
    auto opened = call(world(), other, other.client().open(client::path_from_root("f"), kMirrorOpen));
    SPATE_CHECK(opened.has_value());
    const Bytes data = content(3);
    EXPECT_OK(call(world(), other, (*opened)->write(0, data)));
    const Bytes last = content(9, 1000);
    const auto late = begin_call(*client_, file_->write(0, last));
    world().run_for(100ms);  // it lies in the socket of the server that stands still
    world().pause(newer_, false);
    EXPECT_OK(end_call(world(), late));
    EXPECT_TRUE(mirrors_->become_whole()) << "a group lacks a copy";
    EXPECT_EQ(mirrors_->differences(), "");
    Bytes found(1);
    EXPECT_OK(run(file_->read(0, found)));
    return found[0];
  }

  std::unique_ptr<MirrorWorld> mirrors_;
  ClientProcess* client_ = nullptr;
  FilePtr file_;
  Defect defect_ = Defect::kNone;  // planted by begin()
  ServerId newer_;
  ServerId older_;
};

TEST_F(AcceptedLossTest, TheOlderCopyLeadsAndTheServerThatReturnsReceivesIt) {
  begin();
  lose_the_newer_copy();
  Bytes room(10);
  EXPECT_ERRC(run(file_->read(0, room)), Errc::kTimeout) << "an older copy leads by itself";
  world().run_for(11s);
  ASSERT_OK(accept_loss());
  expect_content(content(1));
  EXPECT_OK(run(file_->write(100'000, content(3, 1000))));
  Bytes wanted = content(1);
  std::fill_n(wanted.begin() + 100'000, 1000, std::byte{3});
  expect_content(wanted);
  mirrors_->restart(newer_);
  ASSERT_TRUE(mirrors_->become_whole()) << "a group lacks a copy";
  EXPECT_EQ(mirrors_->primary_of(*file_), older_) << "the newer records lead again";
  EXPECT_EQ(mirrors_->differences(), "");
  mirrors_->kill(older_);
  expect_content(wanted);
}

/// The lost server had removed, truncated and made files alone.
TEST_F(AcceptedLossTest, NothingOfTheLostServersChangesComesBack) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) EXPECT_EQ(change_alone(seed), "") << seed;
}

TEST_F(AcceptedLossTest, CopiesThatAreBelievedAreFound) {
  defect_ = Defect::kOtherHistoryBelieved;
  std::string found;
  for (std::uint64_t seed = 1; seed <= 200 && found.empty(); ++seed) found = change_alone(seed);
  std::printf("%s\n", found.c_str());
  EXPECT_NE(found, "");
}

TEST_F(AcceptedLossTest, AServerThatStoodStillAnswersNothingOldAfterwards) { EXPECT_EQ(stand_still(), std::byte{9}); }

TEST_F(AcceptedLossTest, AServerThatStandsStillAndGoesOnIsFound) {
  defect_ = Defect::kSleeperLeads;
  EXPECT_EQ(stand_still(), std::byte{3}) << "a write that was acknowledged is not lost";
}

TEST_F(AcceptedLossTest, NobodyIsPassedOverWhoAnswersTheMetaServer) {
  begin();
  mirrors_->kill(older_);
  EXPECT_OK(run(file_->write(0, content(2))));
  mirrors_->restart(older_);
  mirrors_->cut(newer_, older_, true);
  world().run_for(5s);
  EXPECT_ERRC(accept_loss(), Errc::kTryAgain);
  mirrors_->kill(newer_);
  EXPECT_ERRC(accept_loss(), Errc::kTryAgain);  // it was there a moment ago
  world().run_for(11s);
  EXPECT_OK(accept_loss());
  expect_content(content(1));
}

}  // namespace
}  // namespace spate::cluster
