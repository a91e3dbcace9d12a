// SPDX-License-Identifier: Apache-2.0
// Keys for one directory at the meta server: each request is checked, each part of a batch, locks, and sessions.
#include <gmock/gmock.h>

#include "base/expect.h"
#include "rpc/permits.h"
#include "server/meta/names/operations.h"
#include "server/meta/testing/confined_keys_test.h"
#include "wire/handles.h"

namespace spate::meta {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

class ConfinedRequests : public ConfinedKeys {
 protected:
  /// The operations whose requests name no object.
  template <typename Request>
  void expect_refused(wire::Op op) {
    Request request;
    bool names_any = false;
    wire::visit_handles(request, [&](Handle& handle) {
      names_any = true;
      handle = outside;
    });
    if (!names_any) {
      without_handles.insert(op);
      return;
    }
    const auto complete = [this](wire::LockSpec& lock) {
      lock.handle = outside;
      lock.kind = LockKind::kFlock;
      lock.mode = LockMode::kShared;
      lock.last = LockRange{}.last;
    };
    if constexpr (requires { request.lock; }) complete(request.lock);
    if constexpr (Request::kOp == wire::Op::kLock) request.sequence = request.oldest = 1;
    EXPECT_ERRC(asked<wire::Empty>(user, request, no_id()), Errc::kPermissionDenied) << op_name(op);
    ++refused;
  }

  std::set<wire::Op> without_handles;
  int refused = 0;
};

/// A new request is here by itself, and is refused by itself.
TEST_F(ConfinedRequests, EveryRequestThatNamesAnObjectOutsideIsRefused) {
  const auto open = [this](wire::Op op) {
    const auto access = role->service().operations().at(op).access;
    return access == rpc::Access::kReaders || access == rpc::Access::kWriters;
  };
#define SPATE_TEST_ROW(id, number, name, callers) \
  if (open(wire::Op::k##id)) expect_refused<wire::id##Request>(wire::Op::k##id);
  SPATE_META_READS(SPATE_TEST_ROW)
  SPATE_META_CHANGES(SPATE_TEST_ROW)
#undef SPATE_TEST_ROW
  expect_refused<wire::LockRequest>(wire::Op::kLock);
  expect_refused<wire::LockTestRequest>(wire::Op::kLockTest);
  using wire::Op;
  // The last two name them within: see below.
  EXPECT_THAT(without_handles, UnorderedElementsAre(Op::kMetaStatfs, Op::kMetaSync, Op::kClusterMap, Op::kDataGroups,
                                                    Op::kChangeBatch, Op::kQueuedChanges));
  EXPECT_GE(refused, 24);
}

TEST_F(ConfinedRequests, LocksAreTakenInsideOnly) {
  EXPECT_OK(lock(user, inside, LockMode::kShared));
  EXPECT_ERRC(lock(user, outside, LockMode::kShared), Errc::kPermissionDenied);
  EXPECT_ERRC(lock(user, outside, LockMode::kExclusive, LockKind::kAppend), Errc::kPermissionDenied);
  ASSERT_OK(rename(operators, "top/data/f", "top/other/f"));
  EXPECT_ERRC(lock(user, inside, LockMode::kExclusive), Errc::kPermissionDenied);
  EXPECT_OK(lock(user, inside, LockMode::kNone)) << "its own lock it may release";
}

/// Others are refused one by one: the claim of a lock inside must not fail with them.
TEST_F(ConfinedRequests, LocksAreClaimedAgainInsideOnly) {
  ASSERT_OK(lock(user, inside, LockMode::kShared));
  restart();
  wire::LockReclaimRequest claim;
  for (const Handle handle : {outside, inside})
    claim.locks.push_back({handle, LockKind::kFlock, 0, 0, LockMode::kShared, 0, LockRange::kToEnd});
  claim.last = true;
  const auto claimed = asked<wire::LockReclaimReply>(user, claim, no_id());
  ASSERT_OK(claimed);
  EXPECT_THAT(claimed->lost, ElementsAre(0U));
  EXPECT_OK(lock(operators, outside, LockMode::kExclusive)) << "the user has a lock there";
  EXPECT_ERRC(lock(operators, inside, LockMode::kExclusive), Errc::kTryAgain);
}

TEST_F(ConfinedRequests, ABatchIsCheckedChangeByChange) {
  const auto batched = [](auto request) {
    wire::BatchedChange change{decltype(request)::kOp, {}};
    wire::encode_body(request, change.body);
    return change;
  };
  wire::MkdirRequest directory;
  directory.attributes.mode = 0755;
  wire::ChangeBatchRequest request;
  for (const char* path : {"top/data/one", "top/one", "top/other/one", "top/data/two"}) {
    directory.where = at(path);
    request.changes.push_back(batched(directory));
  }
  wire::SetattrRequest by_handle;
  by_handle.where.start = outside;
  by_handle.mtime_now = true;
  request.changes.push_back(batched(by_handle));
  const auto reply = asked<wire::ChangeBatchReply>(user, request);
  ASSERT_OK(reply);
  std::vector<Errc> codes;
  for (const wire::BatchedAnswer& answer : reply->answers) codes.push_back(answer.status);
  EXPECT_THAT(codes, ElementsAre(Errc::kOk, Errc::kPermissionDenied, Errc::kPermissionDenied, Errc::kOk,
                                 Errc::kPermissionDenied));
}

job::Task<Result<Bytes>> put_outside(Operation& operation, ByteView request) {
  const auto where = wire::decode_body<wire::CloseRequest>(request);
  SPATE_CO_TRY(auto inode, co_await operation.get<InodeRecord>(inode_key(where->handle)));
  inode->attributes.mode = 0;
  operation.put(*inode);
  co_return Bytes();
}

job::Task<Result<Bytes>> lock_outside(Operation& operation, ByteView request) {
  const auto where = wire::decode_body<wire::CloseRequest>(request);
  SPATE_CO_TRY(std::ignore, operation.lock({where->handle}));
  co_return Bytes();
}

/// Functions that forget to check what they read.
TEST_F(ConfinedRequests, AChangeBeyondTheDirectoryIsNotCommitted) {
  wire::CloseRequest request;
  const auto change = [&](Body body) {
    Bytes bytes;
    wire::encode_body(request, bytes);
    rpc::Call call;
    call.header.op = wire::Op::kClose;
    call.header.client = user.id;
    call.header.session_epoch = user.epoch;
    call.peer = std::make_shared<rpc::Peer>();
    call.peer->credential = user.who;
    call.peer->user_key = user.user_key;
    return run(role->core().change(call, bytes, body)).code();
  };
  const std::uint32_t mode = inode(outside).attributes.mode;
  request.handle = outside;
  EXPECT_EQ(change(&put_outside), Errc::kPermissionDenied);
  EXPECT_EQ(inode(outside).attributes.mode, mode);
  EXPECT_EQ(change(&lock_outside), Errc::kPermissionDenied);
}

/// Between a run and its commit others move directories.
TEST_F(ConfinedRequests, WhatARunHasChangedMustStillBeInsideAtItsCommit) {
  rpc::Call call;
  call.peer = std::make_shared<rpc::Peer>();
  call.peer->user_key = user.user_key;
  Confinement confinement(call);
  const StoreKey key = inode_key(handle_of("top/data/sub/f"));
  confinement.note_change(key);
  const auto holds = [&] {
    job::Transaction now(role->core().store().begin());
    const auto held = run(confinement.still_holds(now));
    EXPECT_OK(held);
    return held && *held;
  };
  EXPECT_TRUE(holds()) << "it is inside";
  ASSERT_OK(rename(operators, "top/data/sub", "top/other/sub"));
  EXPECT_FALSE(holds()) << "it was moved out with its directory";
}

/// A change waits for other clients' leases. Meanwhile its object is moved away.
TEST_F(ConfinedRequests, AChangeThatHasWaitedForALeaseIsRefusedIfItsObjectIsOutsideByThen) {
  const Handle file = handle_of("top/data/sub/f");
  const WallTime written = inode(file).attributes.mtime;
  TestClient keeper = connect();
  wire::LookupLeaseRequest look;
  look.where.start = file;  // by its handle, so that the move of its directory recalls nothing
  const auto kept = asked<wire::LookupLeaseReply>(keeper, look, no_id());
  ASSERT_OK(kept);
  ASSERT_TRUE(is_granted(*kept)) << "the other client has no lease on the file";
  wire::SetattrRequest change;
  change.where.start = file;
  change.atime_now = change.mtime_now = true;
  wait(std::chrono::milliseconds(1));  // so that the times would change
  const auto changing = begin<wire::ObjectReply>(user, change, id(++user.next), std::chrono::minutes(1));
  ASSERT_EQ(changing->result, std::nullopt) << "it does not wait for the lease";
  ASSERT_OK(rename(operators, "top/data/sub", "top/other/sub"));
  ASSERT_EQ(changing->result, std::nullopt) << "it did not wait until the directory was moved";
  wait(std::chrono::milliseconds(kept->lease_ms) + std::chrono::seconds(1));
  EXPECT_ERRC(changing->result, Errc::kPermissionDenied);
  EXPECT_EQ(inode(file).attributes.mtime.ns, written.ns);
}

/// A silent io server must not keep other requests from running.
TEST_F(ConfinedRequests, ARequestHasNoPermitWhileIoServersAreAskedForASize) {
  ASSERT_OK(open_file(operators, "top/data/f", wire::kOpenWrite));
  rpc::Permits only_one(1, 1);
  only_one.take();
  permits = &only_one;
  io.hold();
  wire::GetattrRequest request;
  request.handle = inside;
  const auto asking = begin<wire::ObjectReply>(user, request, no_id());
  ASSERT_EQ(asking->result, std::nullopt) << "it does not wait for the io servers";
  EXPECT_TRUE(only_one.free()) << "it has its permit while it waits";
  io.release();
  run_ready();
  EXPECT_OK(asking->result);
  EXPECT_FALSE(only_one.free()) << "it has no permit afterwards";
}

TEST_F(ConfinedRequests, ASizeThatIoServersDoNotTellIsShownAsUnknown) {
  ASSERT_OK(open_file(operators, "top/data/f", wire::kOpenWrite));
  io.fail = [](std::string_view) { return Errc::kUnreachable; };
  const auto unknown = getattr(user, inside);
  ASSERT_OK(unknown);
  EXPECT_FALSE(knows_size(unknown->attributes)) << "its size is " << unknown->attributes.size;
  io.fail = {};
  const auto known = getattr(user, inside);
  ASSERT_OK(known);
  EXPECT_TRUE(knows_size(known->attributes)) << "the io servers answer again";
}

/// The chain of parents is followed for each request, so its length has a bound.
TEST_F(ConfinedRequests, WhatIsMoreThan4096DirectoriesBelowTheKeysIsRefused) {
  constexpr std::uint64_t kDeepest = 4096;
  constexpr std::uint64_t kFirst = 1'000'000;  // a handle that no object has
  InodeRecord below = inode(handle_of("top/data/sub"));
  job::Transaction transaction = context.begin();
  for (std::uint64_t depth = 1; depth <= kDeepest + 1; ++depth) {
    below.attributes.handle = Handle(kFirst + depth);
    below.parent = depth == 1 ? data : Handle(kFirst + depth - 1);
    transaction.put(inode_key(below.handle()), encoded(below));
  }
  const auto commit = [](job::Transaction& change) -> job::Task<Errc> {
    const auto done = co_await change.commit(trove::Durability::kProcess);
    co_return done.status;
  };
  ASSERT_OK(run(commit(transaction)));
  EXPECT_OK(getattr(user, Handle(kFirst + kDeepest)));
  EXPECT_ERRC(getattr(user, Handle(kFirst + kDeepest + 1)), Errc::kPermissionDenied);
  EXPECT_OK(getattr(operators, Handle(kFirst + kDeepest + 1)));
}

/// Objects that a session has open count as inside, so it must have been opened with this key.
TEST_F(ConfinedRequests, ASessionIsResumedWithTheVeryKeyOnly) {
  UserKey wide = key_of(7);
  TestClient free = holder(wide);
  ASSERT_OK(open_by_handle(free, outside));
  TestClient thief = free;
  thief.user_key = confined(1);
  EXPECT_ERRC(join(thief), Errc::kUnauthenticated);
  TestClient other = user;
  other.user_key = confined(2);
  EXPECT_ERRC(join(other), Errc::kUnauthenticated);
  EXPECT_OK(join(user));
  user.user_key = wide;
  EXPECT_OK(join(user)) << "a key for the whole file system covers it";
  user.user_key = confined(1);
  EXPECT_ERRC(join(user), Errc::kUnauthenticated);
}

}  // namespace
}  // namespace spate::meta
