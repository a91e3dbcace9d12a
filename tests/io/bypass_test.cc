// SPDX-License-Identifier: Apache-2.0
// Requests for leases and for the explanation of a path, as far as they work without shared memory: which ones are
// refused, and with which messages. tests/integration has the rest.

#include <gmock/gmock.h>

#include "base/expect.h"
#include "tests/io/client.h"

namespace spate::io::testing {
namespace {

WorldOptions with(BypassPolicy policy) {
  WorldOptions options;
  options.io.bypass = policy;
  options.direct_alignment = 4096;
  return options;
}

class BypassTest : public ::testing::Test {
 protected:
  explicit BypassTest(BypassPolicy policy = BypassPolicy::kWrite) : world_(with(policy)) {}

  static wire::BypassLeaseRequest lease_request(bool for_writing) {
    wire::BypassLeaseRequest request;
    request.handle = kFile;
    request.slots = {{0, World::target(0)}};
    request.for_writing = for_writing;
    return request;
  }
  Result<wire::BypassLeaseReply> ask(const wire::BypassLeaseRequest& request, Rights rights = Rights::kReadWrite) {
    const Capability capability = client_.capability(kFile, rights);
    return client_.ask<wire::BypassLeaseReply>(request, &capability);
  }
  Result<wire::ExplainPathReply> explain(bool is_write, wire::DataPath path, Rights rights = Rights::kReadWrite) {
    wire::ExplainPathRequest request;
    request.where = slot_set(kFile, 1, 1 << 20);
    request.what = *datatype::Description::contiguous(0, 1 << 20);
    request.is_write = is_write;
    request.path = path;
    const Capability capability = client_.capability(kFile, rights);
    return client_.ask<wire::ExplainPathReply>(request, &capability);
  }

  World world_;
  Client client_{world_};
};

TEST_F(BypassTest, AClientOverTcpGetsNoLeaseAndAReason) {
  const auto reply = ask(lease_request(false));
  ASSERT_OK(reply);
  ASSERT_EQ(reply->leases.size(), 1U);
  EXPECT_EQ(reply->leases[0].lease_id, 0U);
  EXPECT_NE(reply->leases[0].refusal.find("shm://"), std::string::npos);
  EXPECT_EQ(world_.metric("spate_server_io_leases_granted_total"), 0U);
}

TEST_F(BypassTest, RightsAndBoundsAreThoseOfAnyRequest) {
  EXPECT_ERRC(ask(lease_request(true), Rights::kRead), Errc::kCapabilityInvalid);
  EXPECT_ERRC(ask(lease_request(false), Rights::kWrite), Errc::kCapabilityInvalid);
  EXPECT_ERRC(client_.ask<wire::BypassLeaseReply>(lease_request(false)), Errc::kCapabilityInvalid);
  wire::BypassLeaseRequest request = lease_request(false);
  request.handle = Handle(43);
  EXPECT_ERRC(ask(request), Errc::kCapabilityInvalid);
  request = lease_request(false);
  request.slots.clear();
  EXPECT_ERRC(ask(request), Errc::kInvalidArgument);
  for (std::uint32_t slot = 0; slot <= wire::kMaxLeaseSlots; ++slot) request.slots.push_back({slot, World::target(0)});
  EXPECT_ERRC(ask(request), Errc::kInvalidArgument);
  request = lease_request(false);
  request.slots[0].target = TargetId(9999);
  EXPECT_ERRC(ask(request), Errc::kStaleMap);
  EXPECT_ERRC(explain(true, wire::DataPath::kAutomatic, Rights::kRead), Errc::kCapabilityInvalid);
}

TEST_F(BypassTest, ReturningUnknownLeasesHasNoEffect) {
  wire::BypassReturnRequest request;
  request.leases = {{1, 1000, 1000}, {~0ULL, ~0ULL, ~0ULL}};
  EXPECT_OK(client_.ask<wire::BypassReturnReply>(request));
  EXPECT_EQ(world_.io().counters().bytes(flow::Lane::kBypass, flow::Direction::kRead), 0U);
  request.leases.assign(wire::kMaxReturned + 1, {1, 0, 0});
  EXPECT_ERRC(client_.ask<wire::BypassReturnReply>(request), Errc::kInvalidArgument);
}

TEST_F(BypassTest, ExplainingAPathMovesNoData) {
  using wire::DataPath;
  for (const auto& [path, is_write, answer] : {std::tuple{DataPath::kAutomatic, false, DataPath::kCached},
                                               std::tuple{DataPath::kAutomatic, true, DataPath::kBuffered},
                                               std::tuple{DataPath::kDirect, true, DataPath::kDirect},
                                               std::tuple{DataPath::kCached, true, DataPath::kAutomatic},
                                               std::tuple{DataPath::kPeerToPeer, false, DataPath::kAutomatic}}) {
    const auto reply = explain(is_write, path);
    ASSERT_OK(reply);
    EXPECT_EQ(reply->slots.at(0).path, answer);
    EXPECT_THAT(reply->slots.at(0).why, ::testing::Not(::testing::IsEmpty()));
    EXPECT_NE(reply->slots.at(0).bypass, wire::kLeaseToBeHad);
  }
  EXPECT_EQ(world_.metric("spate_flow_bytes_total"), 0U);
  EXPECT_ERRC(explain(false, static_cast<wire::DataPath>(77)), Errc::kInvalidArgument);
}

TEST(BypassPolicy, BypassDoesNotOverrideAConfiguredPath) {
  WorldOptions options = with(BypassPolicy::kWrite);
  options.io.policy.read_path = wire::DataPath::kBuffered;
  World world(options);
  Client client(world);
  const Capability capability = client.capability(kFile, Rights::kReadWrite);
  for (const bool for_writing : {false, true}) {
    wire::BypassLeaseRequest request;
    request.handle = kFile;
    request.slots = {{0, World::target(0)}};
    request.for_writing = for_writing;
    const auto reply = client.ask<wire::BypassLeaseReply>(request, &capability);
    ASSERT_OK(reply);
    const std::string& why = reply->leases.at(0).refusal;
    EXPECT_EQ(why.find("flow.read_path is buffered") != std::string::npos, !for_writing) << why;
  }
}

class NoBypassTest : public BypassTest {
 protected:
  NoBypassTest() : BypassTest(BypassPolicy::kOff) {}
};

TEST_F(NoBypassTest, ThePolicyIsNamed) {
  const auto reply = ask(lease_request(false));
  ASSERT_OK(reply);
  EXPECT_NE(reply->leases[0].refusal.find("flow.bypass"), std::string::npos);
}

}  // namespace
}  // namespace spate::io::testing
