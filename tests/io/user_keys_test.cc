// SPDX-License-Identifier: Apache-2.0
// Keys of users at an io server: whose session they join, that a key for reading writes nothing, whatever its
// capability says, since the same user may have another key, and may have opened the file with that one; and that with
// a key for one directory every request about a file needs a capability.
#include "base/expect.h"
#include "tests/io/client.h"

namespace spate::io::testing {
namespace {

constexpr std::uint32_t kAlice = 1000;

class UserKeysTest : public ::testing::Test {
 protected:
  static ClientKey key(bool read_only, Handle directory = Handle()) {
    UserKey restrictions;
    restrictions.directory = directory;
    restrictions.id.fill(std::byte{7});
    restrictions.user = {kAlice, 100, {}};
    restrictions.read_only = read_only;
    const wire::FileKey issuer(kFs, World::client_key());
    ClientKey key;
    key.issuer = issuer.id();
    key.restrictions = encoded(restrictions);
    key.secret = issuer.for_user(key.restrictions).secret;
    return key;
  }
  /// A client with this key, in a session of that user.
  std::unique_ptr<Client> holder(const ClientKey& key, std::uint32_t session_of) {
    auto client = std::make_unique<Client>(world_, ClientOptions{.client = ClientId(300 + ++clients_)});
    client->identity().key = key;
    client->identity().credential = {kAlice, 100, {}};
    SessionTicket& ticket = *client->identity().ticket;
    ticket.uid = session_of;
    ticket.mac = sign(World::server_key(), kFs, ticket);
    return client;
  }
  Errc write(Client& client) {
    wire::WriteRequest request = write_request(where_, *datatype::Description::contiguous(0, 10));
    request.has_inline_data = true;
    return world_.run(client.write(request, {pattern(1, 10)}, client.capability(kFile))).code();
  }

  World world_;
  wire::SlotSet where_ = slot_set(kFile, 1, 1 << 20);
  unsigned clients_ = 0;
};

TEST_F(UserKeysTest, AUserJoinsWithHisOwnSession) {
  const auto own = holder(key(false), kAlice);
  EXPECT_OK(own->ask<wire::IoStatfsReply>(wire::IoStatfsRequest()));
  EXPECT_EQ(write(*own), Errc::kOk);
  for (const std::uint32_t other : {0U, 1001U}) {
    const auto thief = holder(key(false), other);
    EXPECT_ERRC(thief->ask<wire::IoStatfsReply>(wire::IoStatfsRequest()), Errc::kUnauthenticated);
    EXPECT_EQ(write(*thief), Errc::kUnauthenticated);
  }
}

TEST_F(UserKeysTest, AKeyForReadingWritesNothingWhateverItsCapabilitySays) {
  Client setter(world_);
  ASSERT_EQ(write(setter), Errc::kOk);
  const auto reader = holder(key(true), kAlice);
  const Capability capability = reader->capability(kFile);
  EXPECT_EQ(write(*reader), Errc::kReadOnly);
  wire::PunchRequest punch;
  punch.where = where_;
  EXPECT_ERRC(reader->ask<wire::PunchReply>(punch, &capability), Errc::kReadOnly);
  wire::DatafileAllocateRequest allocate;
  allocate.where = where_;
  EXPECT_ERRC(reader->ask<wire::DatafileAllocateReply>(allocate, &capability), Errc::kReadOnly);
  EXPECT_ERRC(reader->ask<wire::DatafileCopyReply>(wire::DatafileCopyRequest(), &capability), Errc::kReadOnly);
  wire::BypassLeaseRequest lease;
  lease.handle = kFile;
  lease.slots = where_.slots;
  lease.for_writing = true;
  EXPECT_ERRC(reader->ask<wire::BypassLeaseReply>(lease, &capability), Errc::kReadOnly);
  EXPECT_ERRC(reader->ask<wire::DatafileRemoveReply>(wire::DatafileRemoveRequest(), &capability), Errc::kNotPermitted);
  lease.for_writing = false;
  EXPECT_OK(reader->ask<wire::BypassLeaseReply>(lease, &capability));
  wire::ExplainPathRequest explain;
  explain.where = where_;
  explain.what = *datatype::Description::contiguous(0, 10);
  explain.is_write = true;
  EXPECT_ERRC(reader->ask<wire::ExplainPathReply>(explain, &capability), Errc::kReadOnly);
  explain.is_write = false;
  EXPECT_OK(reader->ask<wire::ExplainPathReply>(explain, &capability));
  wire::DatafileStatRequest stat;
  stat.handle = kFile;
  stat.slots = where_.slots;
  EXPECT_OK(reader->ask<wire::DatafileStatReply>(stat, &capability));
}

/// The io server does not know what lies in the key's directory: the meta server does, and gives capabilities.
TEST_F(UserKeysTest, WithAKeyForOneDirectoryNothingIsAskedAboutAFileThatWasNotOpened) {
  Client setter(world_);
  ASSERT_EQ(write(setter), Errc::kOk);
  const auto confined = holder(key(false, Handle(4711)), kAlice);
  wire::DatafileStatRequest stat;
  stat.handle = kFile;
  stat.slots = where_.slots;
  EXPECT_ERRC(confined->ask<wire::DatafileStatReply>(stat), Errc::kPermissionDenied);
  EXPECT_OK(holder(key(false), kAlice)->ask<wire::DatafileStatReply>(stat));
  wire::DatafileRangesRequest ranges;
  ranges.handle = kFile;
  ranges.slots = where_.slots;
  EXPECT_ERRC(confined->ask<wire::DatafileRangesReply>(ranges), Errc::kCapabilityInvalid);
  wire::DatafileSyncRequest sync;
  sync.handle = kFile;
  sync.slots = where_.slots;
  EXPECT_ERRC(confined->ask<wire::DatafileSyncReply>(sync), Errc::kCapabilityInvalid);
  wire::BypassLeaseRequest lease;
  lease.handle = kFile;
  lease.slots = where_.slots;
  EXPECT_ERRC(confined->ask<wire::BypassLeaseReply>(lease), Errc::kCapabilityInvalid);
  wire::ExplainPathRequest explain;
  explain.where = where_;
  explain.what = *datatype::Description::contiguous(0, 10);
  EXPECT_ERRC(confined->ask<wire::ExplainPathReply>(explain), Errc::kCapabilityInvalid);
  EXPECT_ERRC(confined->ask<wire::DatafileListReply>(wire::DatafileListRequest()), Errc::kNotPermitted);
  EXPECT_ERRC(confined->ask<wire::DatafileProbeReply>(wire::DatafileProbeRequest()), Errc::kNotPermitted);
  // A copy reads one file and writes another one: it needs a capability for each.
  const Capability other = confined->capability(Handle(kFile.value + 1));
  wire::DatafileCopyRequest copy;
  copy.from = kFile;
  copy.to = other.handle;
  EXPECT_ERRC(confined->ask<wire::DatafileCopyReply>(copy, &other), Errc::kCapabilityInvalid);
  // A capability, which the meta server gives for objects inside, is served as usual.
  EXPECT_EQ(write(*confined), Errc::kOk);
  const Capability opened = confined->capability(kFile);
  EXPECT_OK(confined->ask<wire::DatafileStatReply>(stat, &opened));
}

}  // namespace
}  // namespace spate::io::testing
