// SPDX-License-Identifier: Apache-2.0
// A member has lost a datafile, and is to receive its copy anew (wire::CopyRenewRequest).
#include <array>

#include "base/expect_bytes.h"
#include "fsck/servers.h"
#include "tests/mirror/replacement_fixture.h"
#include "wire/check_messages.h"

namespace spate::cluster {
namespace {

using namespace std::chrono_literals;

constexpr Duration kNotesGo = 40s;
constexpr Duration kTakenOver = 20s;

class RenewalTest : public ReplacementTest {
 protected:
  /// One server is left with the only copy of the file's datafile: the primary. The other member has lost its own.
  void SetUp() override {
    begin(mirror_options());
    good_ = mirrors_->primary_of(*file_);
    poor_ = mirrors_->backup_of(*file_);
    EXPECT_OK(run(file_->sync()));
    world().run_for(kNotesGo);
    mirrors_->kill(poor_);
    world().run_for(5s);  // it is left out, and its process has ended
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
        world().run_for(1s);
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
    options.deadline = 2s;
    fsck::Servers servers(options, process.client().session().network(), world().random());
    return call(world(), process, servers.ask_once<wire::CopyRenewReply>(server, request_));
  }

  ServerId good_;
  ServerId poor_;
  wire::CopyRenewRequest request_;
};

TEST_F(RenewalTest, ABackupReceivesItsCopyAnew) {
  ASSERT_OK(ask(good_));
  ASSERT_TRUE(mirrors_->become_whole()) << "a group lacks a copy";
  EXPECT_EQ(mirrors_->differences(), "");
  expect_content();
}

/// The next primary must not take the former primary's copy for one that is out of date.
TEST_F(RenewalTest, TheOnlyCopyStaysWhenThePrimaryEndsBeforeTheRecordIsChanged) {
  mirrors_->cut(good_, kMetaServer, true);
  std::ignore = ask(good_);
  mirrors_->kill(good_);
  world().run_for(kTakenOver);
  mirrors_->cut(good_, kMetaServer, false);
  ASSERT_EQ(mirrors_->primary_of(*file_), poor_) << "it has not taken over: the scene is not the one that is meant";
  mirrors_->restart(good_);
  ASSERT_TRUE(mirrors_->become_whole()) << "a group lacks a copy";
  ASSERT_TRUE(copy_on(good_)) << "the only copy is gone";
  EXPECT_BYTES(*copy_on(good_), content_);
  // The member without a copy leads: first the lead moves, and then the copy is made anew.
  ASSERT_OK(ask(poor_));
  ASSERT_TRUE(mirrors_->become_whole()) << "a group lacks a copy";
  EXPECT_EQ(mirrors_->primary_of(*file_), good_);
  ASSERT_OK(ask(good_));
  ASSERT_TRUE(mirrors_->become_whole()) << "a group lacks a copy";
  EXPECT_EQ(mirrors_->differences(), "");
  expect_content();
}

TEST_F(RenewalTest, ACopyOfARemovedDatafileIsPassedOver) {
  const wire::DatafileRef gone{Handle(datafile().handle.value + 1000), {0, request_.member}};
  request_.datafiles.insert(request_.datafiles.begin(), gone);
  ASSERT_OK(ask(good_));
  ASSERT_TRUE(mirrors_->become_whole()) << "a group lacks a copy";
  EXPECT_EQ(mirrors_->differences(), "");
  request_.datafiles.assign(1, gone);
  EXPECT_ERRC(ask(good_), Errc::kNotFound);
}

}  // namespace
}  // namespace spate::cluster
