// SPDX-License-Identifier: Apache-2.0
// An operator lets an older copy lead: who may ask for that, and when.
#include "server/meta/core/group_servers.h"

#include "base/expect.h"
#include "server/meta/testing/fs_test.h"

namespace spate::meta {
namespace {

/// A group that only its primary serves.
class LostPrimary : public testing::Test {
 protected:
  LostPrimary() : fs_(options()) {
    wire::CreateRequest create;
    create.where = at("any");
    EXPECT_OK(fs_.asked<wire::CreateReply>(root_user(), create));
    DataGroup left = fs_.asked<wire::DataGroupsReply>(root_user(), wire::DataGroupsRequest())->groups.front();
    for (GroupMember& member : left.members) {
      if (member.target == left.primary) continue;
      member.state = MemberState::kAbsent;
      older_ = member.target;
    }
    ++left.epoch;
    wire::ChangeGroupRequest leaves;
    leaves.from_epoch = left.epoch - 1;
    leaves.by = left.primary;
    leaves.next = left;
    EXPECT_OK(as(server_of(left.primary), leaves));
    request_.from_epoch = left.epoch;
    request_.next = without_serving(left, older_);
    lost_ = server_of(left.primary);
  }
  static TestFsOptions options() {
    TestFsOptions options;
    options.meta.replicas = 2;
    return options;
  }
  Result<wire::ChangeGroupReply> as(ServerId server, const wire::ChangeGroupRequest& request) {
    fs_.asking = server;
    auto reply = fs_.asked<wire::ChangeGroupReply>(root_user(), request);
    fs_.asking = {};
    return reply;
  }

  TestFs fs_;
  TargetId older_;
  ServerId lost_;
  wire::ChangeGroupRequest request_;
};

TEST_F(LostPrimary, TheOperatorMayLetAnOlderCopyLead) {
  const auto made = as({}, request_);
  ASSERT_OK(made);
  EXPECT_TRUE(made->made) << "the group is made";
  EXPECT_EQ(made->now.primary, older_);
  EXPECT_TRUE(as({}, request_)->made) << "the request may be repeated";
}

TEST_F(LostPrimary, NoServerMay) {
  EXPECT_ERRC(as(server_of(older_), request_), Errc::kNotPermitted);
  request_.by = older_;
  EXPECT_ERRC(as(server_of(older_), request_), Errc::kInvalidArgument);
}

TEST_F(LostPrimary, NobodyMayWhileItAsksForItsGroups) {
  fs_.core->group_servers().heard(lost_);
  EXPECT_ERRC(as({}, request_), Errc::kTryAgain);
}

}  // namespace
}  // namespace spate::meta
