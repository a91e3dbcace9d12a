// SPDX-License-Identifier: Apache-2.0
// ReplacementTest: the scenes in which a member that stays away is replaced by another server.
#pragma once

#include <gmock/gmock.h>

#include "base/expect.h"
#include "base/expect_bytes.h"
#include "model/member_choice.h"
#include "tests/cluster/io_service_access.h"
#include "tests/mirror/mirror_world.h"

namespace spate::cluster {

inline constexpr Duration kAfter = std::chrono::seconds(20);
inline constexpr std::size_t kCopyBytes = 300'000;

inline WorldOptions options_of(std::uint32_t io_servers) {
  WorldOptions options = mirror_options();
  options.io_servers = io_servers;
  options.rebuild_after = kAfter;
  return options;
}

inline Bytes copy_of(std::uint8_t with, std::size_t size = kCopyBytes) {
  return Bytes(size, static_cast<std::byte>(with));
}

/// A file on two of the servers.
class ReplacementTest : public ::testing::Test {
 protected:
  void begin(const WorldOptions& options, const Bytes& content = copy_of(1)) {
    mirrors_ = std::make_unique<MirrorWorld>(options);
    client_ = &world().start_client();
    file_ = create("f");
    write(content);
    ASSERT_TRUE(mirrors_->become_whole()) << "a group lacks a copy";
  }
  World& world() { return mirrors_->world; }
  template <typename T>
  T run(job::Task<T> task) {
    return call(world(), *client_, std::move(task));
  }
  std::unique_ptr<client::File> create(const std::string& name) {
    client::NewObject object;
    object.layout.slot_count = 1;
    auto made = run(client_->client().create(client::path_from_root(name), kMirrorOpen, object));
    EXPECT_OK(made);
    return made ? *std::move(made) : nullptr;
  }
  void write(const Bytes& data) {
    content_ = data;
    EXPECT_OK(run(file_->write(0, data)));
  }
  void expect_content() {
    Bytes found(content_.size() + 100);
    const auto got = run(file_->read(0, found));
    ASSERT_OK(got);
    found.resize(*got);
    EXPECT_BYTES(found, content_);
  }
  /// The servers that are members of the file's group.
  std::vector<ServerId> members() {
    std::vector<ServerId> servers;
    for (const GroupMember& member : mirrors_->group_of(*file_).members) servers.push_back(server_of(member.target));
    std::ranges::sort(servers);
    return servers;
  }
  bool is_member(ServerId server) { return std::ranges::count(members(), server) != 0; }
  /// Lets time pass until another server has taken the place of this one in the file's group, and has a whole copy.
  /// False: none has after `at_most`.
  bool is_replaced(ServerId server, Duration at_most = kAfter + std::chrono::seconds(30)) {
    const MonoTime limit = world().now() + at_most;
    const auto done = [this, server] { return !is_member(server) && mirrors_->group_of(*file_).is_whole(); };
    while (!done() && world().now() < limit) world().run_for(std::chrono::milliseconds(100));
    return done();
  }
  /// Datafiles on the disks of a server.
  std::size_t datafiles(ServerId server) {
    std::size_t count = 0;
    for (const auto& disk : world().disks(server).targets) count += disk->list({}, 1000).size();
    return count;
  }
  /// Groups of which this server has old copies to remove.
  std::size_t old_copies(ServerId server) {
    return io::IoServiceTestAccess::groups_with_old_copies(*world().server(server)->io());
  }
  /// Removals on the disks of a server fail from now on, or do so no more.
  void refuse_removals(ServerId server, bool on) {
    for (const auto& disk : world().disks(server).targets) {
      if (on) disk->faults().refuse(trove::BytestreamOp::kRemove, Errc::kIoError);
      if (!on) disk->faults().clear();
    }
  }
  std::uint64_t refusals(ServerId server) {
    std::uint64_t sum = 0;
    for (const auto& disk : world().disks(server).targets) sum += disk->faults().refusals();
    return sum;
  }
  /// Creates files until one has a backup that would keep the copy on its other storage device if it were chosen again.
  bool find_file_that_would_move() {
    for (int i = 0; i < 30; ++i) {
      file_ = create("moves" + std::to_string(i));
      DataGroup group = mirrors_->group_of(*file_);
      for (GroupMember& member : group.members) {
        if (member.target == group.primary) continue;
        const TargetId now = member.target;
        member.target = TargetId(kFirstGroup.value - 1);  // of no server
        const std::vector<TargetId> chosen = replacements(world().settings().map, group, member.target);
        if (std::ranges::any_of(chosen, [now](TargetId t) { return server_of(t) == server_of(now) && t != now; }))
          return true;
      }
    }
    return false;
  }
  /// Its machine loses power, and what it has not synced.
  void kill(ServerId server) {
    EXPECT_OK(run(file_->sync()));
    mirrors_->kill(server, bmi::sim::Death::kMachine);
  }

  std::unique_ptr<MirrorWorld> mirrors_;
  ClientProcess* client_ = nullptr;
  std::unique_ptr<client::File> file_;
  Bytes content_;
};

}  // namespace spate::cluster
