// SPDX-License-Identifier: Apache-2.0
// A server that does not lead a group says that it does. All servers have the same key.
#include <gmock/gmock.h>

#include "base/expect.h"
#include "rpc/channel.h"
#include "server/io/mirror/group_record_client.h"
#include "tests/mirror/mirror_world.h"
#include "wire/mirror_forward_messages.h"

namespace spate::cluster {
namespace {

constexpr std::uint32_t kNode = 4000;

/// It has the server key, and says that it is this server.
class OtherServer final : public Process {
 public:
  OtherServer(World& world, ServerId says, ServerId asks) : Process(world.ether(), kNode, 1), world_(world) {
    const ServerSettings& settings = world.settings();
    identity_.kind = wire::PeerKind::kServer;
    identity_.fs = settings.map.fs;
    identity_.key = settings.server_key;
    identity_.server = says;
    channel_ =
        std::make_unique<rpc::Channel>(rpc::channel_to(*settings.map.find_server(asks)), *context_, identity_, random_);
  }
  ~OtherServer() override { die(); }
  void die() override { channel_.reset(); }
  bool ended() const override { return true; }

  template <typename Reply, typename Request>
  Result<Reply> ask(const Request& request) {
    return run(channel_->call<Reply>(request, {}));
  }
  /// The records of these groups, as an io server reads them.
  Result<std::vector<DataGroup>> read(std::vector<TargetId> groups) {
    io::GroupRecordClient records(*world_.settings().map.find_server(kMetaServer), *context_, identity_, random_);
    return run(records.read(std::move(groups), {}));
  }

 private:
  template <typename T>
  T run(job::Task<T> task) {
    std::optional<T> out;
    job::Gate gate(executor_);
    job::spawn(gate, into(std::move(task), out));
    while (!out) {
      while (executor_.step()) {
      }
      world_.run_for(std::chrono::milliseconds(1));
    }
    return *std::move(out);
  }
  template <typename T>
  static job::Task<void> into(job::Task<T> task, std::optional<T>& out) {
    out.emplace(co_await std::move(task));
  }

  World& world_;
  rpc::Identity identity_;
  std::unique_ptr<rpc::Channel> channel_;
};

class OtherServerTest : public ::testing::Test {
 protected:
  OtherServerTest() {
    ClientProcess& client = mirrors_.world.start_client();
    client::NewObject object;
    object.layout.slot_count = 1;
    auto made = call(mirrors_.world, client, client.client().create(client::path_from_root("f"), kMirrorOpen, object));
    EXPECT_OK(made);
    file_ = *std::move(made);
    const Bytes data(1000, std::byte{7});
    EXPECT_OK(call(mirrors_.world, client, file_->write(0, data)));
    EXPECT_TRUE(mirrors_.become_whole()) << "a group lacks a copy";
    group_ = mirrors_.group_of(*file_);
    backup_ = mirrors_.backup_of(*file_);
    for (const ServerId id : {ServerId(2), ServerId(3), ServerId(4)}) {
      if (id != backup_ && id != server_of(group_.primary)) third_ = id;
    }
  }
  wire::MirrorForwardRequest truncation() const {
    wire::MirrorForwardRequest request;
    request.group = group_.id;
    request.epoch = request.term = group_.epoch;
    request.number = 1000;
    request.handle = file_->handle();
    request.change = wire::MirrorChange::kTruncate;
    return request;
  }
  Bytes copy() { return *mirrors_.world.disks(backup_).targets.front()->content({file_->handle(), 0}); }

  MirrorWorld mirrors_;
  std::unique_ptr<client::File> file_;
  DataGroup group_;
  ServerId backup_;
  ServerId third_;  // not of the group
};

TEST_F(OtherServerTest, CannotChangeDatafilesOrReadRecords) {
  OtherServer other(mirrors_.world, third_, backup_);
  const Bytes before = copy();
  const auto forwarded = other.ask<wire::MirrorForwardReply>(truncation());
  ASSERT_OK(forwarded);
  EXPECT_EQ(forwarded->verdict, wire::MirrorVerdict::kStranger);
  EXPECT_EQ(copy(), before);
  wire::MirrorRecordsRequest records;
  records.group = group_.id;
  records.epoch = group_.epoch;
  const auto told = other.ask<wire::MirrorRecordsReply>(records);
  ASSERT_OK(told);
  EXPECT_EQ(told->verdict, wire::MirrorVerdict::kStranger);
}

TEST_F(OtherServerTest, CannotSendANewRecord) {
  OtherServer other(mirrors_.world, third_, backup_);
  wire::MirrorObeyRequest accept;
  accept.record = group_;
  accept.record.epoch += 10;
  accept.term = accept.record.epoch;
  const auto accepted = other.ask<wire::MirrorObeyReply>(accept);
  ASSERT_OK(accepted);
  EXPECT_EQ(accepted->verdict, wire::MirrorVerdict::kStranger);
  wire::MirrorBeaconRequest beacon;
  beacon.groups.push_back({accept.record, accept.term, 1});
  const auto answered = other.ask<wire::MirrorBeaconReply>(beacon);
  ASSERT_OK(answered);
  EXPECT_EQ(answered->groups.front().flags, 0);
  mirrors_.world.run_for(std::chrono::seconds(5));
  EXPECT_EQ(mirrors_.group_of(*file_), group_) << "the members serve as before";
}

/// More groups than the meta server tells at once.
TEST_F(OtherServerTest, ReadsTheRecordsOfAllItsGroups) {
  std::set<std::vector<TargetId>> lists;  // of targets that no server has: nobody minds these groups
  for (std::uint32_t i = 100; i < 165; ++i) {
    for (std::uint32_t j = 100; j < 165; ++j) lists.insert({target_id(ServerId(2), i), target_id(ServerId(3), j)});
  }
  meta::DataGroups& groups = mirrors_.world.server(kMetaServer)->meta()->core().data_groups();
  ClientProcess& any = mirrors_.world.start_client();
  ASSERT_OK(call(mirrors_.world, any, groups.make(lists, 1, {})));
  std::vector<TargetId> wanted;
  for (const auto& [id, group] : groups.all()) wanted.push_back(id);
  ASSERT_GT(wanted.size(), wire::kMaxGroupsAsked);
  OtherServer other(mirrors_.world, third_, kMetaServer);
  const auto found = other.read(wanted);
  ASSERT_OK(found);
  EXPECT_EQ(found->size(), wanted.size());
}

TEST_F(OtherServerTest, MayNotChangeTheRecord) {
  OtherServer other(mirrors_.world, third_, kMetaServer);
  wire::ChangeGroupRequest request;
  request.from_epoch = group_.epoch;
  request.by = group_.primary;
  request.next = group_;
  ++request.next.epoch;
  EXPECT_ERRC(other.ask<wire::ChangeGroupReply>(request), Errc::kNotPermitted);
  EXPECT_EQ(mirrors_.group_of(*file_), group_);
}

}  // namespace
}  // namespace spate::cluster
