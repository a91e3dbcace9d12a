// SPDX-License-Identifier: Apache-2.0
// An io server tells its rack when it joins.
#include "base/expect.h"
#include "server/meta/testing/fs_test.h"
#include "wire/membership_messages.h"

namespace spate::meta {
namespace {

TEST(MetaJoinServer, AServerTellsItsRack) {
  TestFs fs;
  wire::JoinServerRequest request;
  request.server = ServerId(9);
  request.urls = {"sim://9"};
  request.targets = {target_id(ServerId(9), 0), TargetId()};  // the last one says that a rack follows
  request.rack = "r1";
  fs.asking = ServerId(9);
  ASSERT_OK(fs.asked<wire::JoinServerReply>(root_user(), request));
  const ServerEntry* const joined = fs.core->membership().map().find_server(ServerId(9));
  ASSERT_NE(joined, nullptr);
  EXPECT_EQ(joined->rack, "r1");
  EXPECT_EQ(joined->targets, std::vector<TargetId>{target_id(ServerId(9), 0)});
}

}  // namespace
}  // namespace spate::meta
