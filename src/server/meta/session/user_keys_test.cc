// SPDX-License-Identifier: Apache-2.0
// Keys of users at the meta server: what each request needs, what a key for reading may do, and revocation.
#include "server/meta/testing/user_keys_test.h"

#include <gmock/gmock.h>

#include "base/expect.h"

namespace spate::meta {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// A new operation fails this test until somebody has decided whether the holder of a user's key may use it.
TEST_F(MetaUserKeys, EachOperationDeclaresItsAllowedCallers) {
  using wire::Op;
  std::map<rpc::Access, std::set<Op>> by_access;
  for (const auto& [op, row] : role->service().operations()) by_access[row.access].insert(op);
  EXPECT_THAT(by_access[rpc::Access::kAnyone], IsEmpty());
  const std::set<Op> readers = {Op::kLookup,     Op::kAccess,   Op::kLookupLease, Op::kGetattr,    Op::kReaddir,
                                Op::kListLease,  Op::kGetxattr, Op::kListxattr,   Op::kMetaStatfs, Op::kMetaSync,
                                Op::kOpen,       Op::kClose,    Op::kClusterMap,  Op::kDataGroups, Op::kKeepAlive,
                                Op::kEndSession, Op::kLock,     Op::kLockTest,    Op::kLockCancel, Op::kSessionEvents,
                                Op::kLockReclaim};
  EXPECT_EQ(by_access[rpc::Access::kReaders], readers);
  const std::set<Op> writers = {Op::kSetattr,     Op::kCreate,         Op::kCloseWriters, Op::kTruncate,
                                Op::kMkdir,       Op::kSymlink,        Op::kLink,         Op::kUnlink,
                                Op::kRmdir,       Op::kRename,         Op::kSetxattr,     Op::kRemovexattr,
                                Op::kChangeBatch, Op::kReserveHandles, Op::kQueuedChanges};
  EXPECT_EQ(by_access[rpc::Access::kWriters], writers);
  EXPECT_THAT(by_access[rpc::Access::kOperators], ElementsAre(Op::kRevokeKeys));
}

TEST_F(MetaUserKeys, AKeyForReadingOpensNothingForWriting) {
  TestClient writer = holder(key_of(1));
  ASSERT_OK(create(writer, "f", 0));
  TestClient reader = holder(key_of(2, true));
  EXPECT_OK(open_file(reader, "f", wire::kOpenRead));
  const std::vector<unsigned> to_write = {wire::kOpenWrite, kRW, wire::kOpenRead | wire::kOpenTruncate,
                                          wire::kOpenTruncate};
  for (const unsigned flags : to_write)
    EXPECT_ERRC(open_file(reader, "f", static_cast<std::uint8_t>(flags)), Errc::kReadOnly) << flags;
  wire::OpenRequest renewed = open_request("f", wire::kOpenWrite);
  renewed.renew = true;
  EXPECT_ERRC(asked<wire::OpenReply>(reader, renewed), Errc::kReadOnly);
  wire::AccessRequest access;
  access.where = at("f");
  access.want = 4;
  EXPECT_OK(asked<wire::AccessReply>(reader, access, no_id()));
  access.want = 2;
  EXPECT_ERRC(asked<wire::AccessReply>(reader, access, no_id()), Errc::kReadOnly);
  EXPECT_OK(open_file(writer, "f", kRW));
}

TEST_F(MetaUserKeys, ACloseWithAKeyForReadingSetsNothing) {
  TestClient writer = holder(key_of(1));
  const auto made = create(writer, "f", 0);
  ASSERT_OK(made);
  const Handle file = made->object.attributes.handle;
  const Attributes before = *stat(writer, "f");
  TestClient reader = holder(key_of(2, true));
  clock.advance(std::chrono::hours(48));
  ASSERT_OK(join(reader));
  ASSERT_OK(join(writer));
  ASSERT_OK(open_file(reader, "f", wire::kOpenRead));
  wire::CloseRequest close = close_request(file, Rights::kRead);
  close.mode = 0777;
  close.mtime = WallTime{5};
  EXPECT_ERRC(asked<wire::CloseReply>(reader, close), Errc::kReadOnly);
  EXPECT_EQ(records(KeyKind::kOpen), 0U) << "the open has ended all the same";
  ASSERT_OK(open_file(reader, "f", wire::kOpenRead));
  close = close_request(file, Rights::kRead);
  close.atime = clock.wall();
  EXPECT_OK(asked<wire::CloseReply>(reader, close));
  EXPECT_EQ(*stat(writer, "f"), before);
}

TEST_F(MetaUserKeys, AUserLocksOnlyFilesThatAreReadableWritableOrOpen) {
  const auto secret = create(operators, "secret", 0, 0600);
  const auto shared = create(operators, "shared", 0, 0644);
  ASSERT_OK(secret);
  ASSERT_OK(shared);
  const Handle hidden = secret->object.attributes.handle;
  const Handle readable = shared->object.attributes.handle;
  TestClient user = holder(key_of(1));
  EXPECT_ERRC(lock(user, hidden, LockMode::kExclusive), Errc::kPermissionDenied);
  EXPECT_ERRC(lock(user, hidden, LockMode::kShared), Errc::kPermissionDenied);
  EXPECT_OK(lock(user, readable, LockMode::kShared));
  EXPECT_OK(lock(user, readable, LockMode::kNone));
  EXPECT_ERRC(lock(user, readable, LockMode::kExclusive, LockKind::kAppend), Errc::kPermissionDenied);
  EXPECT_ERRC(lock(user, Handle(987654), LockMode::kShared), Errc::kStaleHandle);
  // The holder of the client key is believed.
  TestClient believed = connect();
  EXPECT_OK(lock(believed, hidden, LockMode::kShared));
  // An open file can be locked, whatever its mode is by now.
  const auto own = create(user, "own", kRW, 0000);
  ASSERT_OK(own);
  EXPECT_OK(lock(user, own->object.attributes.handle, LockMode::kExclusive, LockKind::kAppend));
  TestClient other = holder(key_of(3));
  EXPECT_ERRC(lock(other, own->object.attributes.handle, LockMode::kShared), Errc::kPermissionDenied);
  TestClient reader = holder(key_of(2, true));
  EXPECT_OK(lock(reader, readable, LockMode::kShared));
  EXPECT_ERRC(lock(reader, readable, LockMode::kExclusive, LockKind::kAppend), Errc::kReadOnly);
}

/// A restart of the meta server's machine may lose a file that was made just before, or an open of one. The user's
/// other locks must not be lost with it.
TEST_F(MetaUserKeys, AUserReclaimsHisLocksAlsoIfHeMayLockOneOfTheFilesNoMore) {
  const auto secret = create(operators, "secret", 0, 0600);
  ASSERT_OK(secret);
  TestClient user = holder(key_of(1));
  const auto own = create(user, "own", kRW, 0600);
  ASSERT_OK(own);
  const Handle file = own->object.attributes.handle;
  ASSERT_OK(lock(user, file, LockMode::kExclusive));
  restart();
  wire::LockReclaimRequest reclaim;
  for (const Handle handle : {Handle(987654), file, secret->object.attributes.handle})
    reclaim.locks.push_back({handle, LockKind::kFlock, 0, 0, LockMode::kExclusive, 0, LockRange::kToEnd});
  reclaim.last = true;
  const auto claimed = asked<wire::LockReclaimReply>(user, reclaim, no_id());
  ASSERT_OK(claimed);
  EXPECT_THAT(claimed->lost, ElementsAre(0, 2));
  TestClient believed = connect();
  EXPECT_ERRC(lock(believed, file, LockMode::kShared), Errc::kTryAgain);
  EXPECT_OK(lock(believed, secret->object.attributes.handle, LockMode::kShared)) << "the user got a lock on it";
}

/// A user who may not read a file must not learn which process has locked it.
TEST_F(MetaUserKeys, AUserSeesNoLocksOfFilesThatHeMayNotRead) {
  const auto secret = create(operators, "secret", 0, 0600);
  const auto shared = create(operators, "shared", 0, 0644);
  ASSERT_OK(secret);
  ASSERT_OK(shared);
  for (const auto* file : {&*secret, &*shared})
    ASSERT_OK(lock(operators, file->object.attributes.handle, LockMode::kExclusive));
  TestClient user = holder(key_of(1));
  const auto test = [this](TestClient& client, Handle file, LockMode mode) {
    wire::LockTestRequest request;
    request.lock.handle = file;
    request.lock.kind = LockKind::kFlock;
    request.lock.mode = mode;
    request.lock.last = LockRange{}.last;
    return asked<wire::LockTestReply>(client, request, no_id());
  };
  for (const LockMode mode : {LockMode::kShared, LockMode::kExclusive, LockMode::kNone})
    EXPECT_ERRC(test(user, secret->object.attributes.handle, mode), Errc::kPermissionDenied);
  const auto seen = test(user, shared->object.attributes.handle, LockMode::kShared);
  ASSERT_OK(seen);
  EXPECT_TRUE(seen->conflict.has_value()) << "nobody is said to have the lock";
  TestClient believed = connect();
  EXPECT_OK(test(believed, secret->object.attributes.handle, LockMode::kShared));
}

/// The numbers of sessions are counted up, so anybody can guess them.
TEST_F(MetaUserKeys, ASessionIsResumedOnlyByItsTicketAndWithTheGroupsThatItHas) {
  UserKey wide = key_of(1);
  wide.user = {1000, 1000, {2000}};
  TestClient first = holder(wide);
  UserKey narrow = key_of(2);
  narrow.user = {1000, 1000, {}};
  TestClient thief = first;
  thief.user_key = narrow;
  thief.who = narrow.user;
  EXPECT_ERRC(join(thief), Errc::kUnauthenticated) << "it would open files as a member of group 2000";
  thief.ticket.reset();
  EXPECT_ERRC(join(thief), Errc::kUnauthenticated);
  thief.user_key = wide;
  thief.who = wide.user;
  EXPECT_ERRC(join(thief), Errc::kUnauthenticated) << "without the ticket";
  thief.ticket = first.ticket;
  thief.ticket->epoch += 1;
  EXPECT_ERRC(join(thief), Errc::kUnauthenticated) << "a ticket that is not genuine";
  TestClient of_operator = connect(wide.user);
  thief.id = of_operator.id;
  thief.ticket.reset();
  EXPECT_ERRC(join(thief), Errc::kUnauthenticated) << "a session of the client key";
  thief.ticket = of_operator.ticket;
  EXPECT_ERRC(join(thief), Errc::kUnauthenticated) << "a key of one user is good for less";
  EXPECT_OK(join(first));
  UserKey next = wide;
  next.id = key_of(3).id;
  first.user_key = next;
  EXPECT_OK(join(first)) << "a new key for the same user and groups";
}

/// A write by another user clears set-uid. The server learns of writes by the change sum, which clients tell when they
/// close.
TEST_F(MetaUserKeys, AUserCannotDenyThatHeHasWrittenAnothersProgram) {
  const Handle file = make_file(operators, "program", 10);
  wire::SetattrRequest change;
  change.where = at("program");
  change.mode = 04777;
  ASSERT_OK(asked<wire::ObjectReply>(operators, change));
  TestClient user = holder(key_of(1));
  const wire::DataSummary before = data_of(file);
  ASSERT_OK(open_file(user, "program", wire::kOpenWrite));
  ASSERT_TRUE(write(user, file, 20));
  ASSERT_OK(close_file(user, file, Rights::kWrite, before));
  wait(std::chrono::seconds(5));
  EXPECT_EQ(stat(operators, "program")->mode, 0777U);

  ASSERT_OK(asked<wire::ObjectReply>(operators, change));
  ASSERT_OK(open_file(user, "program", wire::kOpenWrite));
  wire::DataSummary later = data_of(file);
  ++later.change_sum;  // as it will be after his write
  wire::SetattrRequest times;
  times.where = at("program");
  times.atime_now = times.mtime_now = true;
  times.data = later;
  ASSERT_OK(asked<wire::ObjectReply>(user, times));
  ASSERT_TRUE(write(user, file, 30));
  ASSERT_EQ(data_of(file).change_sum, later.change_sum) << "the attack is one";
  ASSERT_OK(close_file(user, file, Rights::kWrite));
  wait(std::chrono::seconds(5));
  EXPECT_EQ(stat(operators, "program")->mode, 0777U);
}

TEST_F(MetaUserKeys, AUserGivesNoNamesToFilesOfOthersThatHeMayNotWrite) {
  for (const auto& [name, mode] : {std::pair("secret", 0600U), std::pair("readable", 0644U), std::pair("lends", 04777U),
                                   std::pair("shared", 0666U)})
    ASSERT_OK(create(operators, name, 0, mode));
  TestClient user = holder(key_of(1));
  ASSERT_OK(create(user, "own", 0, 0400));
  const auto link = [this](TestClient& client, const std::string& name) {
    wire::LinkRequest request;
    request.existing.start = stat(operators, name)->handle;  // past all folders
    request.where = at(name + "-link");
    return asked<wire::ObjectReply>(client, request);
  };
  for (const char* const name : {"secret", "readable", "lends"}) EXPECT_ERRC(link(user, name), Errc::kNotPermitted);
  for (const char* const name : {"shared", "own"}) EXPECT_OK(link(user, name));
  TestClient believed = connect();
  EXPECT_OK(link(believed, "readable"));
}

/// docs/security.md, "What keys of users do not do": getattr asks for no right on the folders above. Nothing else does.
TEST_F(MetaUserKeys, BehindAFolderWithoutSearchPermissionAUserSeesAttributesOnly) {
  wire::MkdirRequest folder;
  folder.where = at("closed");
  folder.attributes.mode = 0700;
  ASSERT_OK(asked<wire::ObjectReply>(operators, folder));
  ASSERT_OK(create(operators, "closed/secret", 0, 0600));
  const Handle closed = stat(operators, "closed")->handle;
  const Handle secret = stat(operators, "closed/secret")->handle;
  TestClient user = holder(key_of(1));
  wire::GetattrRequest look;
  look.handle = secret;
  const auto seen = asked<wire::ObjectReply>(user, look, no_id());
  ASSERT_OK(seen);
  EXPECT_EQ(seen->attributes.mode, 0600U);

  wire::OpenRequest open;
  open.where.start = secret;
  open.open_flags = wire::kOpenRead;
  EXPECT_ERRC(asked<wire::OpenReply>(user, open), Errc::kPermissionDenied);
  wire::AccessRequest access;
  access.where.start = secret;
  access.want = 4;
  EXPECT_ERRC(asked<wire::AccessReply>(user, access, no_id()), Errc::kPermissionDenied);
  wire::GetxattrRequest value;
  value.where.start = secret;
  value.name = "user.a";
  EXPECT_ERRC(asked<wire::GetxattrReply>(user, value, no_id()), Errc::kPermissionDenied);
  wire::SetattrRequest times;
  times.where.start = secret;
  times.atime_now = times.mtime_now = true;
  EXPECT_ERRC(asked<wire::ObjectReply>(user, times), Errc::kPermissionDenied);
  wire::ReaddirRequest names;
  names.handle = closed;
  EXPECT_ERRC(asked<wire::ReaddirReply>(user, names, no_id()), Errc::kPermissionDenied);
  wire::LookupRequest name;
  name.where.start = closed;
  name.where.path = "secret";
  EXPECT_ERRC(asked<wire::ObjectReply>(user, name, no_id()), Errc::kPermissionDenied);
  wire::UnlinkRequest unlink;
  unlink.where = name.where;
  EXPECT_ERRC(asked<wire::UnlinkReply>(user, unlink), Errc::kPermissionDenied);
}

TEST_F(MetaUserKeys, RevocationEndsTheSessionsOfTheKeyAndOfNoOther) {
  TestClient lost = holder(key_of(1));
  TestClient kept = holder(key_of(2));
  const auto made = create(lost, "f", kRW);
  ASSERT_OK(made);
  ASSERT_OK(revoke({key_of(1).id}));
  EXPECT_ERRC(keep_alive(lost), Errc::kSessionFenced);
  EXPECT_OK(keep_alive(kept));
  wait(std::chrono::seconds(1));
  EXPECT_EQ(io.fences[lost.id], 2U) << "the io servers refuse the session";
  EXPECT_EQ(records(KeyKind::kOpen), 0U);
  const auto back = join(lost);
  EXPECT_ERRC(back, Errc::kUnauthenticated);
  EXPECT_THAT(back.error().message(), HasSubstr("was revoked"));
}

TEST_F(MetaUserKeys, RevocationEndsSessionsThatHaveNotComeBackSinceARestart) {
  TestClient lost = holder(key_of(1));
  TestClient kept = holder(key_of(2));
  ASSERT_OK(create(lost, "f", kRW));
  ASSERT_OK(sync(lost));
  restart();
  ASSERT_OK(join(operators));
  ASSERT_OK(revoke({key_of(1).id}));
  EXPECT_ERRC(keep_alive(lost), Errc::kSessionFenced);
  EXPECT_OK(keep_alive(kept));
  wait(std::chrono::seconds(1));
  EXPECT_EQ(io.fences[lost.id], 2U);
  EXPECT_EQ(records(KeyKind::kOpen), 0U);
}

TEST_F(MetaUserKeys, ASessionEndsWithTheKeyThatItWasResumedWithLast) {
  TestClient client = holder(key_of(1));
  client.user_key = key_of(2);
  ASSERT_OK(join(client));
  ASSERT_OK(revoke({key_of(1).id}));
  EXPECT_OK(keep_alive(client));
  restart();
  ASSERT_OK(join(operators));
  ASSERT_OK(revoke({key_of(2).id}));
  EXPECT_ERRC(keep_alive(client), Errc::kSessionFenced);
}

}  // namespace
}  // namespace spate::meta
