// SPDX-License-Identifier: Apache-2.0
// RenewalTest: a member of a file's group has lost its copy.
#pragma once

#include <array>

#include "fsck/servers.h"
#include "tests/mirror/replacement_fixture.h"
#include "wire/check_messages.h"

namespace spate::cluster {

class RenewalTest : public ReplacementTest {
 protected:
  /// One server is left with the only copy of the file's datafile: the primary. The other member has lost its own.
  void SetUp() override {
    begin(mirror_options());
    good_ = mirrors_->primary_of(*file_);
    poor_ = mirrors_->backup_of(*file_);
    EXPECT_OK(run(file_->sync()));
    world().run_for(std::chrono::seconds(40));  // until the change log names the datafile no more
    mirrors_->kill(poor_);
    world().run_for(std::chrono::seconds(5));  // it is left out, and its process has ended
    remove_copy(poor_);
    mirrors_->restart(poor_);
    ASSERT_TRUE(mirrors_->become_whole()) << "a group lacks a copy";
    ASSERT_FALSE(copy_on(poor_)) << "the change log still named it";
    ASSERT_EQ(mirrors_->primary_of(*file_), good_);
    request_.group = mirrors_->group_of(*file_).id;
    request_.member = target_on(poor_);
    request_.source = target_on(good_);
    request_.datafiles.push_back({datafile().handle, {datafile().slot, request_.member}});
  }
  DatafileId datafile() const { return {file_->handle(), 0}; }
  TargetId target_on(ServerId server) {
    for (const GroupMember& member : mirrors_->group_of(*file_).members) {
      if (server_of(member.target) == server) return member.target;
    }
    return {};
  }
  std::optional<Bytes> copy_on(ServerId server) {
    for (const auto& disk : world().disks(server).targets) {
      if (auto content = disk->content(datafile())) return content;
    }
    return std::nullopt;
  }
  /// While the server is down.
  void remove_copy(ServerId server) {
    for (const auto& disk : world().disks(server).targets) {
      const auto process = disk->attach();
      trove::BytestreamRequest request;
      request.op = trove::BytestreamOp::kRemove;
      request.id = datafile();
      std::array<trove::BytestreamCompletion, 1> done;
      if (!disk->post(process, request, nullptr, done[0])) {
        world().run_for(std::chrono::seconds(1));
        std::ignore = disk->test(process, done);
      }
      disk->detach(process);
    }
  }
  /// As fsck asks.
  Result<wire::CopyRenewReply> ask(ServerId server) {
    ClientProcess& process = world().start_client();
    fsck::ServersOptions options;
    options.map = world().settings().map;
    options.server_key = world().settings().server_key;
    options.deadline = std::chrono::seconds(2);
    fsck::Servers servers(options, process.client().session().network(), world().random());
    return call(world(), process, servers.ask_once<wire::CopyRenewReply>(server, request_));
  }

  ServerId good_;
  ServerId poor_;
  wire::CopyRenewRequest request_;
};

}  // namespace spate::cluster
