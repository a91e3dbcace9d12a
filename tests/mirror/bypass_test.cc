// SPDX-License-Identifier: Apache-2.0
// A client on the primary's machine never reads or writes the datafiles of a mirrored file by itself: the other members
// would not get what it writes.
#include <optional>

#include "base/expect.h"
#include "base/expect_bytes.h"
#include "tests/mirror/mirror_world.h"
#include "wire/bypass_messages.h"

namespace spate::cluster {
namespace {

using FilePtr = std::unique_ptr<client::File>;

constexpr std::size_t kBypassBytes = 100'000;

client::Options bypass_options() {
  client::Options options = small_client_options({}, {}, {});
  options.bypass = client::BypassMode::kWrite;
  options.bypass_when = {0, 0, Duration(0)};
  return options;
}

WorldOptions mirror_lending_options(std::uint32_t replicas) {
  WorldOptions options = mirror_options();
  options.io_servers = 2;
  options.replicas = replicas;
  options.bypass = io::BypassPolicy::kWrite;
  return options;
}

class MirrorBypassTest : public ::testing::Test {
 protected:
  void begin(std::uint32_t replicas) {
    mirrors_.emplace(mirror_lending_options(replicas));
    mirrors_->world.watch().on_arrival([this](const WatchedRequest& request) {
      if (request.op == wire::Op::kBypassLease) ++leases_asked_;
    });
    client_ = &mirrors_->world.start_client_beside(ServerId(2), bypass_options());
    other_ = &mirrors_->world.start_client_beside(ServerId(3), bypass_options());
    client::NewObject object;
    object.layout.slot_count = 1;
    auto made = run(*client_, client_->client().create(client::path_from_root("f"), kMirrorOpen, object));
    ASSERT_OK(made);
    file_ = *std::move(made);
  }
  template <typename T>
  T run(ClientProcess& client, job::Task<T> task) {
    return call(mirrors_->world, client, std::move(task));
  }
  /// Writes and reads the file often enough for a lease.
  void use(ClientProcess& client, client::File& file, std::uint8_t first) {
    for (std::uint8_t i = 0; i < 5; ++i) {
      const Bytes data(kBypassBytes, static_cast<std::byte>(first + i));
      ASSERT_OK(run(client, file.write(0, data)));
      Bytes found(kBypassBytes);
      ASSERT_OK(run(client, file.read(0, found)));
      EXPECT_BYTES(found, data);
    }
  }

  std::optional<MirrorWorld> mirrors_;
  ClientProcess* client_ = nullptr;
  ClientProcess* other_ = nullptr;
  FilePtr file_;
  int leases_asked_ = 0;
};

TEST_F(MirrorBypassTest, MirroredFilesTakeTheWayThroughTheServers) {
  begin(2);
  use(*client_, *file_, 1);
  auto opened = run(*other_, other_->client().open(client::path_from_root("f"), kMirrorOpen));
  ASSERT_OK(opened);
  use(*other_, **opened, 10);
  EXPECT_EQ(mirrors_->world.bypassed_bytes(), 0U) << "a client has moved data of a mirrored file by itself";
  EXPECT_EQ(leases_asked_, 0) << "a client has asked for a lease that the server must refuse";
  EXPECT_EQ(mirrors_->differences(), "");
}

/// Otherwise the test above would show nothing.
TEST_F(MirrorBypassTest, OtherFilesAreBypassedInTheSameWorld) {
  begin(1);
  use(*client_, *file_, 1);
  auto opened = run(*other_, other_->client().open(client::path_from_root("f"), kMirrorOpen));
  ASSERT_OK(opened);
  use(*other_, **opened, 10);
  EXPECT_GT(mirrors_->world.bypassed_bytes(), 0U) << "no client is on the right machine";
  EXPECT_GT(leases_asked_, 0);
}

TEST_F(MirrorBypassTest, ThePathThatIsForcedIsRefusedWithTheReason) {
  begin(2);
  use(*client_, *file_, 1);
  file_->force_path(wire::DataPath::kBypass);
  const Bytes data(kBypassBytes);
  const auto refused = run(*client_, file_->write(0, data));
  EXPECT_ERRC(refused, Errc::kNotSupported);
  EXPECT_NE(refused.error().message().find("the file's data is mirrored"), std::string::npos)
      << refused.error().message();
}

/// Asks the server of the target `at` for a lease as no client of ours does: the slot is named by a group, or by one of
/// its targets.
job::Task<Result<wire::BypassLeaseReply>> ask_for_lease(client::Client& client, TargetId named, TargetId at) {
  wire::OpenRequest open;
  open.where = client::path_from_root("f");
  open.open_flags = kMirrorOpen;
  SPATE_CO_TRY(const wire::OpenReply opened, co_await client.cluster().change(open, client.session().limits()));
  wire::BypassLeaseRequest request;
  request.handle = opened.object.attributes.handle;
  request.slots = {{0, named}};
  request.for_writing = true;
  SPATE_CO_TRY(rpc::Channel* const channel, client.session().servers().io_channel(at));
  rpc::CallOptions options = client.session().limits().call_options();
  options.capability = &opened.capability;
  auto reply = co_await channel->call<wire::BypassLeaseReply>(request, options);
  co_return reply;
}

TEST_F(MirrorBypassTest, TheServerGrantsNoLeaseWhoeverAsks) {
  begin(2);
  use(*client_, *file_, 1);
  const DataGroup group = mirrors_->group_of(*file_);
  // On another machine than the primary's it would be refused for that.
  ClientProcess& asker = mirrors_->primary_of(*file_) == ServerId(2) ? *client_ : *other_;
  const auto refused = run(asker, ask_for_lease(asker.client(), group.id, group.primary));
  ASSERT_OK(refused);
  EXPECT_EQ(refused->leases.front().lease_id, 0U);
  EXPECT_NE(refused->leases.front().refusal.find("other servers have copies"), std::string::npos)
      << refused->leases.front().refusal;
  for (const GroupMember& member : group.members)
    EXPECT_ERRC(run(asker, ask_for_lease(asker.client(), member.target, member.target)), Errc::kCapabilityInvalid);
}

}  // namespace
}  // namespace spate::cluster
