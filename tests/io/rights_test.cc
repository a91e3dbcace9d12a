// SPDX-License-Identifier: Apache-2.0
// Rights: capabilities, operations for servers only, targets, and shapes of requests.

#include <functional>

#include "base/expect.h"
#include "tests/io/client.h"

namespace spate::io::testing {
namespace {

class RightsTest : public ::testing::Test {
 protected:
  Errc write_with(const Capability& capability) {
    wire::WriteRequest request = write_request(where_, *datatype::Description::contiguous(0, 100));
    request.has_inline_data = true;
    return world_.run(client_.write(request, {pattern(1, 100)}, capability)).code();
  }
  Errc read_with(const Capability& capability) {
    wire::ReadRequest request = read_request(where_, *datatype::Description::contiguous(0, 100));
    request.inline_limit = 4096;
    return world_.run(client_.read(request, capability)).code();
  }
  /// Writes with a changed capability that is signed again, as a meta server could do it.
  Errc write_changed(const std::function<void(Capability&)>& change) {
    Capability capability = client_.capability(kFile);
    change(capability);
    Client::sign_again(capability);
    return write_with(capability);
  }

  World world_;
  Client client_{world_};
  wire::SlotSet where_ = slot_set(kFile, 1);
};

TEST_F(RightsTest, AGenuineCapabilityIsEnough) {
  EXPECT_EQ(write_with(client_.capability(kFile)), Errc::kOk);
  EXPECT_EQ(read_with(client_.capability(kFile, Rights::kRead)), Errc::kOk);
  EXPECT_EQ(world_.metric("spate_server_io_refused_total"), 0U);
}

/// The MAC of each forged capability is one that the server has already accepted for the unchanged fields.
TEST_F(RightsTest, AnyForgedFieldIsRefused) {
  const std::vector<std::function<void(Capability&)>> forgeries = {
      [](Capability& c) { c.uid = 0xFFFF; },
      [](Capability& c) { c.layout_generation = 9; },
      [](Capability& c) { c.session_epoch = 9; },
      [](Capability& c) { c.gid = 1; },
      [](Capability& c) { c.project = 1; },
      [](Capability& c) { c.expiry.ns += 1; },
      [](Capability& c) { c.mac[3] ^= std::byte{1}; },
  };
  const Capability genuine = client_.capability(kFile);
  ASSERT_EQ(write_with(genuine), Errc::kOk);
  for (std::size_t i = 0; i < forgeries.size(); ++i) {
    Capability forged = genuine;
    forgeries[i](forged);
    EXPECT_EQ(write_with(forged), Errc::kCapabilityInvalid) << i;
  }
  Capability raised = client_.capability(kFile, Rights::kRead);
  ASSERT_EQ(read_with(raised), Errc::kOk);
  raised.rights = Rights::kReadWrite;
  EXPECT_EQ(write_with(raised), Errc::kCapabilityInvalid);
  EXPECT_EQ(world_.metric("spate_server_io_refused_total"), forgeries.size() + 1);
}

TEST_F(RightsTest, AValidCapabilityForAnotherFileIsRefused) {
  EXPECT_EQ(write_with(client_.capability(kFile, Rights::kRead)), Errc::kCapabilityInvalid);
  EXPECT_EQ(read_with(client_.capability(kFile, Rights::kWrite)), Errc::kCapabilityInvalid);
  EXPECT_EQ(write_with(client_.capability(Handle(43))), Errc::kCapabilityInvalid);
  EXPECT_EQ(write_changed([](Capability& c) { c.client = ClientId(101); }), Errc::kCapabilityInvalid);
}

TEST_F(RightsTest, AnExpiredCapabilityIsRefusedAlsoAfterItWasCached) {
  const Capability capability = client_.capability(kFile);
  EXPECT_EQ(write_with(capability), Errc::kOk);
  world_.pass(std::chrono::hours(1));
  EXPECT_EQ(write_with(capability), Errc::kCapabilityExpired);
  EXPECT_EQ(write_with(client_.capability(kFile)), Errc::kOk);
}

TEST_F(RightsTest, ACapabilityThatWouldOutliveFencesIsRefused) {
  const auto for_ever = [](Capability& c) { c.expiry.ns += Duration(std::chrono::hours(24 * 365)).count(); };
  EXPECT_EQ(write_changed(for_ever), Errc::kCapabilityInvalid);
}

TEST_F(RightsTest, ARequestWithoutACapabilityIsRefused) {
  wire::WriteRequest write = write_request(where_, *datatype::Description::contiguous(0, 0));
  write.has_inline_data = true;
  EXPECT_ERRC(client_.ask<wire::WriteReply>(write), Errc::kCapabilityInvalid);
  wire::DatafileSyncRequest sync;
  sync.handle = kFile;
  sync.slots = where_.slots;
  EXPECT_ERRC(client_.ask<wire::DatafileSyncReply>(sync), Errc::kCapabilityInvalid);
  wire::PunchRequest punch;
  punch.where = where_;
  EXPECT_ERRC(client_.ask<wire::PunchReply>(punch), Errc::kCapabilityInvalid);
  wire::DatafileStatRequest stat;  // a stat needs no capability
  stat.handle = kFile;
  stat.slots = where_.slots;
  EXPECT_OK(client_.ask<wire::DatafileStatReply>(stat));
}

/// A client that could write only one copy of a mirrored file would make the copies unequal.
TEST_F(RightsTest, ASingleCopyOfAMirroredFileCannotBeAccessed) {
  const auto on_groups = [](Capability& c) { c.rights = c.rights | Rights::kOnGroups; };
  EXPECT_EQ(write_changed(on_groups), Errc::kCapabilityInvalid);
  Capability capability = client_.capability(kFile);
  on_groups(capability);
  Client::sign_again(capability);
  EXPECT_EQ(read_with(capability), Errc::kCapabilityInvalid);
  wire::PunchRequest punch;
  punch.where = where_;
  EXPECT_ERRC(client_.ask<wire::PunchReply>(punch, &capability), Errc::kCapabilityInvalid);
  wire::DatafileAllocateRequest allocate;
  allocate.where = where_;
  EXPECT_ERRC(client_.ask<wire::DatafileAllocateReply>(allocate, &capability), Errc::kCapabilityInvalid);
  wire::BypassLeaseRequest bypass;
  bypass.handle = kFile;
  bypass.slots = where_.slots;
  bypass.for_writing = true;
  EXPECT_ERRC(client_.ask<wire::BypassLeaseReply>(bypass, &capability), Errc::kCapabilityInvalid);
  wire::DatafileCopyRequest copy;
  copy.from = copy.to = kFile;
  copy.pieces.push_back({World::target(0), 0, 0, 0, 4096, 1});
  copy.from_capability = client_.capability(kFile, Rights::kRead);
  EXPECT_ERRC(client_.ask<wire::DatafileCopyReply>(copy, &capability), Errc::kCapabilityInvalid);
  copy.from_capability = capability;
  const Capability plain = client_.capability(kFile);
  EXPECT_ERRC(client_.ask<wire::DatafileCopyReply>(copy, &plain), Errc::kCapabilityInvalid);
  where_.slots[0].target = kFirstGroup;
  EXPECT_EQ(write_with(capability), Errc::kNotPrimary) << "a group that this server does not lead";
}

TEST_F(RightsTest, AnOlderLayoutGenerationIsStale) {
  const auto generation = [](std::uint32_t g) { return [g](Capability& c) { c.layout_generation = g; }; };
  EXPECT_EQ(write_changed(generation(3)), Errc::kOk);
  EXPECT_EQ(write_changed(generation(2)), Errc::kStaleLayout);
  EXPECT_EQ(write_changed(generation(3)), Errc::kOk);
}

TEST_F(RightsTest, ServersOnlyOperationsAreRefusedToClients) {
  wire::DatafileTruncateRequest truncate;
  truncate.handle = kFile;
  truncate.slots = where_.slots;
  truncate.sizes = {0};
  truncate.truncate_generation = 1;
  EXPECT_ERRC(client_.ask<wire::DatafileTruncateReply>(truncate), Errc::kNotPermitted);
  EXPECT_ERRC(client_.ask<wire::DatafileRemoveReply>(wire::DatafileRemoveRequest()), Errc::kNotPermitted);
  EXPECT_ERRC(client_.ask<wire::DatafileListReply>(wire::DatafileListRequest()), Errc::kNotPermitted);
  wire::FenceRequest fence;
  fence.client = ClientId(100);
  EXPECT_ERRC(client_.ask<wire::FenceReply>(fence), Errc::kNotPermitted);
}

TEST_F(RightsTest, TargetsOfAnotherServerMeanAStaleMap) {
  where_.slots[0].target = TargetId(9999);
  EXPECT_EQ(write_with(client_.capability(kFile)), Errc::kStaleMap);
  EXPECT_EQ(read_with(client_.capability(kFile)), Errc::kStaleMap);
  wire::DatafileStatRequest stat;
  stat.handle = kFile;
  stat.slots = where_.slots;
  EXPECT_ERRC(client_.ask<wire::DatafileStatReply>(stat), Errc::kStaleMap);
}

TEST_F(RightsTest, SpaceIsReportedForEachTargetWithItsDevice) {
  const auto reply = client_.ask<wire::IoStatfsReply>(wire::IoStatfsRequest());
  ASSERT_OK(reply);
  ASSERT_EQ(reply->targets.size(), 2U);
  EXPECT_EQ(reply->targets[0].target, World::target(0));
  EXPECT_EQ(reply->targets[0].total_bytes, 1ULL << 30U);
  EXPECT_EQ(reply->targets[0].device, reply->targets[1].device);
  EXPECT_EQ(reply->targets[1].store, "fault(mem)");
}

}  // namespace
}  // namespace spate::io::testing
