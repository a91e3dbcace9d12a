// SPDX-License-Identifier: Apache-2.0
// The flags of opens and creates are a byte of a peer: each of its 256 values is refused, or does exactly what it says.
#include "base/expect.h"
#include "dist/registry.h"
#include "server/meta/testing/role_test.h"

namespace spate::meta {
namespace {

constexpr unsigned kValues = 256;

bool has(unsigned flags, unsigned flag) { return (flags & flag) != 0; }
Rights rights_in(unsigned flags) { return static_cast<Rights>(flags & kRW); }

class OpenFlagsTest : public RoleTest {
 protected:
  /// Whether an open that is not a counted one asks for more than reading.
  static bool is_refused_open(unsigned flags) {
    if (!has(flags, wire::kOpenUncounted | wire::kOpenNotesRead)) return false;
    return (flags & ~unsigned{wire::kOpenNotesRead}) != (wire::kOpenUncounted | wire::kOpenRead);
  }
  static bool is_refused_create(unsigned flags) {
    return has(flags, wire::kOpenByUser) || (has(flags, wire::kOpenTemporary) && !has(flags, wire::kOpenWrite));
  }
  static wire::CreateRequest create_request(std::string path, unsigned flags) {
    wire::CreateRequest request;
    request.where = at(std::move(path));
    request.attributes.mode = 0755;
    request.open_flags = static_cast<std::uint8_t>(flags);
    if (has(flags, wire::kOpenDistribution)) request.layout.distribution = *parse_distribution("basic");
    return request;
  }
  /// What was opened is closed again, and nothing is left open.
  void expect_open_and_close(const wire::OpenReply& reply, unsigned flags, bool counted) {
    EXPECT_EQ(records(KeyKind::kOpen), counted ? 1U : 0U) << flags;
    if (rights_in(flags) != Rights::kNone) {
      EXPECT_EQ(reply.capability.rights, rights_in(flags)) << flags;
      EXPECT_TRUE(verify(options.server_key, options.fs, reply.capability)) << flags;
    } else {
      EXPECT_EQ(reply.capability.rights, Rights::kNone) << flags;
      EXPECT_EQ(reply.capability.mac, Capability().mac) << flags;
    }
    if (!counted) return;
    const Handle handle = reply.object.attributes.handle;
    EXPECT_OK(close_file(client, handle, rights_in(flags), data_of(handle))) << flags;
    EXPECT_EQ(records(KeyKind::kOpen), 0U) << flags;
  }

  TestClient client = connect();
};

TEST_F(OpenFlagsTest, AnOpenFollowsEachCombinationOfFlags) {
  const auto made = asked<wire::OpenReply>(client, create_request("f", wire::kOpenExclusive));
  ASSERT_OK(made);
  const Handle handle = made->object.attributes.handle;
  for (unsigned flags = 0; flags < kValues; ++flags) {
    wait(std::chrono::seconds(1));
    ASSERT_OK(keep_alive(client));
    const WallTime read_at = inode(handle).attributes.atime;
    const auto reply = open_file(client, "f", static_cast<std::uint8_t>(flags));
    if (is_refused_open(flags)) {
      EXPECT_ERRC(reply, Errc::kInvalidArgument) << flags;
      EXPECT_EQ(records(KeyKind::kOpen), 0U) << flags;
      continue;
    }
    ASSERT_OK(reply) << flags;
    EXPECT_FALSE(reply->created) << flags;
    EXPECT_EQ(reply->truncated, has(flags, wire::kOpenTruncate)) << flags;
    EXPECT_EQ(inode(handle).attributes.atime != read_at, has(flags, wire::kOpenNotesRead)) << flags;
    const bool counted = rights_in(flags) != Rights::kNone && !has(flags, wire::kOpenUncounted);
    expect_open_and_close(*reply, flags, counted);
  }
}

/// A renewal gives rights that the session has already. It neither truncates nor reads.
TEST_F(OpenFlagsTest, ARenewalTakesRightsOnly) {
  const auto made = asked<wire::OpenReply>(client, create_request("f", kRW));
  ASSERT_OK(made);
  const Handle handle = made->object.attributes.handle;
  ASSERT_TRUE(write(client, handle, 10)) << "the io server refused the write";
  constexpr unsigned kOfRenewals = kRW | wire::kOpenByUser;
  for (unsigned flags = 0; flags < kValues; ++flags) {
    wire::OpenRequest request = open_request("", static_cast<std::uint8_t>(flags));
    request.where.start = handle;
    request.renew = true;
    const auto reply = asked<wire::OpenReply>(client, request);
    if ((flags & ~kOfRenewals) != 0) {
      EXPECT_ERRC(reply, Errc::kInvalidArgument) << flags;
    } else {
      ASSERT_OK(reply) << flags;
      EXPECT_EQ(reply->capability.rights, rights_in(flags)) << flags;
      EXPECT_FALSE(reply->truncated) << flags;
    }
    ASSERT_EQ(records(KeyKind::kOpen), 1U) << flags;
  }
  EXPECT_EQ(io.files[handle].data.size, 10U);
}

TEST_F(OpenFlagsTest, ACreateFollowsEachCombinationOfFlags) {
  for (unsigned flags = 0; flags < kValues; ++flags) {
    ASSERT_OK(keep_alive(client));
    const bool temporary = has(flags, wire::kOpenTemporary);
    const std::string name = temporary ? "" : "f" + std::to_string(flags);
    const auto reply = asked<wire::OpenReply>(client, create_request(name, flags));
    if (is_refused_create(flags)) {
      EXPECT_ERRC(reply, Errc::kInvalidArgument) << flags;
      if (!temporary) EXPECT_ERRC(stat(client, name), Errc::kNotFound) << flags;
      continue;
    }
    ASSERT_OK(reply) << flags;
    EXPECT_TRUE(reply->created) << flags;
    EXPECT_FALSE(reply->truncated) << flags;
    EXPECT_EQ(reply->object.attributes.link_count, temporary ? 0U : 1U) << flags;
    EXPECT_EQ(describe(reply->object.layout->distribution) == "basic", has(flags, wire::kOpenDistribution)) << flags;
    expect_open_and_close(*reply, flags, rights_in(flags) != Rights::kNone);
    if (temporary) continue;
    const auto again = asked<wire::OpenReply>(client, create_request(name, flags));
    if (has(flags, wire::kOpenExclusive)) {
      EXPECT_ERRC(again, Errc::kExists) << flags;
      continue;
    }
    ASSERT_OK(again) << flags;
    EXPECT_FALSE(again->created) << flags;
    EXPECT_EQ(again->truncated, has(flags, wire::kOpenTruncate)) << flags;
    expect_open_and_close(*again, flags, rights_in(flags) != Rights::kNone);
  }
}

}  // namespace
}  // namespace spate::meta
